/*
 * The first version of metering, to be compared: a marker per stream at most every 100 us, no pairs,
 * and all the time between two markers is busy once the first launch after the earlier was made.
 */
#pragma once

#include "gpu.h"

#include <ration/pace.h>

struct sparse_stream {
	int64_t marked_ns; /* last marker's submission */
	int64_t first_ns;  /* first launch after it */
	int64_t end_ns;    /* last marker's end */
};

struct sparse {
	struct queue *queue;
	struct pace_ring ring;
	struct sparse_stream streams[GPU_STREAMS];
	int64_t busy_ns;
};

/* A launch was submitted; puts a marker of its own behind it when one is due. */
void sparse_launched(struct sparse *sparse, struct gpu_stream *stream);
