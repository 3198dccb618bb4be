#include "cuda_limit.h"

#include "cuda_call.h"
#include "cuda_context.h"
#include "cuda_device.h"
#include "cuda_heap.h"
#include "cuda_image.h"
#include "cuda_stream.h"

enum {
	STACK_BYTES = 1024,
	STACK_MAX_BYTES = 512 << 10,
	FIFO_BYTES = 8650752,
	HEAP_BYTES = 8 << 20,
	HEAP_MORE_BYTES = 2 << 20,
	LAUNCHES = 2048,
	LAUNCH_BYTES = 9420, /* of one that waits */
};
enum { THREADS_PER_SM = 2048, GRANULARITY_MAX_BYTES = 128 };

/* What a stack has more for the driver's own functions, as on an H200 (docs/real-gpu.md). */
enum {
	PRINT_STACK_BYTES = 240,
	OTHER_STACK_BYTES = 341,
	LAUNCH_STACK_BYTES = 318,
	HEAP_STACK_BYTES = 528
};

void cuda_limit_start(struct CUctx_st *ctx)
{
	for (int i = 0; i < CONTEXT_LIMITS; i++)
		ctx->limit_bytes[i] = 0;
	ctx->calls = 0;
	ctx->limit[CU_LIMIT_STACK_SIZE] = STACK_BYTES;
	ctx->limit[CU_LIMIT_PRINTF_FIFO_SIZE] = FIFO_BYTES;
	ctx->limit[CU_LIMIT_MALLOC_HEAP_SIZE] = HEAP_BYTES;
	ctx->limit[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = LAUNCHES;
	ctx->limit[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = GRANULARITY_MAX_BYTES;
	ctx->limit[CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = 0;
}

void cuda_limit_stop(struct CUctx_st *ctx)
{
	for (int i = 0; i < CONTEXT_LIMITS; i++) {
		machine_give(ctx->index, ctx->limit_bytes[i]);
		ctx->limit_bytes[i] = 0;
	}
}

/* What setting a limit costs, in whole blocks. */
static uint64_t cost(const struct CUctx_st *ctx, CUlimit limit, size_t value)
{
	uint64_t bytes = 0;

	if (limit == CU_LIMIT_STACK_SIZE && value > STACK_BYTES)
		bytes = (value - STACK_BYTES) * THREADS_PER_SM * cuda_device_get(ctx->dev)->sms;
	else if (limit == CU_LIMIT_PRINTF_FIFO_SIZE && machine_has_early_heap() &&
		 value > FIFO_BYTES)
		bytes = value - FIFO_BYTES;
	else if (limit == CU_LIMIT_MALLOC_HEAP_SIZE && machine_has_early_heap() &&
		 value > HEAP_BYTES)
		bytes = value - HEAP_BYTES;
	else if (limit == CU_LIMIT_MALLOC_HEAP_SIZE && !machine_has_early_heap())
		bytes = ctx->limit_bytes[limit];
	else if (limit == CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT && ctx->calls & CALLS_LAUNCH)
		bytes = value < UINT32_MAX ? value * LAUNCH_BYTES : UINT64_MAX;
	return bytes > UINT64_MAX - HEAP_BLOCK_BYTES ?
		       UINT64_MAX :
		       (bytes + HEAP_BLOCK_BYTES - 1) / HEAP_BLOCK_BYTES * HEAP_BLOCK_BYTES;
}

static CUresult resize(struct CUctx_st *ctx, CUlimit limit, uint64_t bytes)
{
	uint64_t *held_bytes = &ctx->limit_bytes[limit];

	if (bytes > *held_bytes && machine_take(ctx->index, bytes - *held_bytes) != 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (bytes < *held_bytes)
		machine_give(ctx->index, *held_bytes - bytes);
	*held_bytes = bytes;
	return CUDA_SUCCESS;
}

/* Local memory has room for every thread that can be resident. What it grew to for one kernel stays
 * until the stack's limit is set anew. */
static CUresult grow(struct CUctx_st *ctx, uint32_t thread_bytes)
{
	uint64_t bytes = cost(ctx, CU_LIMIT_STACK_SIZE, thread_bytes);

	return bytes > ctx->limit_bytes[CU_LIMIT_STACK_SIZE] ?
		       resize(ctx, CU_LIMIT_STACK_SIZE, bytes) :
		       CUDA_SUCCESS;
}

CUresult cuda_limit_grow(struct CUctx_st *ctx, uint32_t thread_bytes, unsigned calls)
{
	const CUlimit heap = CU_LIMIT_MALLOC_HEAP_SIZE;
	CUresult res = grow(ctx, thread_bytes);

	if (res != CUDA_SUCCESS || !(calls & CALLS_HEAP) || machine_has_early_heap() ||
	    ctx->limit_bytes[heap])
		return res;
	return resize(ctx, heap,
		      ctx->limit[heap] / HEAP_BLOCK_BYTES * HEAP_BLOCK_BYTES + HEAP_MORE_BYTES);
}

CUresult cuda_limit_calls(struct CUctx_st *ctx, unsigned calls)
{
	const CUlimit waiting = CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT;
	uint32_t more = calls & CALLS_HEAP   ? HEAP_STACK_BYTES :
			calls & CALLS_OTHER  ? OTHER_STACK_BYTES :
			calls & CALLS_LAUNCH ? LAUNCH_STACK_BYTES :
			calls & CALLS_PRINT  ? PRINT_STACK_BYTES :
					       0;
	CUresult res = grow(ctx, STACK_BYTES + more);

	if (res != CUDA_SUCCESS)
		return res;
	ctx->calls |= calls;
	return calls & CALLS_LAUNCH ?
		       resize(ctx, waiting, cost(ctx, waiting, ctx->limit[waiting])) :
		       CUDA_SUCCESS;
}

/* What the driver has made already for what came to the context. */
static bool is_fixed(const struct CUctx_st *ctx, CUlimit limit)
{
	if (limit == CU_LIMIT_MALLOC_HEAP_SIZE)
		return !machine_has_early_heap() && ctx->limit_bytes[limit];
	return limit == CU_LIMIT_PRINTF_FIFO_SIZE && ctx->calls & (CALLS_PRINT | CALLS_OTHER);
}

/* Waiting for launches of the device's own went away; the rest can be had on this device. */
static bool has_limit(CUlimit limit)
{
	switch ((int)limit) {
	case CU_LIMIT_STACK_SIZE:
	case CU_LIMIT_PRINTF_FIFO_SIZE:
	case CU_LIMIT_MALLOC_HEAP_SIZE:
	case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
	case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
	case CU_LIMIT_PERSISTING_L2_CACHE_SIZE:
		return true;
	default:
		return false;
	}
}

static CUresult limit_error(CUlimit limit)
{
	return limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH ? CUDA_ERROR_UNSUPPORTED_LIMIT :
							  CUDA_ERROR_INVALID_VALUE;
}

CUresult cuCtxGetLimit(size_t *out_value, CUlimit limit)
{
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(CUDA_ID_cuCtxGetLimit, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_value)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	if (!has_limit(limit))
		return cuda_call_end(limit_error(limit));
	*out_value = ctx->limit[limit];
	return cuda_call_end(CUDA_SUCCESS);
}

/* Takes effect at once; memory that work may be using is not changed under it. */
CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
	struct CUctx_st *ctx;
	uint64_t bytes;
	CUresult res = cuda_call_begin_context(CUDA_ID_cuCtxSetLimit, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	if (!has_limit(limit))
		return cuda_call_end(limit_error(limit));
	if (limit == CU_LIMIT_STACK_SIZE) {
		if (value > STACK_MAX_BYTES)
			return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
		value = (value + 15) & ~(size_t)15;
	}
	if (limit == CU_LIMIT_MAX_L2_FETCH_GRANULARITY && value > GRANULARITY_MAX_BYTES)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	if (is_fixed(ctx, limit))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	bytes = cost(ctx, limit, value);
	if (bytes != ctx->limit_bytes[limit])
		cuda_stream_drain(ctx);
	if (!ctx->is_alive)
		return cuda_call_end(CUDA_ERROR_CONTEXT_IS_DESTROYED);
	res = resize(ctx, limit, bytes);
	if (res == CUDA_SUCCESS)
		ctx->limit[limit] = value;
	return cuda_call_end(res);
}
