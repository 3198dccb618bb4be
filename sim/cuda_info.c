#include "cuda_call.h"
#include "cuda_context.h"
#include "cuda_device.h"
#include "cuda_object.h"
#include "cuda_stream.h"

enum { GREATEST_PRIORITY = -5 };

CUresult cuCtxGetDevice(CUdevice *out_dev)
{
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin(CUDA_ID_cuCtxGetDevice);

	if (res != CUDA_SUCCESS)
		return res;
	res = out_dev ? cuda_context_current_any(&ctx) : CUDA_ERROR_INVALID_VALUE;
	if (res == CUDA_SUCCESS)
		*out_dev = ctx->dev;
	return cuda_call_end(res);
}

/* Starts a call about a context that may be given or be the current one. */
static CUresult begin(enum cuda_id id, struct CUctx_st **ctx)
{
	CUresult res = cuda_call_begin(id);

	if (res != CUDA_SUCCESS)
		return res;
	res = *ctx ? cuda_context_check(*ctx) : cuda_context_current_any(ctx);
	return res == CUDA_SUCCESS ? res : cuda_call_end(res);
}

CUresult cuCtxGetDevice_v2(CUdevice *out_dev, CUcontext ctx)
{
	CUresult res = begin(CUDA_ID_cuCtxGetDevice_v2, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_dev)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	*out_dev = ctx->dev;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *out_version)
{
	CUresult res = begin(CUDA_ID_cuCtxGetApiVersion, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_version)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	*out_version = ctx->api_version;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuCtxGetId(CUcontext ctx, unsigned long long *out_id)
{
	CUresult res = begin(CUDA_ID_cuCtxGetId, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_id)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	*out_id = ctx->id;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuCtxGetFlags(unsigned int *out_flags)
{
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(CUDA_ID_cuCtxGetFlags, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_flags)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	*out_flags = ctx->flags;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuCtxSetFlags(unsigned int flags)
{
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(CUDA_ID_cuCtxSetFlags, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	if (!cuda_context_are_flags_valid(flags))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	ctx->flags = flags;
	return cuda_call_end(CUDA_SUCCESS);
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

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
	const size_t most_stack_bytes = 512 << 10;
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(CUDA_ID_cuCtxSetLimit, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	if (!has_limit(limit))
		return cuda_call_end(limit_error(limit));
	if (limit == CU_LIMIT_STACK_SIZE) {
		if (value > most_stack_bytes)
			return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
		value = (value + 15) & ~(size_t)15;
	}
	if (limit == CU_LIMIT_MAX_L2_FETCH_GRANULARITY && value > 128)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	ctx->limit[limit] = value;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *out_config)
{
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(CUDA_ID_cuCtxGetCacheConfig, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_config)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	*out_config = ctx->cache_config;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(CUDA_ID_cuCtxSetCacheConfig, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	if ((int)config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	ctx->cache_config = config;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuCtxGetStreamPriorityRange(int *out_least, int *out_greatest)
{
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(CUDA_ID_cuCtxGetStreamPriorityRange, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	if (out_least)
		*out_least = 0;
	if (out_greatest)
		*out_greatest = GREATEST_PRIORITY;
	return cuda_call_end(CUDA_SUCCESS);
}

/* Nothing persists in a cache that is not there. */
CUresult cuCtxResetPersistingL2Cache(void)
{
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(CUDA_ID_cuCtxResetPersistingL2Cache, &ctx);

	return res == CUDA_SUCCESS ? cuda_call_end(CUDA_SUCCESS) : res;
}

/* Counts one more user of the current context, which is not primary. */
CUresult cuCtxAttach(CUcontext *out_ctx, unsigned int flags)
{
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(CUDA_ID_cuCtxAttach, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_ctx || flags)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	if (ctx->is_primary)
		return cuda_call_end(CUDA_ERROR_INVALID_CONTEXT);
	ctx->references++;
	*out_ctx = ctx;
	return cuda_call_end(CUDA_SUCCESS);
}

/* The bank size is fixed on this device; what is asked for is kept and otherwise ignored. */
CUresult cuCtxGetSharedMemConfig(CUsharedconfig *out_config)
{
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(CUDA_ID_cuCtxGetSharedMemConfig, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_config)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	*out_config = ctx->shared_config;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(CUDA_ID_cuCtxSetSharedMemConfig, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	if ((unsigned)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	ctx->shared_config = config;
	return cuda_call_end(CUDA_SUCCESS);
}
