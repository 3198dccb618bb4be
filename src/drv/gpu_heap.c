#include "drv/gpu_heap.h"

#include "base/process.h"
#include "core/charge.h"
#include "core/promise.h"
#include "drv/real.h"

#include <pthread.h>
#include <stdatomic.h>

struct gpu_heap_state {
	/*
	 * Zero is an unlocked mutex. Held across calls of the driver by who asks alone: they return
	 * at once.
	 */
	pthread_mutex_t mutex;
	_Atomic unsigned setting; /* calls of the program's under way; begun under mutex */
};
PROCESS_STATE(gpu_heap_state, state);

static void lock(void)
{
	process_wipe_on_fork(&state, sizeof(state));
	pthread_mutex_lock(&state.s.mutex);
}

/* mutex held, and no size is being set. */
static bool is_there(CUcontext ctx)
{
	const CUlimit limit = CU_LIMIT_MALLOC_HEAP_SIZE;
	CUresult res = CUDA_ERROR_UNKNOWN;
	CUcontext popped;
	size_t value;

	if (real.cuCtxPushCurrent_v2(ctx) != CUDA_SUCCESS)
		return false;
	if (real.cuCtxGetLimit(&value, limit) == CUDA_SUCCESS)
		res = real.cuCtxSetLimit(limit, value);
	real.cuCtxPopCurrent_v2(&popped);
	return res == CUDA_ERROR_INVALID_VALUE;
}

/* The next one that is awaited, and whether it is there; false: there is none, or not now. */
static bool ask_next(struct dev dev, struct promise *inout, bool *out_is_there)
{
	bool is_any;

	lock();
	is_any = atomic_load(&state.s.setting) == 0 && promise_next(dev, inout->number, inout);
	if (is_any)
		*out_is_there = is_there((CUcontext)(uintptr_t)inout->ctx);
	pthread_mutex_unlock(&state.s.mutex);
	return is_any;
}

void gpu_heap_look(struct dev dev)
{
	struct promise heap = { .number = 0 };
	bool has_come = false;

	if (!promise_bytes(dev) || !real.cuCtxGetLimit || !real.cuCtxSetLimit ||
	    !real.cuCtxPushCurrent_v2 || !real.cuCtxPopCurrent_v2)
		return;
	while (ask_next(dev, &heap, &has_come)) {
		if (!has_come)
			continue;
		/* No look at the card that began before it was there counts after this. */
		charge_begin();
		promise_come(heap.number);
		charge_over();
	}
}

CUresult gpu_heap_set_limit(CUlimit limit, size_t value)
{
	CUresult res;

	if (limit != CU_LIMIT_MALLOC_HEAP_SIZE)
		return real.cuCtxSetLimit(limit, value);
	lock();
	atomic_fetch_add(&state.s.setting, 1);
	pthread_mutex_unlock(&state.s.mutex);
	res = real.cuCtxSetLimit(limit, value);
	atomic_fetch_sub(&state.s.setting, 1);
	return res;
}

void gpu_heap_end_context(CUcontext ctx, const void *to)
{
	lock();
	promise_rename(ctx, to);
	pthread_mutex_unlock(&state.s.mutex);
}
