#include "cuda_limit.h"

#include "cuda_call.h"
#include "cuda_context.h"
#include "cuda_device.h"
#include "cuda_heap.h"
#include "cuda_stream.h"

enum {
	STACK_BYTES = 1024,
	STACK_MAX_BYTES = 512 << 10,
	FIFO_BYTES = 7 << 20,
	HEAP_BYTES = 8 << 20
};
enum { THREADS_PER_SM = 2048, GRANULARITY_MAX_BYTES = 128 };

void cuda_limit_start(struct CUctx_st *ctx)
{
	for (int i = 0; i < CONTEXT_LIMITS; i++)
		ctx->limit_bytes[i] = 0;
	ctx->limit[CU_LIMIT_STACK_SIZE] = STACK_BYTES;
	ctx->limit[CU_LIMIT_PRINTF_FIFO_SIZE] = FIFO_BYTES;
	ctx->limit[CU_LIMIT_MALLOC_HEAP_SIZE] = HEAP_BYTES;
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

/* What the part of a limit above its start value costs, in whole blocks. */
static uint64_t cost(const struct CUctx_st *ctx, CUlimit limit, size_t value)
{
	uint64_t bytes = 0;

	if (limit == CU_LIMIT_STACK_SIZE && value > STACK_BYTES)
		bytes = (value - STACK_BYTES) * THREADS_PER_SM * cuda_device_get(ctx->dev)->sms;
	else if (limit == CU_LIMIT_PRINTF_FIFO_SIZE && value > FIFO_BYTES)
		bytes = value - FIFO_BYTES;
	else if (limit == CU_LIMIT_MALLOC_HEAP_SIZE && value > HEAP_BYTES)
		bytes = value - HEAP_BYTES;
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
CUresult cuda_limit_grow(struct CUctx_st *ctx, uint32_t thread_bytes)
{
	uint64_t bytes = cost(ctx, CU_LIMIT_STACK_SIZE, thread_bytes);

	return bytes > ctx->limit_bytes[CU_LIMIT_STACK_SIZE] ?
		       resize(ctx, CU_LIMIT_STACK_SIZE, bytes) :
		       CUDA_SUCCESS;
}

/* Limits of device-side launches went with them; the rest can be had on this device. */
static bool has_limit(CUlimit limit)
{
	switch ((int)limit) {
	case CU_LIMIT_STACK_SIZE:
	case CU_LIMIT_PRINTF_FIFO_SIZE:
	case CU_LIMIT_MALLOC_HEAP_SIZE:
	case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
	case CU_LIMIT_PERSISTING_L2_CACHE_SIZE:
		return true;
	default:
		return false;
	}
}

static CUresult limit_error(CUlimit limit)
{
	return limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH ||
			       limit == CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT ?
		       CUDA_ERROR_UNSUPPORTED_LIMIT :
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
