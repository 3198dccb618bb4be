#include "cuda_work.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "cuda_call.h"
#include "cuda_context.h"
#include "cuda_stream.h"

enum { SPARE_WORK = 4096 };

static struct {
	pthread_cond_t progress; /* work has ended */
	int waiters;             /* the driver's lock */
	struct cuda_work *spare; /* the driver's lock */
	int spares;
} work_state = { .progress = PTHREAD_COND_INITIALIZER };

struct cuda_work *cuda_work_new(const struct cuda_work_ops *ops)
{
	struct cuda_work *work = work_state.spare;

	if (work) {
		work_state.spare = work->next;
		work_state.spares--;
	} else {
		work = malloc(sizeof(*work));
	}
	if (!work)
		return NULL;
	memset(work, 0, sizeof(*work));
	work->ops = ops;
	return work;
}

struct cuda_work *cuda_work_copy(const struct cuda_work *work)
{
	struct cuda_work *copy = cuda_work_new(work->ops);

	if (!copy)
		return NULL;
	*copy = *work;
	if (copy->ops->retain)
		copy->ops->retain(copy);
	return copy;
}

void cuda_work_delete(struct cuda_work *work)
{
	if (work->ops->release)
		work->ops->release(work);
	if (work_state.spares == SPARE_WORK) {
		free(work);
		return;
	}
	work->next = work_state.spare;
	work_state.spare = work;
	work_state.spares++;
}

void cuda_work_wait(void)
{
	work_state.waiters++;
	cuda_call_wait(&work_state.progress);
	work_state.waiters--;
}

void cuda_work_changed(void)
{
	if (work_state.waiters)
		pthread_cond_broadcast(&work_state.progress);
}

/* True when nothing that was submitted earlier keeps the head of this stream waiting. */
static bool is_runnable(const struct CUstream_st *stream)
{
	const struct CUstream_st *legacy = stream->ctx->legacy;
	const struct cuda_work *work = stream->head;

	if (work->ops->is_ready && !work->ops->is_ready(work))
		return false;
	if (stream == legacy) {
		for (const struct CUstream_st *s = stream->ctx->streams; s; s = s->next)
			if (s != stream && cuda_stream_is_blocking(s) && s->head &&
			    s->head->ticket < work->ticket)
				return false;
		return true;
	}
	return !cuda_stream_is_blocking(stream) || !legacy || !legacy->head ||
	       legacy->head->ticket > work->ticket;
}

/* Runs the head and takes it off. The lock is held on entry and on return. */
static void run_head(struct CUstream_st *stream)
{
	struct cuda_work *work = stream->head;
	struct CUctx_st *ctx = stream->ctx;
	CUresult res = ctx->error;

	if (res == CUDA_SUCCESS && work->ops->run) {
		cuda_call_unlock();
		res = work->ops->run(work, ctx, &stream->turn);
		cuda_call_lock();
	}
	if (res != CUDA_SUCCESS)
		cuda_context_fail(ctx, res);
	stream->head = work->next;
	stream->queued--;
	if (!stream->head)
		stream->tail = NULL;
	cuda_work_delete(work);
	cuda_work_changed();
}

static void give_turn(struct CUstream_st *stream)
{
	cuda_call_unlock();
	cuda_turn_end(&stream->turn);
	cuda_call_lock();
}

/* One step of a worker; false when the stream is closed and empty. */
static bool step(struct CUstream_st *stream)
{
	bool is_next_runnable = stream->head && is_runnable(stream);

	if (!is_next_runnable && stream->turn.is_held) {
		give_turn(stream);
	} else if (!stream->head) {
		if (stream->is_closing)
			return false;
		stream->is_idle = true;
		cuda_call_wait(&stream->wake);
		stream->is_idle = false;
	} else if (!is_next_runnable) {
		cuda_work_wait();
	} else if (stream->head->ops->needs_turn && !stream->turn.is_held) {
		cuda_call_unlock();
		cuda_turn_begin(&stream->turn);
		cuda_call_lock();
	} else if (!stream->head->ops->needs_turn && stream->turn.is_held) {
		give_turn(stream);
	} else {
		run_head(stream);
		if (stream->turn.is_held) {
			cuda_call_unlock();
			cuda_turn_check(&stream->turn);
			cuda_call_lock();
		}
	}
	return true;
}

static void unlink_stream(struct CUstream_st *stream)
{
	struct CUstream_st **link = &stream->ctx->streams;

	while (*link != stream)
		link = &(*link)->next;
	*link = stream->next;
}

static void *worker(void *arg)
{
	struct CUstream_st *stream = arg;

	prctl(PR_SET_NAME, "sim-stream");
	prctl(PR_SET_TIMERSLACK, 1);
	cuda_call_lock();
	while (step(stream))
		;
	while (stream->references)
		cuda_work_wait();
	unlink_stream(stream);
	cuda_work_changed();
	cuda_call_unlock();
	pthread_cond_destroy(&stream->wake);
	free(stream);
	return NULL;
}

static int start_worker(struct CUstream_st *stream)
{
	sigset_t all, old;
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&thread, &attr, worker, stream);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (err)
		return -err;
	stream->has_worker = true;
	return 0;
}

int cuda_work_wake(struct CUstream_st *stream)
{
	if (!stream->has_worker)
		return start_worker(stream);
	if (stream->is_idle)
		pthread_cond_signal(&stream->wake);
	return 0;
}
