#include "hook/crossing.h"

#include "drv/gpu_fence.h"
#include "drv/relaxed.h"
#include "hook/gated.h"
#include "hook/stream_key.h"

/* Copies from here on take longer than an event. */
#define LONG_BYTES (64 * 1024)

/* As the hooks of these. */
#define BYTES_3D a->WidthInBytes * a->Height * a->Depth
GATED_AS(static CUresult box_now, cuMemcpy3DPeer, uses_copy_peer(a), const CUDA_MEMCPY3D_PEER *)
GATED_AS(static CUresult box_now_own, cuMemcpy3DPeer_ptds, uses_copy_peer(a),
	 const CUDA_MEMCPY3D_PEER *)
GATED_FENCE_AS(static CUresult box_later, cuMemcpy3DPeerAsync, uses_copy_peer(a),
	       (BYTES_3D) >= LONG_BYTES, b, false, const CUDA_MEMCPY3D_PEER *, CUstream)
GATED_FENCE_AS(static CUresult box_later_own, cuMemcpy3DPeerAsync_ptsz, uses_copy_peer(a),
	       (BYTES_3D) >= LONG_BYTES, b, true, const CUDA_MEMCPY3D_PEER *, CUstream)
#define USES_LINE (uses_span(a, e) && uses_span(c, e))
GATED_AS(static CUresult line_now, cuMemcpyPeer, USES_LINE, CUdeviceptr, CUcontext, CUdeviceptr,
	 CUcontext, size_t)
GATED_AS(static CUresult line_now_own, cuMemcpyPeer_ptds, USES_LINE, CUdeviceptr, CUcontext,
	 CUdeviceptr, CUcontext, size_t)
GATED_FENCE_AS(static CUresult line_later, cuMemcpyPeerAsync, USES_LINE, e >= LONG_BYTES, f, false,
	       CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream)
GATED_FENCE_AS(static CUresult line_later_own, cuMemcpyPeerAsync_ptsz, USES_LINE, e >= LONG_BYTES,
	       f, true, CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream)

CUresult crossing_copy_box(const CUDA_MEMCPY3D_PEER *box, CUstream stream, enum crossing form)
{
	switch (form) {
	case CROSSING_NOW:
		return box_now(box);
	case CROSSING_NOW_OWN:
		return box_now_own(box);
	case CROSSING_LATER:
		return box_later(box, stream);
	default:
		return box_later_own(box, stream);
	}
}

/* Rows that lie beside each other on both sides are one. */
static CUresult copy_line(const CUDA_MEMCPY3D_PEER *c, CUstream stream, enum crossing form)
{
	CUdeviceptr to = c->dstDevice, from = c->srcDevice;
	size_t bytes = c->WidthInBytes * c->Height;

	switch (form) {
	case CROSSING_NOW:
		return line_now(to, c->dstContext, from, c->srcContext, bytes);
	case CROSSING_NOW_OWN:
		return line_now_own(to, c->dstContext, from, c->srcContext, bytes);
	case CROSSING_LATER:
		return line_later(to, c->dstContext, from, c->srcContext, bytes, stream);
	default:
		return line_later_own(to, c->dstContext, from, c->srcContext, bytes, stream);
	}
}

CUresult crossing_copy(const struct peer_ways *ways, CUstream stream, enum crossing form)
{
	CUresult res = CUDA_SUCCESS;

	for (unsigned i = 0; i < ways->count && res == CUDA_SUCCESS; i++) {
		const CUDA_MEMCPY3D_PEER *part = &ways->parts[i];

		res = part->srcMemoryType == CU_MEMORYTYPE_DEVICE &&
				      part->dstMemoryType == CU_MEMORYTYPE_DEVICE ?
			      copy_line(part, stream, form) :
			      crossing_copy_box(part, stream, form);
	}
	return res;
}

#define FILL(name, sym, bytes, type)                            \
	WORK_AS(static CUresult name, sym, true, (void)0, NULL, \
		work_bytes(d, false, (bytes) * (uint64_t)c), CUdeviceptr, type, size_t, CUstream)
#define FILL_ROWS(name, sym, bytes, type)                                                   \
	WORK_AS(static CUresult name, sym, true, (void)0, NULL,                             \
		work_bytes(f, false, (bytes) * (uint64_t)d * e), CUdeviceptr, size_t, type, \
		size_t, size_t, CUstream)
FILL(fill_8, cuMemsetD8Async, 1, unsigned char)
FILL(fill_16, cuMemsetD16Async, 2, unsigned short)
FILL(fill_32, cuMemsetD32Async, 4, unsigned int)
FILL_ROWS(fill_rows_8, cuMemsetD2D8Async, 1, unsigned char)
FILL_ROWS(fill_rows_16, cuMemsetD2D16Async, 2, unsigned short)
FILL_ROWS(fill_rows_32, cuMemsetD2D32Async, 4, unsigned int)

/* A fill in a stream of the current context. */
static CUresult fill_in(const CUDA_MEMSET_NODE_PARAMS *f, CUstream stream)
{
	unsigned char value_8 = (unsigned char)f->value;
	unsigned short value_16 = (unsigned short)f->value;

	if (f->height == 1) {
		if (f->elementSize == 1)
			return fill_8(f->dst, value_8, f->width, stream);
		if (f->elementSize == 2)
			return fill_16(f->dst, value_16, f->width, stream);
		return fill_32(f->dst, f->value, f->width, stream);
	}
	if (f->elementSize == 1)
		return fill_rows_8(f->dst, f->pitch, value_8, f->width, f->height, stream);
	if (f->elementSize == 2)
		return fill_rows_16(f->dst, f->pitch, value_16, f->width, f->height, stream);
	return fill_rows_32(f->dst, f->pitch, f->value, f->width, f->height, stream);
}

/* A stream of the current context that waits for no other; moves know of its work. */
static CUresult open_side(CUcontext ctx, CUstream *out_side)
{
	uint32_t was_in = gate_enter();
	CUresult res = real.cuStreamCreate(out_side, CU_STREAM_NON_BLOCKING);

	if (res == CUDA_SUCCESS && gpu_fence_wants_streams())
		gpu_fence_add_stream(ctx, *out_side, CU_STREAM_NON_BLOCKING);
	gate_leave(was_in);
	return res;
}

/* Its work goes on. */
static void close_side(CUstream side)
{
	uint32_t was_in;

	if (metering_is_on())
		metering_end_stream(side);
	was_in = gate_enter();
	gpu_fence_drop_stream(side);
	real.cuStreamDestroy_v2(side);
	gate_leave(was_in);
}

/* Waiting is no work of the device. */
static CUresult wait_for(CUstream stream, CUevent event, bool is_own)
{
	if (metering_is_on())
		work_fence(stream, is_own);
	return GATE_CALL(real.cuStreamWaitEvent(stream, event, 0));
}

/* What is in the stream of context `ctx` by now. On success the event is the caller's. */
static CUresult record(CUcontext ctx, CUstream stream, CUevent *out_event)
{
	CUcontext popped;
	CUevent event;
	CUresult res = real.cuCtxPushCurrent_v2(ctx);

	if (res != CUDA_SUCCESS)
		return res;
	res = real.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	if (res == CUDA_SUCCESS) {
		res = GATE_CALL(real.cuEventRecord(event, stream));
		if (res == CUDA_SUCCESS)
			*out_event = event;
		else
			real.cuEventDestroy_v2(event);
	}
	real.cuCtxPopCurrent_v2(&popped);
	return res;
}

/* Behind `before`, in a stream of the object's context; *out_after comes behind the fill. */
static CUresult fill_behind(const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext ctx, CUevent before,
			    CUevent *out_after)
{
	CUcontext popped;
	CUstream side;
	CUresult res = real.cuCtxPushCurrent_v2(ctx);

	if (res != CUDA_SUCCESS)
		return res;
	res = open_side(ctx, &side);
	if (res == CUDA_SUCCESS) {
		res = wait_for(side, before, false);
		if (res == CUDA_SUCCESS)
			res = fill_in(fill, side);
		if (res == CUDA_SUCCESS)
			res = record(ctx, side, out_after);
		close_side(side);
	}
	real.cuCtxPopCurrent_v2(&popped);
	return res;
}

/* The stream's context, the current one's for a default stream. */
static CUresult context_of(CUstream stream, CUcontext *out_ctx)
{
	return stream_key_is_default(stream) ? real.cuCtxGetCurrent(out_ctx) :
					       real.cuStreamGetCtx(stream, out_ctx);
}

static CUresult fill_now(const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext ctx, CUstream stream,
			 bool is_own)
{
	CUevent before, after;
	CUcontext home;
	CUresult res = context_of(stream, &home);

	if (res == CUDA_SUCCESS)
		res = record(home, stream, &before);
	if (res != CUDA_SUCCESS)
		return res;
	res = fill_behind(fill, ctx, before, &after);
	real.cuEventDestroy_v2(before);
	if (res != CUDA_SUCCESS)
		return res;
	res = wait_for(stream, after, is_own);
	real.cuEventDestroy_v2(after);
	return res;
}

/* Into the graph that the stream is captured into. */
static CUresult fill_captured(const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext ctx, CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	const CUgraphNode *dependencies = NULL;
	CUgraphNode node;
	CUgraph graph = NULL;
	size_t count = 0;
	CUresult res;

	if (!real.cuStreamGetCaptureInfo_v2 || !real.cuStreamUpdateCaptureDependencies ||
	    !real.cuGraphAddMemsetNode)
		return CUDA_ERROR_NOT_SUPPORTED;
	res = real.cuStreamGetCaptureInfo_v2(stream, &status, NULL, &graph, &dependencies, &count);
	if (res != CUDA_SUCCESS)
		return res;
	if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	res = GATE_CALL(real.cuGraphAddMemsetNode(&node, graph, dependencies, count, fill, ctx));
	return res == CUDA_SUCCESS ?
		       GATE_CALL(real.cuStreamUpdateCaptureDependencies(
			       stream, &node, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES)) :
		       res;
}

CUresult crossing_fill(const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext ctx, CUstream stream,
		       bool is_own)
{
	struct relaxed mode;
	CUresult res;

	if (!real.cuCtxPushCurrent_v2 || !real.cuCtxPopCurrent_v2 || !real.cuCtxGetCurrent ||
	    !real.cuEventCreate || !real.cuEventRecord || !real.cuEventDestroy_v2 ||
	    !real.cuStreamGetCtx || !real.cuStreamCreate || !real.cuStreamDestroy_v2 ||
	    !real.cuStreamWaitEvent)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!stream)
		stream = is_own ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
	if (work_is_captured(stream, is_own))
		return fill_captured(fill, ctx, stream);
	mode = relaxed_begin();
	res = fill_now(fill, ctx, stream, is_own);
	relaxed_end(mode);
	return res;
}

/* The one node that the capture of the stream has come to. */
static CUresult last_node(CUstream stream, CUgraphNode *out_node)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	const CUgraphNode *nodes = NULL;
	size_t count = 0;
	CUresult res = real.cuStreamGetCaptureInfo_v2(stream, &status, NULL, NULL, &nodes, &count);

	if (res != CUDA_SUCCESS)
		return res;
	if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE || count != 1)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	*out_node = nodes[0];
	return CUDA_SUCCESS;
}

/* Nothing of it is executed, and nothing moves before it is over: the thread is inside the gate. */
static CUresult capture_copy(CUstream stream, CUgraphNode *out_node, CUgraph graph,
			     const CUgraphNode *dependencies, const CUgraphEdgeData *edges,
			     size_t count, const CUDA_MEMCPY3D_PEER *box)
{
	CUgraph ended;
	CUgraphNode node;
	CUresult res, end;

	res = real.cuStreamBeginCaptureToGraph(stream, graph, dependencies, edges, count,
					       CU_STREAM_CAPTURE_MODE_RELAXED);
	if (res != CUDA_SUCCESS)
		return res;
	res = real.cuMemcpy3DPeerAsync(box, stream);
	if (res == CUDA_SUCCESS)
		res = last_node(stream, &node);
	end = real.cuStreamEndCapture(stream, &ended);
	if (res == CUDA_SUCCESS)
		res = end;
	if (res == CUDA_SUCCESS)
		*out_node = node;
	return res;
}

static CUresult add_copy(CUgraphNode *out_node, CUgraph graph, const CUgraphNode *dependencies,
			 const CUgraphEdgeData *edges, size_t count, const CUDA_MEMCPY3D_PEER *box,
			 CUcontext ctx)
{
	CUcontext popped;
	CUstream stream;
	CUresult res = real.cuCtxPushCurrent_v2(ctx);

	if (res != CUDA_SUCCESS)
		return res;
	res = real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	if (res == CUDA_SUCCESS) {
		res = capture_copy(stream, out_node, graph, dependencies, edges, count, box);
		real.cuStreamDestroy_v2(stream);
	}
	real.cuCtxPopCurrent_v2(&popped);
	return res;
}

CUresult crossing_add_copy(CUgraphNode *out_node, CUgraph graph, const CUgraphNode *dependencies,
			   const CUgraphEdgeData *edges, size_t count,
			   const CUDA_MEMCPY3D_PEER *box, CUcontext ctx)
{
	struct relaxed mode;
	CUresult res;

	if (!out_node)
		return CUDA_ERROR_INVALID_VALUE;
	if (!real.cuStreamBeginCaptureToGraph || !real.cuStreamEndCapture ||
	    !real.cuStreamGetCaptureInfo_v2 || !real.cuMemcpy3DPeerAsync || !real.cuStreamCreate ||
	    !real.cuStreamDestroy_v2 || !real.cuCtxPushCurrent_v2 || !real.cuCtxPopCurrent_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	mode = relaxed_begin();
	res = GATE_CALL(add_copy(out_node, graph, dependencies, edges, count, box, ctx));
	relaxed_end(mode);
	return res;
}
