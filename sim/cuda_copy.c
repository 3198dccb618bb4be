#include "cuda_copy.h"
#include "cuda_area.h"
#include "cuda_call.h"
#include "cuda_capture.h"
#include "cuda_context.h"
#include "cuda_stream.h"

enum copy_wait {
	WAIT_NONE,     /* returns at once */
	WAIT_PAGEABLE, /* returns when pageable memory is not needed any more */
	WAIT_HOST,     /* returns when it is done, unless both sides are on devices */
};

/* Starts a copy in a stream that is to be found for the current context. */
static CUresult begin(enum cuda_id id, enum stream_default form, CUstream handle,
		      struct CUctx_st **out_ctx, struct CUstream_st **out_stream)
{
	CUresult res = cuda_call_begin_context(id, out_ctx);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuda_stream_find(handle, form, out_stream);
	return res == CUDA_SUCCESS ? res : cuda_call_end(res);
}

static bool must_wait(const struct cuda_area *area, const struct cuda_work *work,
		      enum copy_wait wait)
{
	if (wait == WAIT_HOST)
		return cuda_area_has_host(area);
	return wait == WAIT_PAGEABLE &&
	       (area->is_dst_host || (area->is_src_host && !work->area.staging));
}

/* Submits a resolved copy and waits as the call promises. */
CUresult cuda_copy_submit(const struct cuda_area *area, struct CUstream_st *stream, bool is_sync)
{
	struct cuda_work *work;
	bool waits;
	CUresult res;

	if (cuda_area_is_empty(area))
		return CUDA_SUCCESS;
	if (is_sync) {
		res = cuda_capture_check_sync(stream);
		if (res != CUDA_SUCCESS)
			return res;
	}
	work = cuda_area_copy_work(area, !stream->capture);
	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	waits = !stream->capture && must_wait(area, work, is_sync ? WAIT_HOST : WAIT_PAGEABLE);
	res = cuda_stream_submit(stream, work);
	if (res != CUDA_SUCCESS || !waits)
		return res;
	return cuda_stream_finish(stream);
}

struct copy {
	uint64_t dst, src, bytes;
	enum area_side dst_side, src_side;
};

static CUresult copy(enum cuda_id id, enum stream_default form, struct copy c, CUstream handle,
		     bool is_sync)
{
	struct cuda_area area = {
		.dst = c.dst, .src = c.src, .width_bytes = c.bytes, .height = 1, .depth = 1
	};
	struct CUstream_st *stream;
	struct CUctx_st *ctx;
	CUresult res = begin(id, form, handle, &ctx, &stream);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuda_area_resolve(&area, stream->ctx, c.dst_side, c.src_side);
	if (res == CUDA_SUCCESS)
		res = cuda_copy_submit(&area, stream, is_sync);
	return cuda_call_end(res);
}

/* A pair: the call itself and the form whose default stream is the calling thread's. */
#define PAIR(symbol, twin, params, function, ...)                                 \
	CUresult symbol params                                                    \
	{                                                                         \
		return function(CUDA_ID_##symbol, DEFAULT_LEGACY, __VA_ARGS__);   \
	}                                                                         \
	CUresult twin params                                                      \
	{                                                                         \
		return function(CUDA_ID_##twin, DEFAULT_PER_THREAD, __VA_ARGS__); \
	}

#define COPY(dst, src, bytes, dst_side, src_side) \
	((struct copy){ (uint64_t)(dst), (uint64_t)(src), bytes, dst_side, src_side })

PAIR(cuMemcpy, cuMemcpy_ptds, (CUdeviceptr dst, CUdeviceptr src, size_t bytes), copy,
     COPY(dst, src, bytes, SIDE_ANY, SIDE_ANY), NULL, true)
PAIR(cuMemcpyAsync, cuMemcpyAsync_ptsz,
     (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream), copy,
     COPY(dst, src, bytes, SIDE_ANY, SIDE_ANY), stream, false)
PAIR(cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds, (CUdeviceptr dst, const void *src, size_t bytes), copy,
     COPY(dst, src, bytes, SIDE_DEVICE, SIDE_HOST), NULL, true)
PAIR(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz,
     (CUdeviceptr dst, const void *src, size_t bytes, CUstream stream), copy,
     COPY(dst, src, bytes, SIDE_DEVICE, SIDE_HOST), stream, false)
PAIR(cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds, (void *dst, CUdeviceptr src, size_t bytes), copy,
     COPY(dst, src, bytes, SIDE_HOST, SIDE_DEVICE), NULL, true)
PAIR(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz,
     (void *dst, CUdeviceptr src, size_t bytes, CUstream stream), copy,
     COPY(dst, src, bytes, SIDE_HOST, SIDE_DEVICE), stream, false)
PAIR(cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds, (CUdeviceptr dst, CUdeviceptr src, size_t bytes), copy,
     COPY(dst, src, bytes, SIDE_DEVICE, SIDE_DEVICE), NULL, true)
PAIR(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz,
     (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream), copy,
     COPY(dst, src, bytes, SIDE_DEVICE, SIDE_DEVICE), stream, false)

/* Each side with the rights of its own context. */
static CUresult copy_peer(enum cuda_id id, enum stream_default form, struct copy c,
			  CUcontext dst_ctx, CUcontext src_ctx, CUstream handle, bool is_sync)
{
	struct cuda_area area = { .dst = c.dst,
				  .src = c.src,
				  .width_bytes = c.bytes,
				  .height = 1,
				  .depth = 1,
				  .dst_ctx = dst_ctx,
				  .src_ctx = src_ctx };
	struct CUstream_st *stream;
	struct CUctx_st *ctx;
	CUresult res = begin(id, form, handle, &ctx, &stream);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuda_context_check(dst_ctx);
	if (res == CUDA_SUCCESS)
		res = cuda_context_check(src_ctx);
	if (res == CUDA_SUCCESS)
		res = cuda_area_resolve(&area, ctx, c.dst_side, c.src_side);
	if (res == CUDA_SUCCESS)
		res = cuda_copy_submit(&area, stream, is_sync);
	return cuda_call_end(res);
}

PAIR(cuMemcpyPeer, cuMemcpyPeer_ptds,
     (CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t bytes),
     copy_peer, COPY(dst, src, bytes, SIDE_DEVICE, SIDE_DEVICE), dst_ctx, src_ctx, NULL, true)
PAIR(cuMemcpyPeerAsync, cuMemcpyPeerAsync_ptsz,
     (CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t bytes,
      CUstream stream),
     copy_peer, COPY(dst, src, bytes, SIDE_DEVICE, SIDE_DEVICE), dst_ctx, src_ctx, stream, false)

/* One side of a description in two dimensions. */
static CUresult side_of(CUmemorytype type, const void *host, CUdeviceptr device, uint64_t offset,
			uint64_t *out_address, enum area_side *out_side)
{
	switch (type) {
	case CU_MEMORYTYPE_HOST:
		*out_side = SIDE_HOST;
		*out_address = (uint64_t)host + offset;
		return host ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	case CU_MEMORYTYPE_DEVICE:
		*out_side = SIDE_DEVICE;
		*out_address = device + offset;
		return device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	case CU_MEMORYTYPE_UNIFIED:
		*out_side = SIDE_ANY;
		*out_address = device + offset;
		return device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	case CU_MEMORYTYPE_ARRAY:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult cuda_copy_area(const CUDA_MEMCPY3D *c, struct CUctx_st *ctx, struct cuda_area *out_area)
{
	uint64_t dst_slice = c->dstPitch * c->dstHeight, src_slice = c->srcPitch * c->srcHeight;
	enum area_side dst_side, src_side;
	struct cuda_area area = { .dst_pitch_bytes = c->dstPitch,
				  .src_pitch_bytes = c->srcPitch,
				  .dst_slice_bytes = dst_slice,
				  .src_slice_bytes = src_slice,
				  .width_bytes = c->WidthInBytes,
				  .height = c->Height,
				  .depth = c->Depth };
	CUresult res;

	*out_area = area;
	if (cuda_area_is_empty(&area))
		return CUDA_SUCCESS;
	if (c->srcLOD || c->dstLOD || c->reserved0 || c->reserved1)
		return CUDA_ERROR_INVALID_VALUE;
	if (area.height > 1 && (c->srcPitch < c->srcXInBytes + c->WidthInBytes ||
				c->dstPitch < c->dstXInBytes + c->WidthInBytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (area.depth > 1 &&
	    (c->srcHeight < c->srcY + c->Height || c->dstHeight < c->dstY + c->Height))
		return CUDA_ERROR_INVALID_VALUE;
	res = side_of(c->dstMemoryType, c->dstHost, c->dstDevice,
		      c->dstZ * dst_slice + c->dstY * c->dstPitch + c->dstXInBytes, &area.dst,
		      &dst_side);
	if (res == CUDA_SUCCESS)
		res = side_of(c->srcMemoryType, c->srcHost, c->srcDevice,
			      c->srcZ * src_slice + c->srcY * c->srcPitch + c->srcXInBytes,
			      &area.src, &src_side);
	if (res == CUDA_SUCCESS)
		res = cuda_area_resolve(&area, ctx, dst_side, src_side);
	*out_area = area;
	return res;
}

static CUresult copy_3d(enum cuda_id id, enum stream_default form, const CUDA_MEMCPY3D *c,
			CUstream handle, bool is_sync)
{
	struct CUstream_st *stream;
	struct cuda_area area;
	struct CUctx_st *ctx;
	CUresult res = begin(id, form, handle, &ctx, &stream);

	if (res != CUDA_SUCCESS)
		return res;
	res = c ? cuda_copy_area(c, stream->ctx, &area) : CUDA_ERROR_INVALID_VALUE;
	if (res == CUDA_SUCCESS)
		res = cuda_copy_submit(&area, stream, is_sync);
	return cuda_call_end(res);
}

static CUresult copy_2d(enum cuda_id id, enum stream_default form, const CUDA_MEMCPY2D *c,
			CUstream handle, bool is_sync)
{
	CUDA_MEMCPY3D deep;

	if (!c)
		return copy_3d(id, form, NULL, handle, is_sync);
	deep = (CUDA_MEMCPY3D){
		.srcXInBytes = c->srcXInBytes,
		.srcY = c->srcY,
		.srcMemoryType = c->srcMemoryType,
		.srcHost = c->srcHost,
		.srcDevice = c->srcDevice,
		.srcPitch = c->srcPitch,
		.dstXInBytes = c->dstXInBytes,
		.dstY = c->dstY,
		.dstMemoryType = c->dstMemoryType,
		.dstHost = c->dstHost,
		.dstDevice = c->dstDevice,
		.dstPitch = c->dstPitch,
		.WidthInBytes = c->WidthInBytes,
		.Height = c->Height,
		.Depth = 1,
	};
	return copy_3d(id, form, &deep, handle, is_sync);
}

PAIR(cuMemcpy2D_v2, cuMemcpy2D_v2_ptds, (const CUDA_MEMCPY2D *c), copy_2d, c, NULL, true)
PAIR(cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds, (const CUDA_MEMCPY2D *c), copy_2d, c,
     NULL, true)
PAIR(cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz, (const CUDA_MEMCPY2D *c, CUstream stream),
     copy_2d, c, stream, false)
PAIR(cuMemcpy3D_v2, cuMemcpy3D_v2_ptds, (const CUDA_MEMCPY3D *c), copy_3d, c, NULL, true)
PAIR(cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2_ptsz, (const CUDA_MEMCPY3D *c, CUstream stream),
     copy_3d, c, stream, false)
