#include "cuda_call.h"
#include "cuda_context.h"
#include "cuda_device.h"
#include "cuda_range.h"
#include "machine.h"

/* Starts a call about two devices. */
static CUresult begin(enum cuda_id id, const void *out, CUdevice dev, CUdevice peer)
{
	CUresult res = cuda_call_begin(id);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	if (!cuda_device_is_valid(dev) || !cuda_device_is_valid(peer))
		return cuda_call_end(CUDA_ERROR_INVALID_DEVICE);
	return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *out_can, CUdevice dev, CUdevice peer)
{
	CUresult res = begin(CUDA_ID_cuDeviceCanAccessPeer, out_can, dev, peer);

	if (res != CUDA_SUCCESS)
		return res;
	*out_can = dev != peer && machine_has_peers();
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuDeviceGetP2PAttribute(int *out_value, CUdevice_P2PAttribute attribute, CUdevice src,
				 CUdevice dst)
{
	CUresult res = begin(CUDA_ID_cuDeviceGetP2PAttribute, out_value, src, dst);

	if (res != CUDA_SUCCESS)
		return res;
	if (src == dst)
		return cuda_call_end(CUDA_ERROR_INVALID_DEVICE);
	switch ((int)attribute) {
	case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
		*out_value = machine_has_peers();
		break;
	case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
	case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
	case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
		*out_value = 0;
		break;
	default:
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	}
	return cuda_call_end(CUDA_SUCCESS);
}

/* Starts a change of what the current context may reach. */
static CUresult begin_change(enum cuda_id id, struct CUctx_st **peer, struct CUctx_st **out_ctx)
{
	CUresult res = cuda_call_begin_context(id, out_ctx);

	if (res != CUDA_SUCCESS)
		return res;
	if (cuda_context_resolve(peer) != CUDA_SUCCESS || *peer == *out_ctx)
		return cuda_call_end(CUDA_ERROR_INVALID_CONTEXT);
	return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
	struct CUctx_st *ctx;
	CUresult res = begin_change(CUDA_ID_cuCtxEnablePeerAccess, &peer, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	if (flags)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	if (peer->dev == ctx->dev || !machine_has_peers())
		return cuda_call_end(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
	if (ctx->peers >> peer->dev & 1)
		return cuda_call_end(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	cuda_range_lock_alone();
	ctx->peers |= (uint64_t)1 << peer->dev;
	cuda_range_unlock();
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
	struct CUctx_st *ctx;
	CUresult res = begin_change(CUDA_ID_cuCtxDisablePeerAccess, &peer, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	if (!(ctx->peers >> peer->dev & 1))
		return cuda_call_end(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	cuda_range_lock_alone();
	ctx->peers &= ~((uint64_t)1 << peer->dev);
	cuda_range_unlock();
	return cuda_call_end(CUDA_SUCCESS);
}
