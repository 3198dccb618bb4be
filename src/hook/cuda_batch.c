/*
 * Copies in batches. One of which a copy is far (hook/peer.h) becomes single ones in the stream's
 * order, which is one of those that a batch may be done in; what is near of it stays the driver's
 * batch call.
 */
#include "hook/crossing.h"
#include "hook/gated.h"

/* Copies from here on take longer than an event. */
#define LONG_BYTES (64 * 1024)

/* Which form of a call. */
struct form {
	CUstream stream;
	bool is_own;   /* a NULL stream is the thread's own */
	bool is_first; /* that of before CUDA 13 */
};

/* A batch in the legacy stream the driver refuses. */
static bool may_be(const struct form *form)
{
	return form->stream ? form->stream != CU_STREAM_LEGACY : form->is_own;
}

static enum crossing later(const struct form *form)
{
	return form->is_own ? CROSSING_LATER_OWN : CROSSING_LATER;
}

/* What is far of it was to be read before the call returns. */
static CUresult finish(const struct form *form, CUmemcpySrcAccessOrder order)
{
	if (order != CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL ||
	    work_is_captured(form->stream, form->is_own))
		return CUDA_SUCCESS;
	return form->is_own ? real.cuStreamSynchronize_ptsz(form->stream) :
			      real.cuStreamSynchronize(form->stream);
}

/* In one dimension. */
struct lines {
	CUdeviceptr *to, *from;
	size_t *bytes, count;
	CUmemcpyAttributes *attrs;
	size_t *firsts, attr_count;
};

/* What is not as it should be is the driver's to refuse. */
static bool is_right(const struct lines *l)
{
	if (!l->to || !l->from || !l->bytes || !l->count || !l->attrs || !l->firsts ||
	    !l->attr_count || l->attr_count > l->count || l->firsts[0] != 0)
		return false;
	for (size_t i = 1; i < l->attr_count; i++)
		if (l->firsts[i] <= l->firsts[i - 1] || l->firsts[i] >= l->count)
			return false;
	return true;
}

static bool is_far(const struct lines *l, size_t i, const struct form *form,
		   struct peer_ways *out_ways)
{
	const struct peer_line line = { .to = l->to[i],
					.from = l->from[i],
					.to_type = CU_MEMORYTYPE_UNIFIED,
					.from_type = CU_MEMORYTYPE_UNIFIED,
					.bytes = l->bytes[i] };

	return peer_crosses(&line, form->stream, out_ways);
}

static bool is_any_far(const struct lines *l, const struct form *form)
{
	struct peer_ways ways;

	if (device_ordinals() < 2 || !movable_is_on() || !may_be(form) || !is_right(l))
		return false;
	for (size_t i = 0; i < l->count; i++)
		if (is_far(l, i, form, &ways))
			return true;
	return false;
}

static CUresult copy_near(const struct lines *l, size_t i, CUmemcpyAttributes *attr,
			  const struct form *form)
{
	size_t first = 0, failed;
	CUdeviceptr to = l->to[i], from = l->from[i];
	size_t bytes = l->bytes[i];

	if (form->is_first)
		return form->is_own ?
			       GATE_CALL(real.cuMemcpyBatchAsync_ptsz(&to, &from, &bytes, 1, attr,
								      &first, 1, &failed,
								      form->stream)) :
			       GATE_CALL(real.cuMemcpyBatchAsync(&to, &from, &bytes, 1, attr,
								 &first, 1, &failed, form->stream));
	return form->is_own ? GATE_CALL(real.cuMemcpyBatchAsync_v2_ptsz(&to, &from, &bytes, 1, attr,
									&first, 1, form->stream)) :
			      GATE_CALL(real.cuMemcpyBatchAsync_v2(&to, &from, &bytes, 1, attr,
								   &first, 1, form->stream));
}

/* One after the other. *out_failed, unless NULL: which one was refused. */
static CUresult copy_lines(const struct lines *l, const struct form *form, size_t *out_failed)
{
	CUresult res = CUDA_SUCCESS;
	struct peer_ways ways;
	size_t attr = 0;

	if (metering_is_on())
		work_fence(form->stream, form->is_own);
	for (size_t i = 0; i < l->count && res == CUDA_SUCCESS; i++) {
		while (attr + 1 < l->attr_count && l->firsts[attr + 1] <= i)
			attr++;
		if (!is_far(l, i, form, &ways)) {
			res = copy_near(l, i, &l->attrs[attr], form);
		} else {
			res = crossing_copy(&ways, form->stream, later(form));
			if (res == CUDA_SUCCESS)
				res = finish(form, l->attrs[attr].srcAccessOrder);
		}
		if (res != CUDA_SUCCESS && out_failed)
			*out_failed = i;
	}
	return res;
}

/* near_<sym>, and the hook that does what is far of it; `failed` is where it is told, or NULL. */
#define LINES(sym, failed, stream_, own, first, ...)                                          \
	GATED_FENCE_AS(static CUresult near_##sym, sym, uses_batch(a, b, c, d, failed), true, \
		       stream_, own, __VA_ARGS__)                                             \
	CUresult hook_##sym(GATED_PARAMS(__VA_ARGS__))                                        \
	{                                                                                     \
		const struct lines lines = { a, b, c, d, e, f, g };                           \
		const struct form form = { stream_, own, first };                             \
                                                                                              \
		if (!real.sym || !is_any_far(&lines, &form))                                  \
			return near_##sym(GATED_ARGS(__VA_ARGS__));                           \
		if (!uses_batch(a, b, c, d, failed))                                          \
			return CUDA_ERROR_INVALID_VALUE;                                      \
		return copy_lines(&lines, &form, failed);                                     \
	}

LINES(cuMemcpyBatchAsync, h, i, false, true, CUdeviceptr *, CUdeviceptr *, size_t *, size_t,
      CUmemcpyAttributes *, size_t *, size_t, size_t *, CUstream)
LINES(cuMemcpyBatchAsync_ptsz, h, i, true, true, CUdeviceptr *, CUdeviceptr *, size_t *, size_t,
      CUmemcpyAttributes *, size_t *, size_t, size_t *, CUstream)
LINES(cuMemcpyBatchAsync_v2, NULL, h, false, false, CUdeviceptr *, CUdeviceptr *, size_t *, size_t,
      CUmemcpyAttributes *, size_t *, size_t, CUstream)
LINES(cuMemcpyBatchAsync_v2_ptsz, NULL, h, true, false, CUdeviceptr *, CUdeviceptr *, size_t *,
      size_t, CUmemcpyAttributes *, size_t *, size_t, CUstream)

/* One copy with such attributes. */
#define LINE(sym, own, ...)                                                                 \
	GATED_FENCE_AS(static CUresult near_##sym, sym, uses_span(a, c) && uses_span(b, c), \
		       c >= LONG_BYTES, e, own, __VA_ARGS__)                                \
	CUresult hook_##sym(GATED_PARAMS(__VA_ARGS__))                                      \
	{                                                                                   \
		const struct form form = { e, own, false };                                 \
		size_t first = 0;                                                           \
		const struct lines line = { &a, &b, &c, 1, d, &first, 1 };                  \
		struct peer_ways ways;                                                      \
		CUresult res;                                                               \
                                                                                            \
		if (!real.sym || !d || !may_be(&form) || !is_far(&line, 0, &form, &ways))   \
			return near_##sym(GATED_ARGS(__VA_ARGS__));                         \
		res = crossing_copy(&ways, e, later(&form));                                \
		return res == CUDA_SUCCESS ? finish(&form, d->srcAccessOrder) : res;        \
	}

LINE(cuMemcpyWithAttributesAsync, false, CUdeviceptr, CUdeviceptr, size_t, CUmemcpyAttributes *,
     CUstream)
LINE(cuMemcpyWithAttributesAsync_ptsz, true, CUdeviceptr, CUdeviceptr, size_t, CUmemcpyAttributes *,
     CUstream)

/* In three dimensions, between addresses: lengths are in bytes; 0 is as long as the copy. */
static bool box_of(const CUDA_MEMCPY3D_BATCH_OP *op, CUDA_MEMCPY3D *out_box)
{
	const CUextent3D *size = &op->extent;
	size_t from_row = op->src.op.ptr.rowLength, to_row = op->dst.op.ptr.rowLength;
	size_t from_rows = op->src.op.ptr.layerHeight, to_rows = op->dst.op.ptr.layerHeight;

	if (op->src.type != CU_MEMCPY_OPERAND_TYPE_POINTER ||
	    op->dst.type != CU_MEMCPY_OPERAND_TYPE_POINTER)
		return false;
	*out_box = (CUDA_MEMCPY3D){ .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
				    .srcDevice = op->src.op.ptr.ptr,
				    .srcPitch = from_row ? from_row : size->width,
				    .srcHeight = from_rows ? from_rows : size->height,
				    .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
				    .dstDevice = op->dst.op.ptr.ptr,
				    .dstPitch = to_row ? to_row : size->width,
				    .dstHeight = to_rows ? to_rows : size->height,
				    .WidthInBytes = size->width,
				    .Height = size->height,
				    .Depth = size->depth };
	return true;
}

static bool is_box_far(const CUDA_MEMCPY3D_BATCH_OP *op, const struct form *form,
		       CUDA_MEMCPY3D_PEER *out_far)
{
	CUDA_MEMCPY3D box;

	return box_of(op, &box) && peer_crosses_3d(&box, form->stream, out_far);
}

static bool is_any_box_far(size_t count, const CUDA_MEMCPY3D_BATCH_OP *ops,
			   unsigned long long flags, const struct form *form)
{
	CUDA_MEMCPY3D_PEER far;

	if (device_ordinals() < 2 || !movable_is_on() || !may_be(form) || !ops || flags)
		return false;
	for (size_t i = 0; i < count; i++)
		if (is_box_far(&ops[i], form, &far))
			return true;
	return false;
}

/* *out_failed, unless NULL: which one leaves an object. */
static bool uses_boxes(size_t count, const CUDA_MEMCPY3D_BATCH_OP *ops, size_t *out_failed)
{
	CUDA_MEMCPY3D box;

	for (size_t i = 0; movable_is_on() && ops && i < count; i++)
		if (box_of(&ops[i], &box) && !uses_copy_3d(&box)) {
			if (out_failed)
				*out_failed = i;
			return false;
		}
	return true;
}

static CUresult copy_near_box(CUDA_MEMCPY3D_BATCH_OP *op, const struct form *form)
{
	size_t failed;

	if (form->is_first)
		return form->is_own ? GATE_CALL(real.cuMemcpy3DBatchAsync_ptsz(1, op, &failed, 0,
									       form->stream)) :
				      GATE_CALL(real.cuMemcpy3DBatchAsync(1, op, &failed, 0,
									  form->stream));
	return form->is_own ? GATE_CALL(real.cuMemcpy3DBatchAsync_v2_ptsz(1, op, 0, form->stream)) :
			      GATE_CALL(real.cuMemcpy3DBatchAsync_v2(1, op, 0, form->stream));
}

static CUresult copy_boxes(size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, const struct form *form,
			   size_t *out_failed)
{
	CUresult res = CUDA_SUCCESS;
	CUDA_MEMCPY3D_PEER far;

	if (metering_is_on())
		work_fence(form->stream, form->is_own);
	for (size_t i = 0; i < count && res == CUDA_SUCCESS; i++) {
		if (!is_box_far(&ops[i], form, &far)) {
			res = copy_near_box(&ops[i], form);
		} else {
			res = crossing_copy_box(&far, form->stream, later(form));
			if (res == CUDA_SUCCESS)
				res = finish(form, ops[i].srcAccessOrder);
		}
		if (res != CUDA_SUCCESS && out_failed)
			*out_failed = i;
	}
	return res;
}

#define BOXES(sym, count, ops, failed, flags, stream_, own, first, ...)                       \
	GATED_FENCE_AS(static CUresult near_##sym, sym, uses_boxes(count, ops, failed), true, \
		       stream_, own, __VA_ARGS__)                                             \
	CUresult hook_##sym(GATED_PARAMS(__VA_ARGS__))                                        \
	{                                                                                     \
		const struct form form = { stream_, own, first };                             \
                                                                                              \
		if (!real.sym || !is_any_box_far(count, ops, flags, &form))                   \
			return near_##sym(GATED_ARGS(__VA_ARGS__));                           \
		if (!uses_boxes(count, ops, failed))                                          \
			return CUDA_ERROR_INVALID_VALUE;                                      \
		return copy_boxes(count, ops, &form, failed);                                 \
	}

BOXES(cuMemcpy3DBatchAsync, a, b, c, d, e, false, true, size_t, CUDA_MEMCPY3D_BATCH_OP *, size_t *,
      unsigned long long, CUstream)
BOXES(cuMemcpy3DBatchAsync_ptsz, a, b, c, d, e, true, true, size_t, CUDA_MEMCPY3D_BATCH_OP *,
      size_t *, unsigned long long, CUstream)
BOXES(cuMemcpy3DBatchAsync_v2, a, b, NULL, c, d, false, false, size_t, CUDA_MEMCPY3D_BATCH_OP *,
      unsigned long long, CUstream)
BOXES(cuMemcpy3DBatchAsync_v2_ptsz, a, b, NULL, c, d, true, false, size_t, CUDA_MEMCPY3D_BATCH_OP *,
      unsigned long long, CUstream)
BOXES(cuMemcpy3DWithAttributesAsync, 1, a, NULL, b, c, false, false, CUDA_MEMCPY3D_BATCH_OP *,
      unsigned long long, CUstream)
BOXES(cuMemcpy3DWithAttributesAsync_ptsz, 1, a, NULL, b, c, true, false, CUDA_MEMCPY3D_BATCH_OP *,
      unsigned long long, CUstream)
