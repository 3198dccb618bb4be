#include "cuda_call.h"
#include "cuda_capture.h"
#include "cuda_context.h"
#include "cuda_event.h"
#include "cuda_green.h"
#include "cuda_object.h"
#include "cuda_pool.h"
#include "cuda_stream.h"
#include "cuda_work.h"

static CUresult sync_context(struct CUctx_st *ctx)
{
	CUresult res = cuda_capture_check_context(ctx);

	if (res != CUDA_SUCCESS)
		return res;
	cuda_stream_drain(ctx);
	cuda_pool_trim_all();
	return ctx->error;
}

CUresult cuCtxSynchronize(void)
{
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(CUDA_ID_cuCtxSynchronize, &ctx);

	return res == CUDA_SUCCESS ? cuda_call_end(sync_context(ctx)) : res;
}

CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
	CUresult res = cuda_call_begin(CUDA_ID_cuCtxSynchronize_v2);

	if (res != CUDA_SUCCESS)
		return res;
	res = ctx ? cuda_context_resolve(&ctx) : cuda_context_current(&ctx);
	if (res == CUDA_SUCCESS)
		res = ctx->error;
	return cuda_call_end(res == CUDA_SUCCESS ? sync_context(ctx) : res);
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

static CUresult synchronize(enum cuda_id id, CUstream handle, enum stream_default form)
{
	struct CUstream_st *stream;
	struct CUctx_st *ctx;
	CUresult res = begin(id, handle, form, &stream);

	if (res != CUDA_SUCCESS)
		return res;
	ctx = stream->ctx;
	res = cuda_capture_check_stream(stream);
	if (res != CUDA_SUCCESS)
		return cuda_call_end(res);
	cuda_stream_wait(stream);
	cuda_pool_trim_all();
	return cuda_call_end(ctx->error);
}

CUresult cuStreamSynchronize(CUstream stream)
{
	return synchronize(CUDA_ID_cuStreamSynchronize, stream, DEFAULT_LEGACY);
}

CUresult cuStreamSynchronize_ptsz(CUstream stream)
{
	return synchronize(CUDA_ID_cuStreamSynchronize_ptsz, stream, DEFAULT_PER_THREAD);
}

static CUresult query(enum cuda_id id, CUstream handle, enum stream_default form)
{
	struct CUstream_st *stream;
	CUresult res = begin(id, handle, form, &stream);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuda_capture_check_stream(stream);
	if (res == CUDA_SUCCESS && !cuda_stream_is_done(stream))
		res = CUDA_ERROR_NOT_READY;
	return cuda_call_end(res);
}

CUresult cuStreamQuery(CUstream stream)
{
	return query(CUDA_ID_cuStreamQuery, stream, DEFAULT_LEGACY);
}

CUresult cuStreamQuery_ptsz(CUstream stream)
{
	return query(CUDA_ID_cuStreamQuery_ptsz, stream, DEFAULT_PER_THREAD);
}

/* What has never been recorded is done, and so there is nothing to wait for. */
static CUresult wait_for(struct CUstream_st *stream, struct CUevent_st *event)
{
	struct cuda_work *work;

	if (event->capture_id)
		return cuda_capture_join(stream, event);
	if (stream->capture)
		return cuda_capture_isolate(stream, event);
	if (!event->record || !event->record->pending)
		return CUDA_SUCCESS;
	work = cuda_record_wait_work(event->record);
	return work ? cuda_stream_submit(stream, work) : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult wait_event(enum cuda_id id, CUstream handle, CUevent event, unsigned flags,
			   enum stream_default form)
{
	struct CUstream_st *stream;
	CUresult res = begin(id, handle, form, &stream);

	if (res != CUDA_SUCCESS)
		return res;
	if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	if (!cuda_object_is(OBJECT_EVENT, event))
		return cuda_call_end(CUDA_ERROR_INVALID_HANDLE);
	return cuda_call_end(wait_for(stream, event));
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
	return wait_event(CUDA_ID_cuStreamWaitEvent, stream, event, flags, DEFAULT_LEGACY);
}

CUresult cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned int flags)
{
	return wait_event(CUDA_ID_cuStreamWaitEvent_ptsz, stream, event, flags, DEFAULT_PER_THREAD);
}

/* Each stream that a context, or a green one, has now waits. */
static CUresult wait_in_all(struct CUctx_st *ctx, const struct CUgreenCtx_st *green,
			    struct CUevent_st *event)
{
	CUresult res = CUDA_SUCCESS;

	for (struct CUstream_st *s = ctx->streams; s && res == CUDA_SUCCESS; s = s->next)
		if (!s->is_closing && (!green || s->green == green))
			res = wait_for(s, event);
	return res;
}

CUresult cuCtxWaitEvent(CUcontext ctx, CUevent event)
{
	CUresult res = cuda_call_begin(CUDA_ID_cuCtxWaitEvent);

	if (res != CUDA_SUCCESS)
		return res;
	res = ctx ? cuda_context_resolve(&ctx) : cuda_context_current(&ctx);
	if (res == CUDA_SUCCESS)
		res = ctx->error;
	if (res == CUDA_SUCCESS && !cuda_object_is(OBJECT_EVENT, event))
		res = CUDA_ERROR_INVALID_HANDLE;
	if (res == CUDA_SUCCESS)
		res = cuda_capture_check_context(ctx);
	if (res == CUDA_SUCCESS)
		res = wait_in_all(ctx, NULL, event);
	return cuda_call_end(res);
}

CUresult cuGreenCtxWaitEvent(CUgreenCtx green, CUevent event)
{
	CUresult res = cuda_call_begin(CUDA_ID_cuGreenCtxWaitEvent);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuda_green_check(green);
	if (res == CUDA_SUCCESS && !cuda_object_is(OBJECT_EVENT, event))
		res = CUDA_ERROR_INVALID_HANDLE;
	if (res == CUDA_SUCCESS)
		res = cuda_capture_check_green(green);
	if (res == CUDA_SUCCESS)
		res = wait_in_all(green->view->home, green, event);
	return cuda_call_end(res);
}

static CUresult run_host(struct cuda_work *work, struct CUctx_st *ctx, struct cuda_turn *turn)
{
	(void)ctx;
	(void)turn;
	cuda_call_forbid(true);
	if (work->host.callback)
		work->host.callback(work->host.stream, CUDA_SUCCESS, work->host.data);
	else
		work->host.fn(work->host.data);
	cuda_call_forbid(false);
	return CUDA_SUCCESS;
}

static const struct cuda_work_ops host_ops = { .node_type = CU_GRAPH_NODE_TYPE_HOST,
					       .run = run_host };

struct cuda_work *cuda_host_work(CUhostFn fn, void *data)
{
	struct cuda_work *work = cuda_work_new(&host_ops);

	if (work) {
		work->host.fn = fn;
		work->host.data = data;
	}
	return work;
}

static CUresult add_host(enum cuda_id id, CUstream handle, enum stream_default form, CUhostFn fn,
			 CUstreamCallback callback, void *data)
{
	struct CUstream_st *stream;
	struct cuda_work *work;
	CUresult res = begin(id, handle, form, &stream);

	if (res != CUDA_SUCCESS)
		return res;
	if (!fn && !callback)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	if (callback && stream->capture)
		return cuda_call_end(cuda_capture_check_stream(stream));
	work = cuda_work_new(&host_ops);
	if (!work)
		return cuda_call_end(CUDA_ERROR_OUT_OF_MEMORY);
	work->host.fn = fn;
	work->host.callback = callback;
	work->host.stream = handle;
	work->host.data = data;
	return cuda_call_end(cuda_stream_submit(stream, work));
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn fn, void *data)
{
	return add_host(CUDA_ID_cuLaunchHostFunc, stream, DEFAULT_LEGACY, fn, NULL, data);
}

CUresult cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn fn, void *data)
{
	return add_host(CUDA_ID_cuLaunchHostFunc_ptsz, stream, DEFAULT_PER_THREAD, fn, NULL, data);
}

/* How the function's end is waited for is a hint. */
CUresult cuLaunchHostFunc_v2(CUstream stream, CUhostFn fn, void *data, unsigned int sync_mode)
{
	(void)sync_mode;
	return add_host(CUDA_ID_cuLaunchHostFunc_v2, stream, DEFAULT_LEGACY, fn, NULL, data);
}

CUresult cuLaunchHostFunc_v2_ptsz(CUstream stream, CUhostFn fn, void *data, unsigned int sync_mode)
{
	(void)sync_mode;
	return add_host(CUDA_ID_cuLaunchHostFunc_v2_ptsz, stream, DEFAULT_PER_THREAD, fn, NULL,
			data);
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void *data,
			     unsigned int flags)
{
	if (flags)
		return cuda_call_is_ready() ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_INITIALIZED;
	return add_host(CUDA_ID_cuStreamAddCallback, stream, DEFAULT_LEGACY, NULL, callback, data);
}

CUresult cuStreamAddCallback_ptsz(CUstream stream, CUstreamCallback callback, void *data,
				  unsigned int flags)
{
	if (flags)
		return cuda_call_is_ready() ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_INITIALIZED;
	return add_host(CUDA_ID_cuStreamAddCallback_ptsz, stream, DEFAULT_PER_THREAD, NULL,
			callback, data);
}
