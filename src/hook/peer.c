#include "hook/peer.h"

#include "base/clock.h"
#include "base/process.h"
#include "core/bo_hold.h"
#include "drv/capture.h"
#include "drv/gpu_bo.h"
#include "drv/gpu_cuda.h"
#include "drv/gpu_vmm.h"
#include "drv/real.h"
#include "hook/movable.h"
#include "hook/stream_key.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

struct peer_state {
	/* By ordinal: those that reach it, a bit for each; atomic. */
	_Atomic uint32_t reached_by[GPU_VMM_DEVICES];
	/* By ordinal: until when nobody is let reach it; atomic. */
	_Atomic int64_t rests_until_ns[GPU_VMM_DEVICES];
};
PROCESS_STATE(peer_state, state);

/* What could not be let reach is asked again after so long: to wait for work stalls the program. */
#define REST_NS NSEC_PER_SEC
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

static int allow(struct cuda_ord peer, struct cuda_ord ord, const struct gpu_still_waits *waits)
{
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
	rc = gpu_still_begin(waits);
	if (rc < 0)
		return rc;
	rc = allow_all(owner, bos);
	gpu_still_end();
	return rc;
}

int peer_allow(struct cuda_ord peer, struct cuda_ord ord)
{
	static const struct gpu_still_waits waits = GPU_STILL_SUSPEND_WAITS;

	return allow(peer, ord, &waits);
}

static bool can_reach(struct cuda_ord peer, struct cuda_ord ord)
{
	int can = 0;

	return real.cuDeviceCanAccessPeer &&
	       real.cuDeviceCanAccessPeer(&can, peer.v, ord.v) == CUDA_SUCCESS && can;
}

/* True when `own` reaches the objects of `ord`, which it is let if it can. */
static bool reaches(struct cuda_ord own, struct cuda_ord ord)
{
	static const struct gpu_still_waits waits = GPU_STILL_MOVE_WAITS;
	_Atomic int64_t *until_ns;
	uint32_t bit;

	if (own.v == ord.v)
		return true;
	if (own.v < 0 || ord.v < 0 || own.v >= GPU_VMM_DEVICES || ord.v >= GPU_VMM_DEVICES)
		return false;
	bit = 1u << own.v;
	if (atomic_load(&state.s.reached_by[ord.v]) & bit)
		return true;
	until_ns = &state.s.rests_until_ns[ord.v];
	if (capture_any() || !can_reach(own, ord) || clock_now_ns() < atomic_load(until_ns))
		return false;
	process_wipe_on_fork(&state, sizeof(state));
	if (allow(own, ord, &waits) < 0) {
		atomic_store(until_ns, clock_now_ns() + REST_NS);
		return false;
	}
	atomic_fetch_or(&state.s.reached_by[ord.v], bit);
	return true;
}

/* Who makes a copy: the thread's context, and that of the stream. Both have to reach its memory. */
struct maker {
	struct cuda_ord own, of_stream;
	CUcontext ctx;
};

static bool find_maker(CUstream stream, struct maker *out)
{
	const void *ctx;
	CUcontext of_stream;

	if (!gpu_cuda_current(&out->own, &ctx))
		return false;
	out->ctx = (CUcontext)(uintptr_t)ctx;
	if (stream_key_is_default(stream) || !real.cuStreamGetCtx ||
	    real.cuStreamGetCtx(stream, &of_stream) != CUDA_SUCCESS || of_stream == out->ctx ||
	    !gpu_cuda_context_device(of_stream, &out->of_stream))
		out->of_stream = out->own;
	return true;
}

static bool find_object(CUdeviceptr addr, struct object_info *out_object, struct cuda_ord *out_ord)
{
	return object_find(addr, out_object) && device_ordinal(out_object->dev, out_ord);
}

static bool is_reached(const struct maker *m, struct cuda_ord ord)
{
	return reaches(m->own, ord) && reaches(m->of_stream, ord);
}

bool peer_is_far_slow(CUdeviceptr addr, CUstream stream, CUcontext *out_ctx)
{
	struct object_info object;
	struct cuda_ord ord;
	struct maker m;

	if (!movable_has(addr) || !find_object(addr, &object, &ord) || !find_maker(stream, &m) ||
	    is_reached(&m, ord))
		return false;
	*out_ctx = (CUcontext)(uintptr_t)object.ctx;
	return true;
}

/*
 * Whose the memory of one side is. False where it is no device's. A pool's is of no context: who
 * reaches it is the maker's own affair.
 */
static bool side_of(CUdeviceptr addr, const struct maker *m, CUcontext *out_ctx, bool *inout_is_far)
{
	struct object_info object;
	CUmemorytype type;
	struct cuda_ord ord;

	if (movable_has(addr)) {
		if (!find_object(addr, &object, &ord))
			return false;
		*out_ctx = (CUcontext)(uintptr_t)object.ctx;
		*inout_is_far |= !is_reached(m, ord);
		return true;
	}
	if (!real.cuPointerGetAttribute ||
	    real.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, addr) !=
		    CUDA_SUCCESS ||
	    type != CU_MEMORYTYPE_DEVICE)
		return false;
	if (real.cuPointerGetAttribute(out_ctx, CU_POINTER_ATTRIBUTE_CONTEXT, addr) !=
		    CUDA_SUCCESS ||
	    !*out_ctx)
		*out_ctx = m->ctx;
	return true;
}

static bool is_pinned(CUdeviceptr addr)
{
	CUmemorytype type;

	return !movable_has(addr) && real.cuPointerGetAttribute &&
	       real.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, addr) ==
		       CUDA_SUCCESS &&
	       type == CU_MEMORYTYPE_HOST;
}

/*
 * The same of a copy's side in several dimensions. What is the host's or an array is the calling
 * thread's context's; an address of any memory is told to be a device's or the host's.
 */
static bool side_of_box(CUmemorytype *type, CUdeviceptr *addr, const void **host,
			const struct maker *m, CUcontext *out_ctx, bool *inout_is_far)
{
	CUdeviceptr at = *addr ? *addr : (CUdeviceptr)(uintptr_t)*host;

	if (*type == CU_MEMORYTYPE_DEVICE && side_of(*addr, m, out_ctx, inout_is_far))
		return true;
	/* Of the host's, the driver takes what it has pinned for a device's. */
	if (*type == CU_MEMORYTYPE_DEVICE) {
		if (!is_pinned(*addr))
			return false;
		*type = CU_MEMORYTYPE_UNIFIED;
	}
	if (*type == CU_MEMORYTYPE_UNIFIED && side_of(at, m, out_ctx, inout_is_far)) {
		*type = CU_MEMORYTYPE_DEVICE;
		*addr = at;
		return true;
	}
	/* An object that is not there any more is no memory of the host's. */
	if (*type == CU_MEMORYTYPE_UNIFIED && movable_has(at))
		return false;
	if (*type == CU_MEMORYTYPE_UNIFIED) {
		*type = CU_MEMORYTYPE_HOST;
		*host = (const void *)(uintptr_t)at;
	}
	*out_ctx = m->ctx;
	return true;
}

/* As it is, between contexts. True when some of it is out of the maker's reach. */
static bool crosses(const CUDA_MEMCPY3D *c, const struct maker *m, CUDA_MEMCPY3D_PEER *out_copy)
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

	if (!side_of_box(&copy.srcMemoryType, &copy.srcDevice, &copy.srcHost, m, &copy.srcContext,
			 &is_far) ||
	    !side_of_box(&copy.dstMemoryType, &copy.dstDevice, &to_host, m, &copy.dstContext,
			 &is_far) ||
	    !is_far)
		return false;
	copy.dstHost = (void *)(uintptr_t)to_host;
	*out_copy = copy;
	return true;
}

bool peer_crosses_3d_slow(const CUDA_MEMCPY3D *c, CUstream stream, CUDA_MEMCPY3D_PEER *out_copy)
{
	struct maker m;

	return movable_is_on() && find_maker(stream, &m) && crosses(c, &m, out_copy);
}

bool peer_crosses_in(const CUDA_MEMCPY3D *c, CUcontext ctx, CUDA_MEMCPY3D_PEER *out_copy)
{
	struct maker m = { .ctx = ctx };

	if (device_ordinals() < 2 || !c || !movable_is_on() ||
	    !gpu_cuda_context_device(ctx, &m.own))
		return false;
	m.of_stream = m.own;
	return crosses(c, &m, out_copy);
}

bool peer_is_far_in(CUdeviceptr addr, CUcontext ctx, CUcontext *out_ctx)
{
	struct object_info object;
	struct cuda_ord own, ord;

	if (device_ordinals() < 2 || !movable_has(addr) || !find_object(addr, &object, &ord) ||
	    !gpu_cuda_context_device(ctx, &own) || reaches(own, ord))
		return false;
	*out_ctx = (CUcontext)(uintptr_t)object.ctx;
	return true;
}

bool peer_crosses_2d_slow(const CUDA_MEMCPY2D *c, CUstream stream, CUDA_MEMCPY3D_PEER *out_copy)
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

	return peer_crosses_3d_slow(&deep, stream, out_copy);
}

/* A row may be no longer than a pitch, which devices bound at less than 2 GiB. */
#define ROW_BYTES (UINT64_C(1) << 30)

/* `height` rows beside each other. */
static CUDA_MEMCPY3D rows(const struct peer_line *line, uint64_t from_bytes, uint64_t width_bytes,
			  uint64_t height)
{
	return (CUDA_MEMCPY3D){
		.srcMemoryType = line->from_type,
		.srcHost = (const void *)(uintptr_t)(line->from + from_bytes),
		.srcDevice = line->from + from_bytes,
		.srcPitch = width_bytes,
		.srcHeight = height,
		.dstMemoryType = line->to_type,
		.dstHost = (void *)(uintptr_t)(line->to + from_bytes),
		.dstDevice = line->to + from_bytes,
		.dstPitch = width_bytes,
		.dstHeight = height,
		.WidthInBytes = width_bytes,
		.Height = height,
		.Depth = 1,
	};
}

bool peer_crosses_slow(const struct peer_line *line, CUstream stream, struct peer_ways *out_ways)
{
	uint64_t whole = line->bytes / ROW_BYTES, rest_bytes = line->bytes % ROW_BYTES;
	struct peer_ways ways = { .count = 0 };
	CUDA_MEMCPY3D part;
	struct maker m;

	if (!line->bytes || !(movable_has(line->to) || movable_has(line->from)) ||
	    !find_maker(stream, &m))
		return false;
	if (whole) {
		part = rows(line, 0, ROW_BYTES, whole);
		if (!crosses(&part, &m, &ways.parts[ways.count++]))
			return false;
	}
	if (rest_bytes) {
		part = rows(line, whole * ROW_BYTES, rest_bytes, 1);
		if (!crosses(&part, &m, &ways.parts[ways.count++]))
			return false;
	}
	*out_ways = ways;
	return true;
}

void peer_reach_slow(CUdeviceptr addr)
{
	struct object_info object;
	struct cuda_ord own, ord;

	if (movable_has(addr) && find_object(addr, &object, &ord) && gpu_cuda_current_device(&own))
		reaches(own, ord);
}
