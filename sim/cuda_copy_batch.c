/*
 * Copies in batches, one after the other in the stream: the order in which a batch may be done is
 * wider than that. The attributes say when sources may be read; here always in the stream's order,
 * and the call waits where they are to be read during it.
 */
#include "cuda_area.h"
#include "cuda_array.h"
#include "cuda_call.h"
#include "cuda_context.h"
#include "cuda_copy.h"
#include "cuda_stream.h"

/* In the context of the stream, with the rights of the calling thread's too. */
static CUresult submit(struct cuda_area *area, struct CUctx_st *ctx, struct CUstream_st *stream,
		       CUmemcpySrcAccessOrder order)
{
	CUresult res;

	cuda_area_ask(area, ctx);
	res = cuda_copy_submit(area, stream, false);
	if (res == CUDA_SUCCESS && order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL &&
	    !stream->capture)
		res = cuda_stream_finish(stream);
	return res;
}

struct lines {
	const CUdeviceptr *dsts, *srcs;
	const size_t *bytes;
	size_t count;
	const CUmemcpyAttributes *attrs;
	const size_t *firsts;
	size_t attr_count;
};

/* Each attribute is for the copies from its first on, up to the next one's. */
static bool is_right(const struct lines *l)
{
	if (!l->dsts || !l->srcs || !l->bytes || !l->count || !l->attrs || !l->firsts ||
	    !l->attr_count || l->attr_count > l->count || l->firsts[0] != 0)
		return false;
	for (size_t i = 0; i < l->attr_count; i++)
		if (l->firsts[i] >= l->count || (i && l->firsts[i] <= l->firsts[i - 1]) ||
		    l->attrs[i].srcAccessOrder < CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
		    l->attrs[i].srcAccessOrder > CU_MEMCPY_SRC_ACCESS_ORDER_ANY)
			return false;
	return true;
}

/* *out_failed is the first that is refused, `count` when it is not one copy's fault. */
static CUresult copy_lines(enum cuda_id id, enum stream_default form, struct lines l,
			   CUstream handle, size_t *out_failed)
{
	struct CUstream_st *stream;
	struct CUctx_st *ctx;
	CUresult res = cuda_copy_begin(id, form, handle, &ctx, &stream);
	size_t attr = 0;

	if (out_failed)
		*out_failed = l.count;
	if (res != CUDA_SUCCESS)
		return res;
	if (!is_right(&l) || stream->kind == STREAM_LEGACY)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	for (size_t i = 0; i < l.count && res == CUDA_SUCCESS; i++) {
		struct cuda_area area = { .dst = l.dsts[i],
					  .src = l.srcs[i],
					  .width_bytes = l.bytes[i],
					  .height = 1,
					  .depth = 1 };

		while (attr + 1 < l.attr_count && l.firsts[attr + 1] <= i)
			attr++;
		res = cuda_area_resolve(&area, stream->ctx, SIDE_ANY, SIDE_ANY);
		if (res == CUDA_SUCCESS)
			res = submit(&area, ctx, stream, l.attrs[attr].srcAccessOrder);
		if (res != CUDA_SUCCESS && out_failed)
			*out_failed = i;
	}
	return cuda_call_end(res);
}

#define LINES ((struct lines){ dsts, srcs, bytes, count, attrs, firsts, attr_count })

PAIR(cuMemcpyBatchAsync, cuMemcpyBatchAsync_ptsz,
     (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *bytes, size_t count, CUmemcpyAttributes *attrs,
      size_t *firsts, size_t attr_count, size_t *out_failed, CUstream stream),
     copy_lines, LINES, stream, out_failed)
PAIR(cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync_v2_ptsz,
     (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *bytes, size_t count, CUmemcpyAttributes *attrs,
      size_t *firsts, size_t attr_count, CUstream stream),
     copy_lines, LINES, stream, NULL)

#define ONE_LINE ((struct lines){ &dst, &src, &bytes, 1, attr, &(size_t){ 0 }, 1 })

PAIR(cuMemcpyWithAttributesAsync, cuMemcpyWithAttributesAsync_ptsz,
     (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUmemcpyAttributes *attr, CUstream stream),
     copy_lines, ONE_LINE, stream, NULL)

static size_t element_of(const CUmemcpy3DOperand *side)
{
	const struct CUarray_st *array = side->type == CU_MEMCPY_OPERAND_TYPE_ARRAY ?
						 cuda_array_find(side->op.array.array) :
						 NULL;

	return array ? array->element_bytes : 1;
}

/* Lengths are in elements, those of the array where there is one; 0 is as long as the copy. */
static CUDA_MEMCPY3D box_of(const CUDA_MEMCPY3D_BATCH_OP *op)
{
	const CUmemcpy3DOperand *s = &op->src, *d = &op->dst;
	size_t element = element_of(s) > 1 ? element_of(s) : element_of(d);
	CUDA_MEMCPY3D box = { .WidthInBytes = op->extent.width * element,
			      .Height = op->extent.height,
			      .Depth = op->extent.depth };

	if (s->type == CU_MEMCPY_OPERAND_TYPE_POINTER) {
		box.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
		box.srcDevice = s->op.ptr.ptr;
		box.srcPitch = s->op.ptr.rowLength ? s->op.ptr.rowLength * element :
						     box.WidthInBytes;
		box.srcHeight = s->op.ptr.layerHeight ? s->op.ptr.layerHeight : box.Height;
	} else {
		box.srcMemoryType = CU_MEMORYTYPE_ARRAY;
		box.srcArray = s->op.array.array;
		box.srcXInBytes = s->op.array.offset.x * element;
		box.srcY = s->op.array.offset.y;
		box.srcZ = s->op.array.offset.z;
	}
	if (d->type == CU_MEMCPY_OPERAND_TYPE_POINTER) {
		box.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
		box.dstDevice = d->op.ptr.ptr;
		box.dstPitch = d->op.ptr.rowLength ? d->op.ptr.rowLength * element :
						     box.WidthInBytes;
		box.dstHeight = d->op.ptr.layerHeight ? d->op.ptr.layerHeight : box.Height;
	} else {
		box.dstMemoryType = CU_MEMORYTYPE_ARRAY;
		box.dstArray = d->op.array.array;
		box.dstXInBytes = d->op.array.offset.x * element;
		box.dstY = d->op.array.offset.y;
		box.dstZ = d->op.array.offset.z;
	}
	return box;
}

static CUresult copy_boxes(enum cuda_id id, enum stream_default form, size_t count,
			   const CUDA_MEMCPY3D_BATCH_OP *ops, unsigned long long flags,
			   CUstream handle, size_t *out_failed)
{
	struct CUstream_st *stream;
	struct CUctx_st *ctx;
	CUresult res = cuda_copy_begin(id, form, handle, &ctx, &stream);

	if (out_failed)
		*out_failed = count;
	if (res != CUDA_SUCCESS)
		return res;
	if (!ops || !count || flags || stream->kind == STREAM_LEGACY)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	for (size_t i = 0; i < count && res == CUDA_SUCCESS; i++) {
		CUDA_MEMCPY3D box = box_of(&ops[i]);
		struct cuda_area area;

		res = cuda_copy_area(&box, stream->ctx, &area);
		if (res == CUDA_SUCCESS)
			res = submit(&area, ctx, stream, ops[i].srcAccessOrder);
		if (res != CUDA_SUCCESS && out_failed)
			*out_failed = i;
	}
	return cuda_call_end(res);
}

PAIR(cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync_ptsz,
     (size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *out_failed, unsigned long long flags,
      CUstream stream),
     copy_boxes, count, ops, flags, stream, out_failed)
PAIR(cuMemcpy3DBatchAsync_v2, cuMemcpy3DBatchAsync_v2_ptsz,
     (size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, unsigned long long flags, CUstream stream),
     copy_boxes, count, ops, flags, stream, NULL)
PAIR(cuMemcpy3DWithAttributesAsync, cuMemcpy3DWithAttributesAsync_ptsz,
     (CUDA_MEMCPY3D_BATCH_OP * op, unsigned long long flags, CUstream stream), copy_boxes, 1, op,
     flags, stream, NULL)
