/*
 * Stream capture: work submitted to a capturing stream becomes nodes of a graph instead of running.
 * The driver's lock protects it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "abi/cuda.h"

struct cuda_work;
struct CUgreenCtx_st;
struct CUevent_st;
struct CUstream_st;

/* Takes work into the capture of its stream, or refuses it. Owns the work. */
CUresult cuda_capture_add(struct CUstream_st *stream, struct cuda_work *work);

/* Notes in the event how far the capture of this stream is. */
CUresult cuda_capture_record(struct CUstream_st *stream, struct CUevent_st *event);

/* Joins the stream to the capture in which the event was recorded. */
CUresult cuda_capture_join(struct CUstream_st *stream, struct CUevent_st *event);

/* A capturing stream is to wait for an event that no capture recorded: refused. */
CUresult cuda_capture_isolate(struct CUstream_st *stream, struct CUevent_st *event);

/* Submitting to this stream while a blocking stream captures: CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
 * for the legacy stream, and the captures end invalidated. */
CUresult cuda_capture_check_legacy(struct CUstream_st *stream);

/* A call that may be unsafe during a capture: refused unless the calling thread's mode allows it,
 * and then the captures that it conflicts with are invalidated. */
CUresult cuda_capture_check_unsafe(struct CUctx_st *ctx);

/* A call about a whole context: no mode allows it while anything of the context captures. */
CUresult cuda_capture_check_context(struct CUctx_st *ctx);

/* The same for a green context. */
CUresult cuda_capture_check_green(const struct CUgreenCtx_st *green);

/* A synchronous call that works in this stream. */
CUresult cuda_capture_check_sync(struct CUstream_st *stream);

/* The same for one stream: refused while it captures, which is then invalidated. */
CUresult cuda_capture_check_stream(struct CUstream_st *stream);

/* The graph that a capturing stream's work goes into. */
struct CUgraph_st *cuda_capture_graph(const struct CUstream_st *stream);

/* What a stream's capture is at; the next node of the stream depends on `dependencies`. */
struct cuda_capture_info {
	CUstreamCaptureStatus status;
	uint64_t id;
	CUgraph graph;
	const CUgraphNode *dependencies;
	size_t count;
};
CUresult cuda_capture_info(struct CUstream_st *stream, struct cuda_capture_info *out);

/* The stream dies: its capture, if it has one, is dropped. */
void cuda_capture_abandon(struct CUstream_st *stream);
