#include "cuda_capture.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_call.h"
#include "cuda_context.h"
#include "cuda_event.h"
#include "cuda_graph.h"
#include "cuda_green.h"
#include "cuda_object.h"
#include "cuda_stream.h"
#include "cuda_work.h"

enum { CAPTURE_STREAMS = 64 };

/* A stream's place in a capture. Its clock says how far it knows each stream: what lies before an
 * event it waited for counts as joined. */
struct place {
	struct CUstream_st *stream; /* NULL: it died */
	uint32_t clock[CAPTURE_STREAMS];
};

struct cuda_capture {
	uint64_t id;
	CUstreamCaptureMode mode;
	pthread_t thread; /* that began it */
	bool is_invalid;
	struct CUgraph_st *graph;
	bool is_into; /* the program's own graph */
	int count;    /* places; the first is the stream it began in */
	struct place place[CAPTURE_STREAMS];
	struct cuda_capture *next;
};

static struct {
	struct cuda_capture *all;
	uint64_t last_id;
} captures; /* the driver's lock */

static __thread CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static void invalidate(struct cuda_capture *capture)
{
	capture->is_invalid = true;
}

static struct place *place_of(struct cuda_capture *capture, const struct CUstream_st *stream)
{
	for (int i = 0; i < capture->count; i++)
		if (capture->place[i].stream == stream)
			return &capture->place[i];
	return NULL;
}

/* The stream has moved on: others do not know it as far as that. */
static void tick(struct cuda_capture *capture, struct place *place)
{
	place->clock[place - capture->place]++;
}

CUresult cuda_capture_add(struct CUstream_st *stream, struct cuda_work *work)
{
	struct cuda_capture *capture = stream->capture;
	CUresult res;

	if (capture->is_invalid) {
		cuda_work_delete(work);
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	}
	res = cuda_graph_add(capture->graph, work, NULL);
	if (res == CUDA_SUCCESS)
		tick(capture, place_of(capture, stream));
	return res;
}

CUresult cuda_capture_record(struct CUstream_st *stream, struct CUevent_st *event)
{
	struct cuda_capture *capture = stream->capture;
	struct place *place = place_of(capture, stream);

	if (capture->is_invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (!event->capture_clock)
		event->capture_clock = malloc(sizeof(place->clock));
	if (!event->capture_clock)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(event->capture_clock, place->clock, sizeof(place->clock));
	event->capture_id = capture->id;
	return CUDA_SUCCESS;
}

static struct cuda_capture *find(uint64_t id)
{
	for (struct cuda_capture *c = captures.all; c; c = c->next)
		if (c->id == id)
			return c;
	return NULL;
}

CUresult cuda_capture_join(struct CUstream_st *stream, struct CUevent_st *event)
{
	struct cuda_capture *capture = find(event->capture_id);
	struct place *place;

	if (!capture)
		return CUDA_ERROR_CAPTURED_EVENT;
	if (stream->capture && stream->capture != capture) {
		invalidate(stream->capture);
		invalidate(capture);
		return CUDA_ERROR_STREAM_CAPTURE_MERGE;
	}
	if (capture->is_invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (stream->kind == STREAM_LEGACY) {
		invalidate(capture);
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	if (!stream->capture) {
		if (capture->count == CAPTURE_STREAMS)
			return CUDA_ERROR_OUT_OF_MEMORY;
		capture->place[capture->count++] = (struct place){ .stream = stream };
		stream->capture = capture;
	}
	place = place_of(capture, stream);
	for (int i = 0; i < CAPTURE_STREAMS; i++)
		if (place->clock[i] < event->capture_clock[i])
			place->clock[i] = event->capture_clock[i];
	return CUDA_SUCCESS;
}

/* An event that was never recorded is nothing to wait for. */
CUresult cuda_capture_isolate(struct CUstream_st *stream, struct CUevent_st *event)
{
	if (stream->capture->is_invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (!event->record)
		return CUDA_SUCCESS;
	invalidate(stream->capture);
	return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
}

/* Invalidates the captures of the context's streams: of its blocking ones alone, or of those of a
 * green context. True if there was one. */
static bool disturb(struct CUctx_st *ctx, bool only_blocking, const struct CUgreenCtx_st *green)
{
	bool found = false;

	if (!captures.all)
		return false;
	for (struct CUstream_st *s = ctx->streams; s; s = s->next) {
		if (!s->capture || (only_blocking && !cuda_stream_is_blocking(s)) ||
		    (green && s->green != green))
			continue;
		invalidate(s->capture);
		found = true;
	}
	return found;
}

static bool has_blocking(const struct CUctx_st *ctx)
{
	if (!captures.all)
		return false;
	for (const struct CUstream_st *s = ctx->streams; s; s = s->next)
		if (s->capture && cuda_stream_is_blocking(s))
			return true;
	return false;
}

CUresult cuda_capture_check_legacy(struct CUstream_st *stream)
{
	return stream->kind == STREAM_LEGACY && disturb(stream->ctx, true, NULL) ?
		       CUDA_ERROR_STREAM_CAPTURE_IMPLICIT :
		       CUDA_SUCCESS;
}

/* Does a capture forbid the calling thread what may be unsafe? */
static bool forbids(const struct cuda_capture *capture)
{
	if (capture->is_invalid || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	if (pthread_equal(capture->thread, pthread_self()))
		return capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
	return capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
	       thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult cuda_capture_check_unsafe(struct CUctx_st *ctx)
{
	CUresult res = CUDA_SUCCESS;

	(void)ctx;
	for (struct cuda_capture *c = captures.all; c; c = c->next) {
		if (!forbids(c))
			continue;
		invalidate(c);
		res = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	return res;
}

CUresult cuda_capture_check_context(struct CUctx_st *ctx)
{
	return disturb(ctx, false, NULL) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult cuda_capture_check_green(const struct CUgreenCtx_st *green)
{
	return disturb(green->view->home, false, green) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED :
							  CUDA_SUCCESS;
}

CUresult cuda_capture_check_sync(struct CUstream_st *stream)
{
	CUresult res = cuda_capture_check_unsafe(stream->ctx);

	return res == CUDA_SUCCESS ? cuda_capture_check_stream(stream) : res;
}

CUresult cuda_capture_check_stream(struct CUstream_st *stream)
{
	if (!stream->capture)
		return cuda_capture_check_legacy(stream);
	if (stream->capture->is_invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	invalidate(stream->capture);
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/* Ends it: its streams work again. The graph is the caller's. */
static void end(struct cuda_capture *capture)
{
	struct cuda_capture **link = &captures.all;

	for (int i = 0; i < capture->count; i++)
		if (capture->place[i].stream)
			capture->place[i].stream->capture = NULL;
	while (*link != capture)
		link = &(*link)->next;
	*link = capture->next;
	capture->graph->is_captured_into = false;
	free(capture);
}

/* The capture of its first stream dies with it, another one only loses a member it then misses. */
void cuda_capture_abandon(struct CUstream_st *stream)
{
	struct cuda_capture *capture = stream->capture;

	if (!capture)
		return;
	if (capture->place[0].stream == stream) {
		struct CUgraph_st *graph = capture->is_into ? NULL : capture->graph;

		end(capture);
		if (graph)
			cuda_graph_delete(graph);
		return;
	}
	invalidate(capture);
	place_of(capture, stream)->stream = NULL;
	stream->capture = NULL;
}

/* Into `graph`; NULL: a new one. */
static CUresult begin_capture(struct CUstream_st *stream, CUstreamCaptureMode mode,
			      struct CUgraph_st *graph)
{
	struct cuda_capture *capture;

	if (stream->kind == STREAM_LEGACY)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (stream->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	capture = calloc(1, sizeof(*capture));
	if (!capture)
		return CUDA_ERROR_OUT_OF_MEMORY;
	capture->is_into = graph != NULL;
	capture->graph = graph ? graph : cuda_graph_new();
	if (!capture->graph) {
		free(capture);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	capture->graph->is_captured_into = true;
	capture->id = ++captures.last_id;
	capture->mode = mode;
	capture->thread = pthread_self();
	capture->place[capture->count++].stream = stream;
	capture->next = captures.all;
	captures.all = capture;
	stream->capture = capture;
	return CUDA_SUCCESS;
}

/* Starts a call about one stream. */
static CUresult begin(enum cuda_id id, CUstream handle, enum stream_default form,
		      struct CUstream_st **out_stream)
{
	CUresult res = cuda_call_begin(id);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuda_stream_find(handle, form, out_stream);
	return res == CUDA_SUCCESS ? res : cuda_call_end(res);
}

static CUresult begin_call(enum cuda_id id, CUstream handle, enum stream_default form,
			   CUstreamCaptureMode mode)
{
	struct CUstream_st *stream;
	CUresult res = begin(id, handle, form, &stream);

	if (res != CUDA_SUCCESS)
		return res;
	if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	return cuda_call_end(begin_capture(stream, mode, NULL));
}

/* Graphs run their nodes in the order of their making: what the first node follows is of no use. */
static CUresult begin_into(enum cuda_id id, CUstream handle, enum stream_default form,
			   CUgraph graph, const CUgraphNode *dependencies, size_t count,
			   CUstreamCaptureMode mode)
{
	struct CUstream_st *stream;
	CUresult res = begin(id, handle, form, &stream);

	if (res != CUDA_SUCCESS)
		return res;
	if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED ||
	    !cuda_object_is(OBJECT_GRAPH, graph) || graph->is_captured_into ||
	    (count && !dependencies))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	for (size_t i = 0; i < count; i++)
		if (!cuda_object_is(OBJECT_GRAPH_NODE, dependencies[i]) ||
		    dependencies[i]->graph != graph)
			return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	return cuda_call_end(begin_capture(stream, mode, graph));
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
				     const CUgraphNode *dependencies, const CUgraphEdgeData *edges,
				     size_t count, CUstreamCaptureMode mode)
{
	(void)edges;
	return begin_into(CUDA_ID_cuStreamBeginCaptureToGraph, stream, DEFAULT_LEGACY, graph,
			  dependencies, count, mode);
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph,
					  const CUgraphNode *dependencies,
					  const CUgraphEdgeData *edges, size_t count,
					  CUstreamCaptureMode mode)
{
	(void)edges;
	return begin_into(CUDA_ID_cuStreamBeginCaptureToGraph_ptsz, stream, DEFAULT_PER_THREAD,
			  graph, dependencies, count, mode);
}

/* What the stream's next node follows: it follows all that there are. */
static CUresult depend(enum cuda_id id, CUstream handle, enum stream_default form,
		       const CUgraphNode *dependencies, size_t count, unsigned flags)
{
	struct cuda_capture *capture;
	struct CUstream_st *stream;
	CUresult res = begin(id, handle, form, &stream);

	if (res != CUDA_SUCCESS)
		return res;
	capture = stream->capture;
	if (!capture)
		return cuda_call_end(CUDA_ERROR_ILLEGAL_STATE);
	if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (count && !dependencies))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	if (capture->is_invalid)
		return cuda_call_end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	for (size_t i = 0; i < count; i++)
		if (!cuda_object_is(OBJECT_GRAPH_NODE, dependencies[i]) ||
		    dependencies[i]->graph != capture->graph)
			return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	tick(capture, place_of(capture, stream));
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *dependencies, size_t count,
					   unsigned int flags)
{
	return depend(CUDA_ID_cuStreamUpdateCaptureDependencies, stream, DEFAULT_LEGACY,
		      dependencies, count, flags);
}

CUresult cuStreamUpdateCaptureDependencies_ptsz(CUstream stream, CUgraphNode *dependencies,
						size_t count, unsigned int flags)
{
	return depend(CUDA_ID_cuStreamUpdateCaptureDependencies_ptsz, stream, DEFAULT_PER_THREAD,
		      dependencies, count, flags);
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode *dependencies,
					      const CUgraphEdgeData *edges, size_t count,
					      unsigned int flags)
{
	(void)edges;
	return depend(CUDA_ID_cuStreamUpdateCaptureDependencies_v2, stream, DEFAULT_LEGACY,
		      dependencies, count, flags);
}

CUresult cuStreamUpdateCaptureDependencies_v2_ptsz(CUstream stream, CUgraphNode *dependencies,
						   const CUgraphEdgeData *edges, size_t count,
						   unsigned int flags)
{
	(void)edges;
	return depend(CUDA_ID_cuStreamUpdateCaptureDependencies_v2_ptsz, stream, DEFAULT_PER_THREAD,
		      dependencies, count, flags);
}

CUresult cuStreamBeginCapture(CUstream stream)
{
	return begin_call(CUDA_ID_cuStreamBeginCapture, stream, DEFAULT_LEGACY,
			  CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult cuStreamBeginCapture_ptsz(CUstream stream)
{
	return begin_call(CUDA_ID_cuStreamBeginCapture_ptsz, stream, DEFAULT_PER_THREAD,
			  CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
	return begin_call(CUDA_ID_cuStreamBeginCapture_v2, stream, DEFAULT_LEGACY, mode);
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode)
{
	return begin_call(CUDA_ID_cuStreamBeginCapture_v2_ptsz, stream, DEFAULT_PER_THREAD, mode);
}

/* Does the first stream know all that the others did? */
static bool is_joined(const struct cuda_capture *capture)
{
	for (int i = 1; i < capture->count; i++)
		if (capture->place[0].clock[i] < capture->place[i].clock[i])
			return false;
	return true;
}

static CUresult end_capture(struct CUstream_st *stream, CUgraph *out_graph)
{
	struct cuda_capture *capture = stream->capture;
	struct CUgraph_st *graph;
	CUresult res = CUDA_SUCCESS;
	bool is_into;

	if (!capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	is_into = capture->is_into;
	if (capture->place[0].stream != stream) {
		invalidate(capture);
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	}
	if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
	    !pthread_equal(capture->thread, pthread_self()))
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	if (capture->is_invalid)
		res = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else if (!is_joined(capture))
		res = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	graph = capture->graph;
	end(capture);
	if (res != CUDA_SUCCESS) {
		if (!is_into)
			cuda_graph_delete(graph);
		graph = NULL;
	}
	*out_graph = graph;
	return res;
}

static CUresult end_call(enum cuda_id id, CUstream handle, enum stream_default form,
			 CUgraph *out_graph)
{
	struct CUstream_st *stream;
	CUresult res = begin(id, handle, form, &stream);

	if (res != CUDA_SUCCESS)
		return res;
	return cuda_call_end(out_graph ? end_capture(stream, out_graph) : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *out_graph)
{
	return end_call(CUDA_ID_cuStreamEndCapture, stream, DEFAULT_LEGACY, out_graph);
}

CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *out_graph)
{
	return end_call(CUDA_ID_cuStreamEndCapture_ptsz, stream, DEFAULT_PER_THREAD, out_graph);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *inout_mode)
{
	CUstreamCaptureMode old = thread_mode;
	CUresult res = cuda_call_begin(CUDA_ID_cuThreadExchangeStreamCaptureMode);

	if (res != CUDA_SUCCESS)
		return res;
	if (!inout_mode || (unsigned)*inout_mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	thread_mode = *inout_mode;
	*inout_mode = old;
	return cuda_call_end(CUDA_SUCCESS);
}

struct CUgraph_st *cuda_capture_graph(const struct CUstream_st *stream)
{
	return stream->capture->graph;
}

CUresult cuda_capture_info(struct CUstream_st *stream, struct cuda_capture_info *out)
{
	struct cuda_capture *capture = stream->capture;

	if (stream->kind == STREAM_LEGACY && has_blocking(stream->ctx))
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	*out = (struct cuda_capture_info){ .status = CU_STREAM_CAPTURE_STATUS_NONE };
	if (!capture)
		return CUDA_SUCCESS;
	out->status = capture->is_invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED :
					    CU_STREAM_CAPTURE_STATUS_ACTIVE;
	out->id = capture->id;
	out->graph = capture->graph;
	if (capture->graph->count) {
		out->dependencies = &capture->graph->node[capture->graph->count - 1];
		out->count = 1;
	}
	return CUDA_SUCCESS;
}
