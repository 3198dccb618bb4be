#include "cuda_call.h"
#include "cuda_capture.h"
#include "cuda_context.h"
#include "cuda_green.h"
#include "cuda_object.h"
#include "cuda_stream.h"

/* Starts a question about one stream; `out` is where its answer goes. */
static CUresult begin(enum cuda_id id, CUstream handle, enum stream_default form, const void *out,
		      struct CUstream_st **out_stream)
{
	CUresult res = cuda_call_begin(id);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	res = cuda_stream_find(handle, form, out_stream);
	return res == CUDA_SUCCESS ? res : cuda_call_end(res);
}

/* A question with one answer: the call and its per-thread form. */
#define QUESTION(symbol, twin, type, answer)                                                    \
	static CUresult symbol##_of(enum cuda_id id, CUstream handle, enum stream_default form, \
				    type *out)                                                  \
	{                                                                                       \
		struct CUstream_st *stream;                                                     \
		CUresult res = begin(id, handle, form, out, &stream);                           \
                                                                                                \
		if (res == CUDA_SUCCESS)                                                        \
			*out = answer;                                                          \
		return res == CUDA_SUCCESS ? cuda_call_end(res) : res;                          \
	}                                                                                       \
	CUresult symbol(CUstream handle, type *out)                                             \
	{                                                                                       \
		return symbol##_of(CUDA_ID_##symbol, handle, DEFAULT_LEGACY, out);              \
	}                                                                                       \
	CUresult twin(CUstream handle, type *out)                                               \
	{                                                                                       \
		return symbol##_of(CUDA_ID_##twin, handle, DEFAULT_PER_THREAD, out);            \
	}

QUESTION(cuStreamGetPriority, cuStreamGetPriority_ptsz, int, stream->priority)
QUESTION(cuStreamGetFlags, cuStreamGetFlags_ptsz, unsigned int, stream->flags)
QUESTION(cuStreamGetId, cuStreamGetId_ptsz, unsigned long long, stream->id)
QUESTION(cuStreamGetCtx, cuStreamGetCtx_ptsz, CUcontext,
	 stream->green ? stream->green->view : stream->ctx)
QUESTION(cuStreamGetDevice, cuStreamGetDevice_ptsz, CUdevice, stream->ctx->dev)

static CUresult get_ctx(enum cuda_id id, CUstream handle, enum stream_default form,
			CUcontext *out_ctx, CUgreenCtx *out_green)
{
	struct CUstream_st *stream;
	CUresult res = begin(id, handle, form, out_ctx, &stream);

	if (res != CUDA_SUCCESS)
		return res;
	*out_ctx = stream->ctx;
	if (out_green)
		*out_green = stream->green;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext *out_ctx, CUgreenCtx *out_green)
{
	return get_ctx(CUDA_ID_cuStreamGetCtx_v2, stream, DEFAULT_LEGACY, out_ctx, out_green);
}

CUresult cuStreamGetCtx_v2_ptsz(CUstream stream, CUcontext *out_ctx, CUgreenCtx *out_green)
{
	return get_ctx(CUDA_ID_cuStreamGetCtx_v2_ptsz, stream, DEFAULT_PER_THREAD, out_ctx,
		       out_green);
}

/* What a caller asks about a capture; only the status must be asked. */
struct capture_out {
	CUstreamCaptureStatus *status;
	cuuint64_t *id;
	CUgraph *graph;
	const CUgraphNode **dependencies;
	const CUgraphEdgeData **edges;
	size_t *count;
};

static CUresult capture_info(enum cuda_id id, CUstream handle, enum stream_default form,
			     struct capture_out out)
{
	struct cuda_capture_info info;
	struct CUstream_st *stream;
	CUresult res = begin(id, handle, form, out.status, &stream);

	if (res != CUDA_SUCCESS)
		return res;
	if (out.edges && !out.dependencies)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	res = cuda_capture_info(stream, &info);
	if (res != CUDA_SUCCESS)
		return cuda_call_end(res);
	*out.status = info.status;
	if (info.status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return cuda_call_end(CUDA_SUCCESS);
	if (out.id)
		*out.id = info.id;
	if (out.graph)
		*out.graph = info.graph;
	if (out.dependencies)
		*out.dependencies = info.dependencies;
	if (out.edges)
		*out.edges = NULL;
	if (out.count)
		*out.count = info.count;
	return cuda_call_end(CUDA_SUCCESS);
}

/* A question about the capture: the call and its per-thread form. */
#define CAPTURE(symbol, twin, params, ...)                                      \
	CUresult symbol params                                                  \
	{                                                                       \
		return capture_info(CUDA_ID_##symbol, stream, DEFAULT_LEGACY,   \
				    (struct capture_out){ __VA_ARGS__ });       \
	}                                                                       \
	CUresult twin params                                                    \
	{                                                                       \
		return capture_info(CUDA_ID_##twin, stream, DEFAULT_PER_THREAD, \
				    (struct capture_out){ __VA_ARGS__ });       \
	}

CAPTURE(cuStreamIsCapturing, cuStreamIsCapturing_ptsz,
	(CUstream stream, CUstreamCaptureStatus *status), .status = status)
CAPTURE(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_ptsz,
	(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id), .status = status,
	.id = id)
CAPTURE(cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo_v2_ptsz,
	(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
	 const CUgraphNode **dependencies, size_t *count),
	.status = status, .id = id, .graph = graph, .dependencies = dependencies, .count = count)
CAPTURE(cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo_v3_ptsz,
	(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
	 const CUgraphNode **dependencies, const CUgraphEdgeData **edges, size_t *count),
	.status = status, .id = id, .graph = graph, .dependencies = dependencies, .edges = edges,
	.count = count)

/* The attributes that a stream keeps; the others exist for launches only. */
static CUresult attribute(struct CUstream_st *stream, CUstreamAttrID id,
			  CUstreamAttrValue **out_value)
{
	switch ((int)id) {
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
		*out_value = &stream->window;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
		*out_value = &stream->policy;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult get_attribute(enum cuda_id id, CUstream handle, enum stream_default form,
			      CUstreamAttrID attr, CUstreamAttrValue *out_value)
{
	CUstreamAttrValue *value;
	struct CUstream_st *stream;
	CUresult res = begin(id, handle, form, out_value, &stream);

	if (res != CUDA_SUCCESS)
		return res;
	if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY) {
		out_value->priority = stream->priority;
		return cuda_call_end(CUDA_SUCCESS);
	}
	res = attribute(stream, attr, &value);
	if (res == CUDA_SUCCESS)
		*out_value = *value;
	return cuda_call_end(res);
}

static CUresult set_attribute(enum cuda_id id, CUstream handle, enum stream_default form,
			      CUstreamAttrID attr, const CUstreamAttrValue *new_value)
{
	CUstreamAttrValue *value;
	struct CUstream_st *stream;
	CUresult res = begin(id, handle, form, new_value, &stream);

	if (res != CUDA_SUCCESS)
		return res;
	res = attribute(stream, attr, &value);
	if (res == CUDA_SUCCESS)
		*value = *new_value;
	return cuda_call_end(res);
}

static CUresult copy_attributes(enum cuda_id id, CUstream dst_handle, CUstream src_handle,
				enum stream_default form)
{
	struct CUstream_st *dst = NULL, *src;
	CUresult res = begin(id, dst_handle, form, &dst, &dst);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuda_stream_find(src_handle, form, &src);
	if (res == CUDA_SUCCESS) {
		dst->window = src->window;
		dst->policy = src->policy;
	}
	return cuda_call_end(res);
}

CUresult cuStreamGetAttribute(CUstream stream, CUstreamAttrID attr, CUstreamAttrValue *out_value)
{
	return get_attribute(CUDA_ID_cuStreamGetAttribute, stream, DEFAULT_LEGACY, attr, out_value);
}

CUresult cuStreamGetAttribute_ptsz(CUstream stream, CUstreamAttrID attr,
				   CUstreamAttrValue *out_value)
{
	return get_attribute(CUDA_ID_cuStreamGetAttribute_ptsz, stream, DEFAULT_PER_THREAD, attr,
			     out_value);
}

CUresult cuStreamSetAttribute(CUstream stream, CUstreamAttrID attr, const CUstreamAttrValue *value)
{
	return set_attribute(CUDA_ID_cuStreamSetAttribute, stream, DEFAULT_LEGACY, attr, value);
}

CUresult cuStreamSetAttribute_ptsz(CUstream stream, CUstreamAttrID attr,
				   const CUstreamAttrValue *value)
{
	return set_attribute(CUDA_ID_cuStreamSetAttribute_ptsz, stream, DEFAULT_PER_THREAD, attr,
			     value);
}

CUresult cuStreamCopyAttributes(CUstream dst, CUstream src)
{
	return copy_attributes(CUDA_ID_cuStreamCopyAttributes, dst, src, DEFAULT_LEGACY);
}

CUresult cuStreamCopyAttributes_ptsz(CUstream dst, CUstream src)
{
	return copy_attributes(CUDA_ID_cuStreamCopyAttributes_ptsz, dst, src, DEFAULT_PER_THREAD);
}
