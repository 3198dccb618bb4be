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
	res = *ctx ? cuda_context_resolve(ctx) : cuda_context_current_any(ctx);
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
