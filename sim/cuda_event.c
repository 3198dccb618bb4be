#include "cuda_event.h"

#include <stdlib.h>

#include "cuda_call.h"
#include "cuda_capture.h"
#include "cuda_context.h"
#include "cuda_green.h"
#include "cuda_object.h"
#include "cuda_pool.h"
#include "cuda_stream.h"
#include "cuda_work.h"

static struct CUevent_st *events; /* the driver's lock */

struct cuda_record *cuda_record_new(int pending)
{
	struct cuda_record *record = calloc(1, sizeof(*record));

	if (!record)
		return NULL;
	record->references = 1;
	record->pending = pending;
	record->time_ns = cuda_turn_now_ns();
	return record;
}

void cuda_record_put(struct cuda_record *record)
{
	if (record && --record->references == 0)
		free(record);
}

/* Work that never runs, because its context failed, still lets those go on who wait for it. */
static void release_record(struct cuda_work *work)
{
	work->record->pending--;
	work->record->time_ns = cuda_turn_now_ns();
	cuda_record_put(work->record);
}

static void release_wait(struct cuda_work *work)
{
	cuda_record_put(work->record);
}

static bool is_done(const struct cuda_work *work)
{
	return work->record->pending == 0;
}

static const struct cuda_work_ops record_ops = { .release = release_record };
static const struct cuda_work_ops wait_ops = { .is_ready = is_done, .release = release_wait };

struct cuda_work *cuda_record_work(struct cuda_record *record)
{
	struct cuda_work *work = cuda_work_new(&record_ops);

	if (!work)
		return NULL;
	work->record = record;
	record->references++;
	return work;
}

struct cuda_work *cuda_record_wait_work(struct cuda_record *record)
{
	struct cuda_work *work = cuda_work_new(&wait_ops);

	if (!work)
		return NULL;
	work->record = record;
	record->references++;
	return work;
}

static void delete_event(struct CUevent_st *event)
{
	cuda_object_remove(event);
	cuda_record_put(event->record);
	free(event->capture_clock);
	*event->link = event->next;
	if (event->next)
		event->next->link = event->link;
	free(event);
}

void cuda_event_delete_all(struct CUctx_st *ctx)
{
	struct CUevent_st *next;

	for (struct CUevent_st *e = events; e; e = next) {
		next = e->next;
		if (e->ctx == ctx)
			delete_event(e);
	}
}

CUresult cuEventCreate(CUevent *out_event, unsigned int flags)
{
	const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING |
			       CU_EVENT_INTERPROCESS;
	struct CUevent_st *event;
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(CUDA_ID_cuEventCreate, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_event || (flags & ~known))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	if ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	event = calloc(1, sizeof(*event));
	if (!event)
		return cuda_call_end(CUDA_ERROR_OUT_OF_MEMORY);
	if (cuda_object_add(OBJECT_EVENT, event) != 0) {
		free(event);
		return cuda_call_end(CUDA_ERROR_OUT_OF_MEMORY);
	}
	event->ctx = ctx;
	event->flags = flags;
	event->next = events;
	event->link = &events;
	if (events)
		events->link = &event->next;
	events = event;
	*out_event = event;
	return cuda_call_end(CUDA_SUCCESS);
}

/* Starts a call about an event that exists. */
static CUresult begin(enum cuda_id id, CUevent event)
{
	CUresult res = cuda_call_begin(id);

	if (res != CUDA_SUCCESS)
		return res;
	if (!cuda_object_is(OBJECT_EVENT, event))
		return cuda_call_end(CUDA_ERROR_INVALID_HANDLE);
	return CUDA_SUCCESS;
}

static CUresult destroy(enum cuda_id id, CUevent event)
{
	CUresult res = begin(id, event);

	if (res != CUDA_SUCCESS)
		return res;
	delete_event(event);
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuEventDestroy(CUevent event)
{
	return destroy(CUDA_ID_cuEventDestroy, event);
}

CUresult cuEventDestroy_v2(CUevent event)
{
	return destroy(CUDA_ID_cuEventDestroy_v2, event);
}

static CUresult record_in(struct CUevent_st *event, struct CUstream_st *stream)
{
	struct cuda_record *record;
	struct cuda_work *work;
	CUresult res;

	if (event->ctx != stream->ctx)
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream->capture)
		return cuda_capture_record(stream, event);
	record = cuda_record_new(1);
	if (!record)
		return CUDA_ERROR_OUT_OF_MEMORY;
	work = cuda_record_work(record);
	res = work ? cuda_stream_submit(stream, work) : CUDA_ERROR_OUT_OF_MEMORY;
	if (res != CUDA_SUCCESS) {
		cuda_record_put(record);
		return res;
	}
	cuda_record_put(event->record);
	event->record = record;
	event->capture_id = 0;
	return CUDA_SUCCESS;
}

static CUresult record_call(enum cuda_id id, CUevent event, CUstream handle,
			    enum stream_default form, unsigned flags)
{
	struct CUstream_st *stream;
	CUresult res = begin(id, event);

	if (res != CUDA_SUCCESS)
		return res;
	if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	res = cuda_stream_find(handle, form, &stream);
	if (res == CUDA_SUCCESS && flags && !stream->capture)
		res = CUDA_ERROR_INVALID_VALUE;
	if (res == CUDA_SUCCESS)
		res = record_in(event, stream);
	return cuda_call_end(res);
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
	return record_call(CUDA_ID_cuEventRecord, event, stream, DEFAULT_LEGACY, 0);
}

CUresult cuEventRecord_ptsz(CUevent event, CUstream stream)
{
	return record_call(CUDA_ID_cuEventRecord_ptsz, event, stream, DEFAULT_PER_THREAD, 0);
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
	return record_call(CUDA_ID_cuEventRecordWithFlags, event, stream, DEFAULT_LEGACY, flags);
}

CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned int flags)
{
	return record_call(CUDA_ID_cuEventRecordWithFlags_ptsz, event, stream, DEFAULT_PER_THREAD,
			   flags);
}

/* One record for all streams of a context, or of a green one: done when each of them has come this
 * far. */
static CUresult record_all(struct CUctx_st *ctx, const struct CUgreenCtx_st *green,
			   struct CUevent_st *event)
{
	struct cuda_record *record = cuda_record_new(0);
	CUresult res = CUDA_SUCCESS;

	if (!record)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (struct CUstream_st *s = ctx->streams; s && res == CUDA_SUCCESS; s = s->next) {
		struct cuda_work *work;

		if (cuda_stream_is_empty(s) || (green && s->green != green))
			continue;
		record->pending++;
		work = cuda_record_work(record);
		res = work ? cuda_stream_enqueue(s, work) : CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (res != CUDA_SUCCESS) {
		cuda_record_put(record);
		return res;
	}
	cuda_record_put(event->record);
	event->record = record;
	event->capture_id = 0;
	return CUDA_SUCCESS;
}

CUresult cuCtxRecordEvent(CUcontext ctx, CUevent event)
{
	CUresult res = begin(CUDA_ID_cuCtxRecordEvent, event);

	if (res != CUDA_SUCCESS)
		return res;
	res = ctx ? cuda_context_resolve(&ctx) : cuda_context_current(&ctx);
	if (res == CUDA_SUCCESS)
		res = ctx->error;
	if (res == CUDA_SUCCESS && event->ctx != ctx)
		res = CUDA_ERROR_INVALID_HANDLE;
	if (res == CUDA_SUCCESS)
		res = cuda_capture_check_context(ctx);
	if (res == CUDA_SUCCESS)
		res = record_all(ctx, NULL, event);
	return cuda_call_end(res);
}

CUresult cuGreenCtxRecordEvent(CUgreenCtx green, CUevent event)
{
	CUresult res = begin(CUDA_ID_cuGreenCtxRecordEvent, event);
	struct CUctx_st *ctx;

	if (res != CUDA_SUCCESS)
		return res;
	res = cuda_green_check(green);
	if (res != CUDA_SUCCESS)
		return cuda_call_end(res);
	ctx = green->view->home;
	if (event->ctx != ctx)
		res = CUDA_ERROR_INVALID_HANDLE;
	if (res == CUDA_SUCCESS)
		res = cuda_capture_check_green(green);
	if (res == CUDA_SUCCESS)
		res = record_all(ctx, green, event);
	return cuda_call_end(res);
}

CUresult cuEventQuery(CUevent event)
{
	CUresult res = begin(CUDA_ID_cuEventQuery, event);

	if (res != CUDA_SUCCESS)
		return res;
	res = event->ctx->error;
	if (res == CUDA_SUCCESS && event->capture_id)
		res = CUDA_ERROR_CAPTURED_EVENT;
	if (res == CUDA_SUCCESS)
		res = cuda_stream_check_unsafe(event->ctx);
	if (res == CUDA_SUCCESS && event->record && event->record->pending)
		res = CUDA_ERROR_NOT_READY;
	return cuda_call_end(res);
}

CUresult cuEventSynchronize(CUevent event)
{
	CUresult res = begin(CUDA_ID_cuEventSynchronize, event);
	struct cuda_record *record;
	struct CUctx_st *ctx;

	if (res != CUDA_SUCCESS)
		return res;
	ctx = event->ctx;
	res = event->capture_id ? CUDA_ERROR_CAPTURED_EVENT : cuda_stream_check_unsafe(ctx);
	record = event->record;
	if (res == CUDA_SUCCESS && record) {
		record->references++;
		while (record->pending)
			cuda_work_wait();
		cuda_record_put(record);
		cuda_pool_trim_all();
	}
	return cuda_call_end(res == CUDA_SUCCESS ? ctx->error : res);
}

static CUresult elapsed(const struct CUevent_st *start, const struct CUevent_st *end, float *out_ms)
{
	if (start->ctx != end->ctx || !start->record || !end->record ||
	    ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING))
		return CUDA_ERROR_INVALID_HANDLE;
	if (start->capture_id || end->capture_id)
		return CUDA_ERROR_CAPTURED_EVENT;
	if (start->record->pending || end->record->pending)
		return CUDA_ERROR_NOT_READY;
	*out_ms = (float)((double)(int64_t)(end->record->time_ns - start->record->time_ns) / 1e6);
	return CUDA_SUCCESS;
}

static CUresult elapsed_call(enum cuda_id id, float *out_ms, CUevent start, CUevent end)
{
	CUresult res = begin(id, start);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_ms)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	if (!cuda_object_is(OBJECT_EVENT, end))
		return cuda_call_end(CUDA_ERROR_INVALID_HANDLE);
	return cuda_call_end(elapsed(start, end, out_ms));
}

CUresult cuEventElapsedTime(float *out_ms, CUevent start, CUevent end)
{
	return elapsed_call(CUDA_ID_cuEventElapsedTime, out_ms, start, end);
}

CUresult cuEventElapsedTime_v2(float *out_ms, CUevent start, CUevent end)
{
	return elapsed_call(CUDA_ID_cuEventElapsedTime_v2, out_ms, start, end);
}
