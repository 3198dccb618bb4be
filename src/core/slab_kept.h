/*
 * Runs that were freed last and are free, but taken still by their region's bits: a request for
 * just as much has one of them without a search, and its free enters nothing. Few, since to all
 * other requests they are not there: the slab gives them up when it is asked what it has, and
 * before it says that there is no room.
 *
 * No lock inside: slab.c orders the calls.
 */
#pragma once

#include "core/slab_region.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	SLAB_KEPT_RUNS = 16,
	SLAB_KEPT_CHUNKS = SLAB_BLOCK_CHUNKS, /* of all together */
};

struct slab_kept_run {
	struct slab_region *region;
	uint32_t chunk, count;
};

/* One of zeros is empty. */
struct slab_kept {
	struct slab_kept_run runs[SLAB_KEPT_RUNS]; /* the oldest first */
	uint32_t used, chunks;
};

/* True when a run of so many chunks may be kept at all. */
static inline bool slab_kept_takes(uint32_t count)
{
	return count <= SLAB_KEPT_CHUNKS;
}

/* Takes out the oldest while there is no room for one of `count` more; false when there is. */
bool slab_kept_give_way(struct slab_kept *kept, uint32_t count, struct slab_kept_run *out_run);

/* Takes out the oldest; false when there is none. */
bool slab_kept_pop(struct slab_kept *kept, struct slab_kept_run *out_run);

/* Keeps a run, for which there is room. */
void slab_kept_put(struct slab_kept *kept, struct slab_kept_run run);

/* Takes out the last that has just so many chunks; false when there is none. */
bool slab_kept_take(struct slab_kept *kept, uint32_t count, struct slab_kept_run *out_run);
