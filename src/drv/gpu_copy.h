/*
 * Copies of whole objects, on two streams of ours in a context of the device: what leaves the
 * device and what comes to it go at once. They are waited for in parts, of which four are under way
 * at most: of each direction the device copies one while another is prepared.
 *
 * Of one thread at a time, which has everything stand still: no context ends meanwhile.
 */
#pragma once

#include "abi/cuda.h"
#include "core/device.h"

#include <stdbool.h>
#include <stdint.h>

enum gpu_copy_way { GPU_COPY_OUT, GPU_COPY_IN, GPU_COPY_WAYS };
enum { GPU_COPY_PARTS = 4 };

struct gpu_copy {
	struct cuda_ord ord;
	CUcontext ctx; /* NULL: no streams yet, or of a context that is gone */
	uint64_t serial;
	CUstream streams[GPU_COPY_WAYS];
	CUevent ends[GPU_COPY_PARTS][GPU_COPY_WAYS]; /* NULL: not made yet */
	bool is_marked[GPU_COPY_PARTS];              /* its end has events */
	bool has[GPU_COPY_PARTS + 1]
		[GPU_COPY_WAYS]; /* it has copies; the last is without end yet */
};

/* Has streams in a living context, and that context current. 0; -EAGAIN without a context. */
int gpu_copy_begin(struct gpu_copy *copy);

/*
 * Starts one. Each side is an address that the device reaches; or `pages` of the process stand for
 * the side that is not the device's, and then it returns when it is done.
 */
int gpu_copy_start(struct gpu_copy *copy, enum gpu_copy_way way, uint64_t to, uint64_t from,
		   void *pages, uint64_t bytes);

/* What was started since the last end of a part is part `part`. */
void gpu_copy_end_part(struct gpu_copy *copy, unsigned part);

/*
 * Waits until all of a part that has its end are done: 0, -EBUSY at until_ns, -ENODEV when the
 * context has failed, so that they are over but not done.
 */
int gpu_copy_wait(struct gpu_copy *copy, unsigned part, int64_t until_ns);

/* The context is current no longer. */
void gpu_copy_end(struct gpu_copy *copy);

/* True when nothing that was started is under way, or its context is gone. */
bool gpu_copy_is_over(struct gpu_copy *copy);
