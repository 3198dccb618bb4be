#include "cuda_call.h"
#include "cuda_context.h"
#include "cuda_device.h"

static struct CUctx_st *primaries[MACHINE_DEVICES]; /* the driver's lock; by ordinal */

static CUresult begin(enum cuda_id id, CUdevice dev)
{
	CUresult res = cuda_call_begin(id);

	if (res != CUDA_SUCCESS)
		return res;
	if (!cuda_device_is_valid(dev))
		return cuda_call_end(CUDA_ERROR_INVALID_DEVICE);
	if (!primaries[dev])
		primaries[dev] = cuda_context_new(dev, true);
	return primaries[dev] ? CUDA_SUCCESS : cuda_call_end(CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuda_primary_retain(CUdevice dev, struct CUctx_st **out_ctx)
{
	struct CUctx_st *ctx = primaries[dev];
	CUresult res = CUDA_SUCCESS;

	if (!ctx)
		ctx = primaries[dev] = cuda_context_new(dev, true);
	if (!ctx)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!ctx->is_alive)
		res = cuda_context_start(ctx, dev, ctx->flags);
	if (res != CUDA_SUCCESS)
		return res;
	ctx->references++;
	*out_ctx = ctx;
	return CUDA_SUCCESS;
}

void cuda_primary_release(struct CUctx_st *ctx)
{
	if (--ctx->references == 0)
		cuda_context_stop(ctx);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *out_ctx, CUdevice dev)
{
	CUresult res = begin(CUDA_ID_cuDevicePrimaryCtxRetain, dev);

	if (res != CUDA_SUCCESS)
		return res;
	return cuda_call_end(out_ctx ? cuda_primary_retain(dev, out_ctx) :
				       CUDA_ERROR_INVALID_VALUE);
}

static CUresult release(enum cuda_id id, CUdevice dev)
{
	CUresult res = begin(id, dev);
	struct CUctx_st *ctx;

	if (res != CUDA_SUCCESS)
		return res;
	ctx = primaries[dev];
	if (!ctx->references)
		return cuda_call_end(CUDA_ERROR_INVALID_CONTEXT);
	cuda_primary_release(ctx);
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
	return release(CUDA_ID_cuDevicePrimaryCtxRelease, dev);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	return release(CUDA_ID_cuDevicePrimaryCtxRelease_v2, dev);
}

/* Ends the context whatever its references. */
static CUresult reset(enum cuda_id id, CUdevice dev)
{
	CUresult res = begin(id, dev);
	struct CUctx_st *ctx;

	if (res != CUDA_SUCCESS)
		return res;
	ctx = primaries[dev];
	ctx->references = 0;
	if (ctx->is_alive)
		cuda_context_stop(ctx);
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
	return reset(CUDA_ID_cuDevicePrimaryCtxReset, dev);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	return reset(CUDA_ID_cuDevicePrimaryCtxReset_v2, dev);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *out_flags, int *out_active)
{
	CUresult res = begin(CUDA_ID_cuDevicePrimaryCtxGetState, dev);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_flags || !out_active)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	*out_flags = primaries[dev]->flags;
	*out_active = primaries[dev]->is_alive;
	return cuda_call_end(CUDA_SUCCESS);
}

static CUresult set_flags(enum cuda_id id, CUdevice dev, unsigned flags)
{
	CUresult res = begin(id, dev);

	if (res != CUDA_SUCCESS)
		return res;
	if (!cuda_context_are_flags_valid(flags))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	primaries[dev]->flags = flags;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
	return set_flags(CUDA_ID_cuDevicePrimaryCtxSetFlags, dev, flags);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
	return set_flags(CUDA_ID_cuDevicePrimaryCtxSetFlags_v2, dev, flags);
}
