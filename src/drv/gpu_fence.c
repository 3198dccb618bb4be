#include "drv/gpu_fence.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "base/turn.h"
#include "core/gate.h"
#include "drv/capture.h"
#include "drv/fence_context.h"
#include "drv/real.h"
#include "drv/relaxed.h"
#include "drv/status.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#define TURN_WAIT_NS (10 * NSEC_PER_MSEC)
/* For what must be noted: nobody has the turn for longer than some driver calls take. */
#define NOTE_WAIT_NS (5 * NSEC_PER_SEC)

struct gpu_fence_state {
	struct turn turn;
	_Atomic bool is_on;   /* constant after gpu_fence_init() */
	_Atomic bool is_used; /* atomic */
	/* the turn */
	bool is_blind; /* atomic: something could not be noted */
	uint64_t serials;
	struct fence_context_list contexts;
};
PROCESS_STATE(gpu_fence_state, state);

void gpu_fence_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
	atomic_store_explicit(&state.s.is_on, true, memory_order_relaxed);
}

bool gpu_fence_is_used(void)
{
	return atomic_load_explicit(&state.s.is_used, memory_order_relaxed);
}

/* Something is there that no fence would wait for. */
static void go_blind(const char *what)
{
	if (!__atomic_exchange_n(&state.s.is_blind, true, __ATOMIC_RELAXED))
		log_warn("%s is not known: memory does not move any more, and what is freed is "
			 "not given back",
			 what);
}

/* Takes the turn for something that must not be missed. False too where nothing is kept. */
static bool note(void)
{
	if (!atomic_load_explicit(&state.s.is_on, memory_order_relaxed))
		return false;
	if (turn_take(&state.s.turn, NOTE_WAIT_NS))
		return true;
	go_blind("what became of a context or stream");
	return false;
}

void gpu_fence_add_context(CUcontext ctx, struct cuda_ord ord, bool is_primary)
{
	struct fence_context *c;

	if (!ctx || !note())
		return;
	c = fence_context_find(&state.s.contexts, ctx);
	/* One that was ending is gone: the driver has given its handle to this one. */
	if (c && c->is_ending) {
		fence_context_forget(c);
		c = NULL;
	}
	if (!c && !fence_context_add(&state.s.contexts, ctx, ord, ++state.s.serials, is_primary))
		go_blind("a context");
	turn_give(&state.s.turn);
}

void gpu_fence_add_primary(struct cuda_ord ord)
{
	CUcontext ctx;

	if (!atomic_load_explicit(&state.s.is_on, memory_order_relaxed) ||
	    !real.cuDevicePrimaryCtxRetain || !real.cuDevicePrimaryCtxRelease_v2 ||
	    GATE_CALL(real.cuDevicePrimaryCtxRetain(&ctx, ord.v)) != CUDA_SUCCESS)
		return;
	gpu_fence_add_context(ctx, ord, true);
	GATE_CALL(real.cuDevicePrimaryCtxRelease_v2(ord.v));
}

void gpu_fence_ending(CUcontext ctx)
{
	struct fence_context *c;

	if (!ctx || !note())
		return;
	c = fence_context_find(&state.s.contexts, ctx);
	if (c)
		c->is_ending = true;
	turn_give(&state.s.turn);
}

void gpu_fence_ended(CUcontext ctx, bool is_gone)
{
	struct fence_context *c;

	if (!ctx || !note())
		return;
	c = fence_context_find(&state.s.contexts, ctx);
	if (c && c->is_ending && is_gone)
		fence_context_forget(c);
	else if (c)
		c->is_ending = false;
	turn_give(&state.s.turn);
}

bool gpu_fence_wants_streams(void)
{
	return atomic_load_explicit(&state.s.is_on, memory_order_relaxed) && !real.cuCtxRecordEvent;
}

void gpu_fence_add_stream(CUcontext ctx, CUstream stream, unsigned flags)
{
	struct fence_context *c;

	/* For others the legacy stream waits. */
	if (!gpu_fence_wants_streams() || !(flags & CU_STREAM_NON_BLOCKING) || !note())
		return;
	c = fence_context_find(&state.s.contexts, ctx);
	if (!c || !fence_context_add_stream(c, stream))
		go_blind("a stream");
	turn_give(&state.s.turn);
}

/* The turn, the context current. */
static int make_keeper(struct fence_context *c)
{
	if (c->keeper)
		return 0;
	return status_errno(real.cuStreamCreate(&c->keeper, CU_STREAM_NON_BLOCKING));
}

/* The turn, the context current: the keeper waits for what is in the stream now. */
static int keep_work(struct fence_context *c, CUstream stream)
{
	struct gpu_fence_event *event;
	int rc = make_keeper(c);
	CUresult res;

	if (rc < 0)
		return rc;
	event = fence_context_take_event(c, &rc);
	if (!event)
		return rc;
	res = real.cuEventRecord(event->event, stream);
	if (res == CUDA_SUCCESS)
		res = real.cuStreamWaitEvent(c->keeper, event->event, 0);
	fence_context_give_event(event);
	/* Nothing of a context that failed goes on. */
	return status_is_sticky(res) ? 0 : status_errno(res);
}

/* An event in it would be part of the capture. */
static bool is_capturing(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;

	return capture_any() && (!real.cuStreamIsCapturing ||
				 real.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
				 status != CU_STREAM_CAPTURE_STATUS_NONE);
}

/* The turn: a stream that ends, whose work may go on after it. 0 when that is waited for. */
static int drop(struct fence_context *c, CUstream stream)
{
	CUcontext popped;
	CUresult res;
	int rc;

	if (c->is_ending || is_capturing(stream))
		return 0;
	res = real.cuStreamWaitEvent ? real.cuCtxPushCurrent_v2(c->ctx) : CUDA_ERROR_NOT_SUPPORTED;
	if (res != CUDA_SUCCESS)
		return status_is_sticky(res) ? 0 : status_errno(res);
	rc = keep_work(c, stream);
	real.cuCtxPopCurrent_v2(&popped);
	return rc;
}

void gpu_fence_drop_stream(CUstream stream)
{
	struct relaxed mode;
	struct fence_context *c;
	struct fence_stream *s;

	if (!gpu_fence_wants_streams() || !note())
		return;
	s = fence_context_of_stream(&state.s.contexts, stream, &c);
	if (s) {
		LIST_REMOVE(s, link);
		free(s);
		mode = relaxed_begin();
		if (drop(c, stream) < 0)
			go_blind("what a destroyed stream still does");
		relaxed_end(mode);
	}
	turn_give(&state.s.turn);
}

/*
 * The turn, the context current: one event more in the fence. With `is_whole`, of all its streams.
 */
static int put(struct fence_context *c, CUstream stream, bool is_whole, struct gpu_fence *fence)
{
	struct gpu_fence_event *event;
	CUresult res;
	int rc = 0;

	event = fence_context_take_event(c, &rc);
	if (!event)
		return rc;
	res = is_whole ? real.cuCtxRecordEvent(c->ctx, event->event) :
			 real.cuEventRecord(event->event, stream);
	if (res != CUDA_SUCCESS) {
		fence_context_give_event(event);
		/* Nothing of a context that failed goes on. */
		return status_is_sticky(res) ? 0 : status_errno(res);
	}
	event->next = fence->events;
	fence->events = event;
	return 0;
}

static int put_all(struct fence_context *c, struct gpu_fence *fence)
{
	struct fence_stream *s;
	int rc;

	if (real.cuCtxRecordEvent)
		return put(c, NULL, true, fence);
	rc = put(c, CU_STREAM_LEGACY, false, fence);
	if (rc == 0 && c->keeper)
		rc = put(c, c->keeper, false, fence);
	LIST_FOREACH(s, &c->streams, link)
		if (rc == 0)
			rc = put(c, s->stream, false, fence);
	return rc;
}

/* The turn. */
static int record_in(struct fence_context *c, struct gpu_fence *fence)
{
	CUcontext popped;
	CUresult res = real.cuCtxPushCurrent_v2(c->ctx);
	int rc;

	if (res != CUDA_SUCCESS)
		return status_is_sticky(res) ? 0 : status_errno(res);
	rc = put_all(c, fence);
	real.cuCtxPopCurrent_v2(&popped);
	return rc;
}

/* The turn. */
static void end(struct gpu_fence *fence)
{
	struct gpu_fence_event *event, *next;

	for (event = fence->events; event; event = next) {
		next = event->next;
		fence_context_give_event(event);
	}
	fence->events = NULL;
}

/* The turn. */
static int record(struct gpu_fence *out_fence)
{
	struct gpu_fence fence = { NULL };
	struct fence_context *c;
	int rc = 0;

	if (__atomic_load_n(&state.s.is_blind, __ATOMIC_RELAXED))
		return -EBUSY;
	LIST_FOREACH(c, &state.s.contexts, link)
		if (rc == 0)
			rc = c->is_ending ? -EAGAIN : record_in(c, &fence);
	if (rc < 0)
		end(&fence);
	else
		*out_fence = fence;
	return rc;
}

static bool has_calls(void)
{
	return real.cuEventCreate && real.cuEventQuery && real.cuEventRecord &&
	       real.cuCtxPushCurrent_v2 && real.cuCtxPopCurrent_v2;
}

int gpu_fence_record(struct gpu_fence *out_fence)
{
	struct relaxed mode;
	int rc;

	if (!has_calls())
		return -EBUSY;
	/* From here on a capture begins with the gate shut; one that began before is seen. */
	atomic_store(&state.s.is_used, true);
	if (capture_any())
		return -EAGAIN;
	if (!turn_take(&state.s.turn, TURN_WAIT_NS))
		return -EAGAIN;
	mode = relaxed_begin();
	rc = record(out_fence);
	relaxed_end(mode);
	turn_give(&state.s.turn);
	return rc;
}

/* The turn. */
static bool is_done(const struct gpu_fence_event *event)
{
	CUresult res;

	if (!event->context)
		return true;
	if (event->context->is_ending)
		return false;
	res = real.cuEventQuery(event->event);
	return res == CUDA_SUCCESS || status_is_sticky(res);
}

int gpu_fence_poll(struct gpu_fence *fence)
{
	struct gpu_fence_event **link, *event;
	struct relaxed mode;

	if (!fence->events)
		return 0;
	if (!turn_take(&state.s.turn, TURN_WAIT_NS))
		return -EAGAIN;
	mode = relaxed_begin();
	for (link = &fence->events; (event = *link);) {
		if (!is_done(event))
			break;
		*link = event->next;
		fence_context_give_event(event);
	}
	relaxed_end(mode);
	turn_give(&state.s.turn);
	return fence->events ? -EAGAIN : 0;
}

void gpu_fence_end(struct gpu_fence *fence)
{
	/* Without the turn they stay out for good: it is a leak of some bytes. */
	if (fence->events && note()) {
		end(fence);
		turn_give(&state.s.turn);
	}
	fence->events = NULL;
}

CUcontext gpu_fence_context(struct cuda_ord ord, uint64_t *out_serial)
{
	struct fence_context *c, *found = NULL;
	CUcontext ctx = NULL;

	if (!turn_take(&state.s.turn, TURN_WAIT_NS))
		return NULL;
	LIST_FOREACH(c, &state.s.contexts, link)
		if (c->ord.v == ord.v && !c->is_ending && (!found || c->is_primary))
			found = c;
	if (found) {
		ctx = found->ctx;
		*out_serial = found->serial;
	}
	turn_give(&state.s.turn);
	return ctx;
}
