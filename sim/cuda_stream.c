#include "cuda_stream.h"

#include <stdlib.h>

#include "cuda_call.h"
#include "cuda_capture.h"
#include "cuda_context.h"
#include "cuda_green.h"
#include "cuda_object.h"
#include "cuda_work.h"

enum { PER_THREAD = 16, QUEUE_WORK = 1024 };

static uint64_t last_id; /* the driver's lock */

/* The calling thread's own default streams, one for each context it used them in. */
static __thread struct {
	struct CUctx_st *ctx;
	uint64_t ctx_id;
	struct CUstream_st *stream;
} own[PER_THREAD];

static pthread_key_t own_key;
static pthread_once_t own_once = PTHREAD_ONCE_INIT;

struct CUstream_st *cuda_stream_new(struct CUctx_st *ctx, unsigned flags, int priority,
				    enum stream_kind kind)
{
	struct CUstream_st *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	if (cuda_object_add(OBJECT_STREAM, s) != 0) {
		free(s);
		return NULL;
	}
	pthread_cond_init(&s->wake, NULL);
	s->ctx = ctx;
	s->id = ++last_id;
	s->kind = kind;
	s->flags = flags;
	s->priority = priority;
	s->turn.index = ctx->index;
	s->next = ctx->streams;
	ctx->streams = s;
	return s;
}

bool cuda_stream_is_blocking(const struct CUstream_st *stream)
{
	return stream->kind != STREAM_LEGACY && !(stream->flags & CU_STREAM_NON_BLOCKING);
}

static bool is_own_alive(int at)
{
	return own[at].stream && own[at].ctx->is_alive && own[at].ctx->id == own[at].ctx_id;
}

/* A thread's default streams end with it. In a fork child the driver is not ready: hands off. */
static void delete_own(void *unused)
{
	(void)unused;
	if (!cuda_call_is_ready())
		return;
	cuda_call_lock();
	for (int i = 0; i < PER_THREAD; i++) {
		if (is_own_alive(i))
			cuda_stream_delete(own[i].stream);
		own[i].stream = NULL;
	}
	cuda_call_unlock();
}

static void make_own_key(void)
{
	pthread_key_create(&own_key, delete_own);
}

static CUresult find_own(struct CUctx_st *ctx, struct CUstream_st **out_stream)
{
	int at = 0;

	while (at < PER_THREAD && own[at].stream &&
	       !(own[at].ctx == ctx && own[at].ctx_id == ctx->id))
		at++;
	if (at == PER_THREAD) {
		/* all taken: reuse the place of a context that is gone */
		for (at = 0; at < PER_THREAD && is_own_alive(at); at++)
			;
		if (at == PER_THREAD)
			return CUDA_ERROR_OUT_OF_MEMORY;
		own[at].stream = NULL;
	}
	if (!own[at].stream) {
		own[at].stream = cuda_stream_new(ctx, 0, 0, STREAM_PER_THREAD);
		if (!own[at].stream)
			return CUDA_ERROR_OUT_OF_MEMORY;
		own[at].ctx = ctx;
		own[at].ctx_id = ctx->id;
		pthread_once(&own_once, make_own_key);
		pthread_setspecific(own_key, own);
	}
	*out_stream = own[at].stream;
	return CUDA_SUCCESS;
}

/* Of a handle that is no stream's own. */
static bool is_per_thread(CUstream handle, enum stream_default form)
{
	return handle == CU_STREAM_PER_THREAD || (handle == NULL && form == DEFAULT_PER_THREAD);
}

CUresult cuda_stream_find(CUstream handle, enum stream_default form,
			  struct CUstream_st **out_stream)
{
	const struct CUgreenCtx_st *green;
	struct CUctx_st *ctx;
	CUresult res;

	if (handle != NULL && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) {
		if (!cuda_object_is(OBJECT_STREAM, handle))
			return CUDA_ERROR_INVALID_HANDLE;
		*out_stream = handle;
		return handle->green && !handle->green->is_alive ? CUDA_ERROR_STREAM_DETACHED :
								   handle->ctx->error;
	}
	res = cuda_context_current(&ctx);
	if (res != CUDA_SUCCESS)
		return res;
	green = cuda_context_top()->green;
	if (green) {
		*out_stream = green->stream;
		return is_per_thread(handle, form) ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
	}
	if (!is_per_thread(handle, form)) {
		*out_stream = ctx->legacy;
		return CUDA_SUCCESS;
	}
	return find_own(ctx, out_stream);
}

CUresult cuda_stream_enqueue(struct CUstream_st *stream, struct cuda_work *work)
{
	work->ticket = ++stream->ctx->last_ticket;
	work->next = NULL;
	if (stream->tail)
		stream->tail->next = work;
	else
		stream->head = work;
	stream->tail = work;
	stream->queued++;
	if (cuda_work_wake(stream) != 0) {
		/* no worker could be started, so this is the only work in the stream */
		stream->head = stream->tail = NULL;
		stream->queued = 0;
		cuda_work_delete(work);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

/* Waits for room in a full queue. */
static CUresult make_room(struct CUstream_st *stream)
{
	if (stream->queued < QUEUE_WORK)
		return CUDA_SUCCESS;
	stream->references++;
	while (stream->queued >= QUEUE_WORK && !stream->is_closing)
		cuda_work_wait();
	stream->references--;
	if (!stream->is_closing)
		return CUDA_SUCCESS;
	cuda_work_changed();
	return CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuda_stream_submit(struct CUstream_st *stream, struct cuda_work *work)
{
	CUresult res;

	if (stream->capture)
		return cuda_capture_add(stream, work);
	res = cuda_capture_check_legacy(stream);
	if (res == CUDA_SUCCESS)
		res = make_room(stream);
	if (res != CUDA_SUCCESS) {
		cuda_work_delete(work);
		return res;
	}
	return cuda_stream_enqueue(stream, work);
}

bool cuda_stream_is_empty(const struct CUstream_st *stream)
{
	return !stream->head;
}

static bool has_until(const struct CUstream_st *stream, uint64_t ticket)
{
	return stream->head && stream->head->ticket <= ticket;
}

/* Any stream of the context that still has work up to `ticket`: all of them, or the blocking. */
static struct CUstream_st *find_busy(struct CUctx_st *ctx, uint64_t ticket, bool only_blocking)
{
	for (struct CUstream_st *s = ctx->streams; s; s = s->next)
		if (has_until(s, ticket) && (!only_blocking || cuda_stream_is_blocking(s)))
			return s;
	return NULL;
}

bool cuda_stream_is_done(const struct CUstream_st *stream)
{
	return !stream->head && !(stream->kind == STREAM_LEGACY &&
				  find_busy(stream->ctx, stream->ctx->last_ticket, true));
}

void cuda_stream_wait(struct CUstream_st *stream)
{
	uint64_t ticket = stream->ctx->last_ticket;

	stream->references++;
	while (has_until(stream, ticket) ||
	       (stream->kind == STREAM_LEGACY && find_busy(stream->ctx, ticket, true)))
		cuda_work_wait();
	stream->references--;
	if (stream->is_closing)
		cuda_work_changed();
}

CUresult cuda_stream_finish(struct CUstream_st *stream)
{
	struct CUctx_st *ctx = stream->ctx;

	cuda_stream_wait(stream);
	return ctx->error;
}

void cuda_stream_drain(struct CUctx_st *ctx)
{
	uint64_t ticket = ctx->last_ticket;

	while (find_busy(ctx, ticket, false))
		cuda_work_wait();
}

CUresult cuda_stream_check_unsafe(struct CUctx_st *ctx)
{
	return cuda_capture_check_unsafe(ctx);
}

void cuda_stream_delete(struct CUstream_st *stream)
{
	struct CUctx_st *ctx = stream->ctx;

	cuda_capture_abandon(stream);
	cuda_object_remove(stream);
	stream->is_closing = true;
	if (stream->has_worker) {
		cuda_work_wake(stream);
		return;
	}
	while (stream->references)
		cuda_work_wait();
	for (struct CUstream_st **link = &ctx->streams; *link; link = &(*link)->next) {
		if (*link == stream) {
			*link = stream->next;
			break;
		}
	}
	pthread_cond_destroy(&stream->wake);
	free(stream);
}

void cuda_stream_delete_all(struct CUctx_st *ctx)
{
	struct CUstream_st *next;

	for (struct CUstream_st *s = ctx->streams; s; s = next) {
		next = s->next;
		if (!s->is_closing)
			cuda_stream_delete(s);
	}
	while (ctx->streams)
		cuda_work_wait();
}

static CUresult create(enum cuda_id id, CUstream *out_stream, unsigned flags, int priority)
{
	struct CUstream_st *stream;
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(id, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_stream || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	stream = cuda_stream_new(ctx, flags, priority, STREAM_CREATED);
	if (!stream)
		return cuda_call_end(CUDA_ERROR_OUT_OF_MEMORY);
	stream->green = cuda_context_top()->green;
	*out_stream = stream;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuStreamCreate(CUstream *out_stream, unsigned int flags)
{
	return create(CUDA_ID_cuStreamCreate, out_stream, flags, 0);
}

int cuda_stream_priority(int priority)
{
	return priority > 0 ? 0 : priority < -5 ? -5 : priority;
}

CUresult cuStreamCreateWithPriority(CUstream *out_stream, unsigned int flags, int priority)
{
	return create(CUDA_ID_cuStreamCreateWithPriority, out_stream, flags,
		      cuda_stream_priority(priority));
}

static CUresult destroy(enum cuda_id id, CUstream handle)
{
	CUresult res = cuda_call_begin(id);

	if (res != CUDA_SUCCESS)
		return res;
	if (!cuda_object_is(OBJECT_STREAM, handle) || handle->kind != STREAM_CREATED)
		return cuda_call_end(CUDA_ERROR_INVALID_HANDLE);
	res = handle->ctx->error;
	cuda_stream_delete(handle);
	return cuda_call_end(res);
}

CUresult cuStreamDestroy(CUstream stream)
{
	return destroy(CUDA_ID_cuStreamDestroy, stream);
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
	return destroy(CUDA_ID_cuStreamDestroy_v2, stream);
}
