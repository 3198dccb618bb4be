#include "hook/peer.h"

#include "base/clock.h"
#include "base/process.h"
#include "core/bo_hold.h"
#include "drv/gpu_bo.h"
#include "drv/gpu_cuda.h"
#include "drv/gpu_vmm.h"
#include "drv/real.h"
#include "hook/movable.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

struct peer_state {
	/* By ordinal: those that reach it, a bit for each; atomic. */
	_Atomic uint32_t reached_by[GPU_VMM_DEVICES];
};
PROCESS_STATE(peer_state, state);

/* How often what is there is looked at: another thread may take away what was freed. */
enum { LOOKS = 8 };

/* All that is there now. */
static int allow_spans(struct gpu_bo *owner, struct bo_device *bos)
{
	struct bo_span *spans;
	unsigned count;
	int rc = bo_spans(bos, &spans, &count);

	if (rc < 0)
		return rc;
	for (unsigned i = 0; i < count && rc == 0; i++)
		rc = gpu_bo_allow(owner, spans[i].addr, spans[i].bytes);
	free(spans);
	return rc;
}

/* All stands still: nothing is mapped or moved meanwhile. */
static int allow_all(struct gpu_bo *owner, struct bo_device *bos)
{
	struct bo_ctx ctx = { 0 };
	/* Atomic operations of two devices on host memory would not be atomic. */
	int rc = bo_gather(bos, &ctx);

	if (rc < 0)
		return rc;
	for (int i = 0; i < LOOKS; i++) {
		rc = allow_spans(owner, bos);
		if (rc != -EINVAL)
			break;
	}
	return rc;
}

int peer_allow(struct cuda_ord peer, struct cuda_ord ord)
{
	static const struct gpu_still_waits waits = GPU_STILL_SUSPEND_WAITS;
	struct gpu_bo *owner;
	struct bo_device *bos;
	struct dev dev;
	int rc;

	if (!device_by_ordinal(ord, &dev) || gpu_bo_open(ord, NULL, &owner) < 0)
		return 0;
	rc = gpu_bo_add_peer(owner, peer);
	bos = object_bos(dev);
	if (rc < 0 || !bos)
		return rc;
	rc = gpu_still_begin(&waits);
	if (rc < 0)
		return rc;
	rc = allow_all(owner, bos);
	gpu_still_end();
	return rc;
}

static bool can_reach(struct cuda_ord peer, struct cuda_ord ord)
{
	int can = 0;

	return real.cuDeviceCanAccessPeer &&
	       real.cuDeviceCanAccessPeer(&can, peer.v, ord.v) == CUDA_SUCCESS && can;
}

void peer_reach_slow(CUdeviceptr addr)
{
	struct object_info object;
	struct cuda_ord own, ord;
	uint32_t bit;

	if (!movable_has(addr) || !object_find(addr, &object) ||
	    !device_ordinal(object.dev, &ord) || !gpu_cuda_current_device(&own) || own.v == ord.v ||
	    own.v >= GPU_VMM_DEVICES || ord.v >= GPU_VMM_DEVICES)
		return;
	bit = 1u << own.v;
	if (atomic_load(&state.s.reached_by[ord.v]) & bit || !can_reach(own, ord))
		return;
	process_wipe_on_fork(&state, sizeof(state));
	if (peer_allow(own, ord) == 0)
		atomic_fetch_or(&state.s.reached_by[ord.v], bit);
}

/* Whose the memory of one side is. False where it is no device's. */
static bool side_of(CUdeviceptr addr, struct cuda_ord own, CUcontext *out_ctx, bool *inout_is_far)
{
	struct object_info object;
	CUmemorytype type;
	struct cuda_ord ord;

	if (movable_has(addr)) {
		if (!object_find(addr, &object) || !device_ordinal(object.dev, &ord))
			return false;
		*out_ctx = (CUcontext)(uintptr_t)object.ctx;
		*inout_is_far |= ord.v != own.v && !can_reach(own, ord);
		return true;
	}
	return real.cuPointerGetAttribute &&
	       real.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, addr) ==
		       CUDA_SUCCESS &&
	       type == CU_MEMORYTYPE_DEVICE &&
	       real.cuPointerGetAttribute(out_ctx, CU_POINTER_ATTRIBUTE_CONTEXT, addr) ==
		       CUDA_SUCCESS &&
	       *out_ctx;
}

bool peer_crosses_slow(CUdeviceptr to, CUdeviceptr from, struct peer_sides *out_sides)
{
	struct peer_sides sides;
	struct cuda_ord own;
	bool is_far = false;

	if (!(movable_has(to) || movable_has(from)) || !gpu_cuda_current_device(&own) ||
	    !side_of(to, own, &sides.to, &is_far) || !side_of(from, own, &sides.from, &is_far) ||
	    !is_far)
		return false;
	*out_sides = sides;
	return true;
}

/*
 * The same of a copy's side in several dimensions. What is the host's or an array is the calling
 * thread's context's; an address of any memory is told to be a device's or the host's.
 */
static bool side_of_box(CUmemorytype *type, CUdeviceptr *addr, const void **host,
			struct cuda_ord own, CUcontext *out_ctx, bool *inout_is_far)
{
	CUdeviceptr at = *addr ? *addr : (CUdeviceptr)(uintptr_t)*host;

	if (*type == CU_MEMORYTYPE_DEVICE)
		return side_of(*addr, own, out_ctx, inout_is_far);
	if (*type == CU_MEMORYTYPE_UNIFIED && side_of(at, own, out_ctx, inout_is_far)) {
		*type = CU_MEMORYTYPE_DEVICE;
		*addr = at;
		return true;
	}
	if (*type == CU_MEMORYTYPE_UNIFIED) {
		*type = CU_MEMORYTYPE_HOST;
		*host = (const void *)(uintptr_t)at;
	}
	return real.cuCtxGetCurrent && real.cuCtxGetCurrent(out_ctx) == CUDA_SUCCESS;
}

bool peer_crosses_3d_slow(const CUDA_MEMCPY3D *c, CUDA_MEMCPY3D_PEER *out_copy)
{
	CUDA_MEMCPY3D_PEER copy = {
		.srcXInBytes = c->srcXInBytes,
		.srcY = c->srcY,
		.srcZ = c->srcZ,
		.srcLOD = c->srcLOD,
		.srcMemoryType = c->srcMemoryType,
		.srcHost = c->srcHost,
		.srcDevice = c->srcDevice,
		.srcArray = c->srcArray,
		.srcPitch = c->srcPitch,
		.srcHeight = c->srcHeight,
		.dstXInBytes = c->dstXInBytes,
		.dstY = c->dstY,
		.dstZ = c->dstZ,
		.dstLOD = c->dstLOD,
		.dstMemoryType = c->dstMemoryType,
		.dstDevice = c->dstDevice,
		.dstArray = c->dstArray,
		.dstPitch = c->dstPitch,
		.dstHeight = c->dstHeight,
		.WidthInBytes = c->WidthInBytes,
		.Height = c->Height,
		.Depth = c->Depth,
	};
	const void *to_host = c->dstHost;
	bool is_far = false;
	struct cuda_ord own;

	if (!movable_is_on() || !gpu_cuda_current_device(&own) ||
	    !side_of_box(&copy.srcMemoryType, &copy.srcDevice, &copy.srcHost, own, &copy.srcContext,
			 &is_far) ||
	    !side_of_box(&copy.dstMemoryType, &copy.dstDevice, &to_host, own, &copy.dstContext,
			 &is_far) ||
	    !is_far)
		return false;
	copy.dstHost = (void *)(uintptr_t)to_host;
	*out_copy = copy;
	return true;
}

bool peer_crosses_2d_slow(const CUDA_MEMCPY2D *c, CUDA_MEMCPY3D_PEER *out_copy)
{
	const CUDA_MEMCPY3D deep = {
		.srcXInBytes = c->srcXInBytes,
		.srcY = c->srcY,
		.srcMemoryType = c->srcMemoryType,
		.srcHost = c->srcHost,
		.srcDevice = c->srcDevice,
		.srcArray = c->srcArray,
		.srcPitch = c->srcPitch,
		/* Of one slice; less than it has would be an error. */
		.srcHeight = c->srcY + c->Height,
		.dstXInBytes = c->dstXInBytes,
		.dstY = c->dstY,
		.dstMemoryType = c->dstMemoryType,
		.dstHost = c->dstHost,
		.dstDevice = c->dstDevice,
		.dstArray = c->dstArray,
		.dstPitch = c->dstPitch,
		.dstHeight = c->dstY + c->Height,
		.WidthInBytes = c->WidthInBytes,
		.Height = c->Height,
		.Depth = 1,
	};

	return peer_crosses_3d_slow(&deep, out_copy);
}
