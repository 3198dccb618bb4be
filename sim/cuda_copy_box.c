#include "cuda_area.h"
#include "cuda_array.h"
#include "cuda_call.h"
#include "cuda_context.h"
#include "cuda_copy.h"
#include "cuda_range.h"
#include "cuda_stream.h"

/* One side of a description; `address` is where its first byte lies once it is found. */
struct box_side {
	CUmemorytype type;
	const void *host;
	CUdeviceptr device;
	CUarray array;
	size_t x_bytes, y, z, pitch_bytes, height;
	enum area_side side;
	uint64_t address, slice_bytes;
};

/* An array has its own pitch and height, and its sides must hold the whole box. */
static CUresult find_array(struct box_side *s, const CUDA_MEMCPY3D *c)
{
	const struct CUarray_st *a = cuda_array_find(s->array);
	size_t rows, slices;

	if (!a)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!a->memory)
		return CUDA_ERROR_NOT_SUPPORTED;
	rows = a->desc.Height ? a->desc.Height : 1;
	slices = a->desc.Depth ? a->desc.Depth : 1;
	if (s->x_bytes % a->element_bytes || c->WidthInBytes % a->element_bytes ||
	    s->x_bytes > a->desc.Width * a->element_bytes ||
	    c->WidthInBytes > a->desc.Width * a->element_bytes - s->x_bytes || s->y > rows ||
	    c->Height > rows - s->y || s->z > slices || c->Depth > slices - s->z)
		return CUDA_ERROR_INVALID_VALUE;
	s->side = SIDE_ARRAY;
	s->pitch_bytes = a->pitch_bytes;
	s->slice_bytes = a->slice_bytes;
	s->address = a->memory->start;
	return CUDA_SUCCESS;
}

static CUresult find_base(struct box_side *s, const CUDA_MEMCPY3D *c)
{
	switch (s->type) {
	case CU_MEMORYTYPE_HOST:
		s->side = SIDE_HOST;
		s->address = (uint64_t)s->host;
		break;
	case CU_MEMORYTYPE_DEVICE:
		s->side = SIDE_DEVICE;
		s->address = s->device;
		break;
	case CU_MEMORYTYPE_UNIFIED:
		s->side = SIDE_ANY;
		s->address = s->device;
		break;
	case CU_MEMORYTYPE_ARRAY:
		return find_array(s, c);
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	s->slice_bytes = s->pitch_bytes * s->height;
	if (!s->address || (c->Height > 1 && s->pitch_bytes < s->x_bytes + c->WidthInBytes) ||
	    (c->Depth > 1 && s->height < s->y + c->Height))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static CUresult find_side(struct box_side *s, const CUDA_MEMCPY3D *c)
{
	CUresult res = find_base(s, c);

	s->address += s->z * s->slice_bytes + s->y * s->pitch_bytes + s->x_bytes;
	return res;
}

CUresult cuda_copy_area(const CUDA_MEMCPY3D *c, struct CUctx_st *ctx, struct cuda_area *out_area)
{
	struct box_side dst = { c->dstMemoryType,
				c->dstHost,
				c->dstDevice,
				c->dstArray,
				c->dstXInBytes,
				c->dstY,
				c->dstZ,
				c->dstPitch,
				c->dstHeight,
				SIDE_ANY,
				0,
				0 };
	struct box_side src = { c->srcMemoryType,
				c->srcHost,
				c->srcDevice,
				c->srcArray,
				c->srcXInBytes,
				c->srcY,
				c->srcZ,
				c->srcPitch,
				c->srcHeight,
				SIDE_ANY,
				0,
				0 };
	CUresult res;

	*out_area = (struct cuda_area){ .width_bytes = c->WidthInBytes,
					.height = c->Height,
					.depth = c->Depth };
	if (cuda_area_is_empty(out_area))
		return CUDA_SUCCESS;
	if (c->srcLOD || c->dstLOD || c->reserved0 || c->reserved1)
		return CUDA_ERROR_INVALID_VALUE;
	res = find_side(&dst, c);
	if (res == CUDA_SUCCESS)
		res = find_side(&src, c);
	if (res != CUDA_SUCCESS)
		return res;
	out_area->dst = dst.address;
	out_area->src = src.address;
	out_area->dst_pitch_bytes = dst.pitch_bytes;
	out_area->src_pitch_bytes = src.pitch_bytes;
	out_area->dst_slice_bytes = dst.slice_bytes;
	out_area->src_slice_bytes = src.slice_bytes;
	return cuda_area_resolve(out_area, ctx, dst.side, src.side);
}

static CUresult copy_3d(enum cuda_id id, enum stream_default form, const CUDA_MEMCPY3D *c,
			CUstream handle, bool is_sync)
{
	struct CUstream_st *stream;
	struct cuda_area area;
	struct CUctx_st *ctx;
	CUresult res = cuda_copy_begin(id, form, handle, &ctx, &stream);

	if (res != CUDA_SUCCESS)
		return res;
	res = c ? cuda_copy_area(c, stream->ctx, &area) : CUDA_ERROR_INVALID_VALUE;
	if (res == CUDA_SUCCESS)
		cuda_area_ask(&area, ctx);
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
		.srcArray = c->srcArray,
		.srcPitch = c->srcPitch,
		.dstXInBytes = c->dstXInBytes,
		.dstY = c->dstY,
		.dstMemoryType = c->dstMemoryType,
		.dstHost = c->dstHost,
		.dstDevice = c->dstDevice,
		.dstArray = c->dstArray,
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

/* A line between an array's first row and memory; a side without an array is the other address. */
static CUresult copy_line(enum cuda_id id, enum stream_default form, CUDA_MEMCPY3D c, size_t bytes,
			  CUstream handle, bool is_sync)
{
	c.WidthInBytes = bytes;
	c.Height = 1;
	c.Depth = 1;
	return copy_3d(id, form, &c, handle, is_sync);
}

#define FROM_ARRAY(array, offset) \
	.srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = array, .srcXInBytes = offset
#define TO_ARRAY(array, offset) \
	.dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = array, .dstXInBytes = offset
#define FROM_DEVICE(address) .srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = address
#define TO_DEVICE(address) .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = address
#define FROM_HOST(host) .srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = host
#define TO_HOST(host) .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = host
#define LINE(dst, src) ((CUDA_MEMCPY3D){ dst, src })

PAIR(cuMemcpyAtoA_v2, cuMemcpyAtoA_v2_ptds,
     (CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes), copy_line,
     LINE(TO_ARRAY(to, to_offset), FROM_ARRAY(from, from_offset)), bytes, NULL, true)
PAIR(cuMemcpyAtoD_v2, cuMemcpyAtoD_v2_ptds,
     (CUdeviceptr to, CUarray from, size_t offset, size_t bytes), copy_line,
     LINE(TO_DEVICE(to), FROM_ARRAY(from, offset)), bytes, NULL, true)
PAIR(cuMemcpyDtoA_v2, cuMemcpyDtoA_v2_ptds,
     (CUarray to, size_t offset, CUdeviceptr from, size_t bytes), copy_line,
     LINE(TO_ARRAY(to, offset), FROM_DEVICE(from)), bytes, NULL, true)
PAIR(cuMemcpyAtoH_v2, cuMemcpyAtoH_v2_ptds, (void *to, CUarray from, size_t offset, size_t bytes),
     copy_line, LINE(TO_HOST(to), FROM_ARRAY(from, offset)), bytes, NULL, true)
PAIR(cuMemcpyHtoA_v2, cuMemcpyHtoA_v2_ptds,
     (CUarray to, size_t offset, const void *from, size_t bytes), copy_line,
     LINE(TO_ARRAY(to, offset), FROM_HOST(from)), bytes, NULL, true)
PAIR(cuMemcpyAtoHAsync_v2, cuMemcpyAtoHAsync_v2_ptsz,
     (void *to, CUarray from, size_t offset, size_t bytes, CUstream stream), copy_line,
     LINE(TO_HOST(to), FROM_ARRAY(from, offset)), bytes, stream, false)
PAIR(cuMemcpyHtoAAsync_v2, cuMemcpyHtoAAsync_v2_ptsz,
     (CUarray to, size_t offset, const void *from, size_t bytes, CUstream stream), copy_line,
     LINE(TO_ARRAY(to, offset), FROM_HOST(from)), bytes, stream, false)

/* Each side with the rights of its own context. */
static CUresult copy_3d_peer(enum cuda_id id, enum stream_default form, const CUDA_MEMCPY3D_PEER *c,
			     CUstream handle, bool is_sync)
{
	struct CUstream_st *stream;
	struct cuda_area area;
	struct CUctx_st *ctx;
	struct CUctx_st *dst_ctx, *src_ctx;
	CUDA_MEMCPY3D plain;
	CUresult res = cuda_copy_begin(id, form, handle, &ctx, &stream);

	if (res != CUDA_SUCCESS)
		return res;
	if (!c)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	dst_ctx = c->dstContext;
	src_ctx = c->srcContext;
	res = cuda_context_resolve(&dst_ctx);
	if (res == CUDA_SUCCESS)
		res = cuda_context_resolve(&src_ctx);
	if (res != CUDA_SUCCESS)
		return cuda_call_end(res);
	plain = (CUDA_MEMCPY3D){
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
		.dstHost = c->dstHost,
		.dstDevice = c->dstDevice,
		.dstArray = c->dstArray,
		.dstPitch = c->dstPitch,
		.dstHeight = c->dstHeight,
		.WidthInBytes = c->WidthInBytes,
		.Height = c->Height,
		.Depth = c->Depth,
	};
	res = cuda_copy_area(&plain, ctx, &area);
	area.dst_ctx = dst_ctx;
	area.src_ctx = src_ctx;
	if (res == CUDA_SUCCESS)
		res = cuda_copy_submit(&area, stream, is_sync);
	return cuda_call_end(res);
}

PAIR(cuMemcpy3DPeer, cuMemcpy3DPeer_ptds, (const CUDA_MEMCPY3D_PEER *c), copy_3d_peer, c, NULL,
     true)
PAIR(cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync_ptsz, (const CUDA_MEMCPY3D_PEER *c, CUstream stream),
     copy_3d_peer, c, stream, false)
