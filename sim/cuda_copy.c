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

CUresult cuda_copy_begin(enum cuda_id id, enum stream_default form, CUstream handle,
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
	CUresult res = cuda_copy_begin(id, form, handle, &ctx, &stream);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuda_area_resolve(&area, stream->ctx, c.dst_side, c.src_side);
	if (res == CUDA_SUCCESS)
		cuda_area_ask(&area, ctx);
	if (res == CUDA_SUCCESS)
		res = cuda_copy_submit(&area, stream, is_sync);
	return cuda_call_end(res);
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
	struct cuda_area area = {
		.dst = c.dst, .src = c.src, .width_bytes = c.bytes, .height = 1, .depth = 1
	};
	struct CUstream_st *stream;
	struct CUctx_st *ctx;
	CUresult res = cuda_copy_begin(id, form, handle, &ctx, &stream);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuda_context_resolve(&dst_ctx);
	if (res == CUDA_SUCCESS)
		res = cuda_context_resolve(&src_ctx);
	area.dst_ctx = dst_ctx;
	area.src_ctx = src_ctx;
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
