#include "drv/gpu_fence.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "base/turn.h"
#include "core/gate.h"
#include "drv/capture.h"
#include "drv/real.h"
#include "drv/relaxed.h"
#include "drv/status.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/queue.h>

#define TURN_WAIT_NS (10 * NSEC_PER_MSEC)
/* For what must be noted: nobody has the turn for longer than some driver calls take. */
#define NOTE_WAIT_NS (5 * NSEC_PER_SEC)

struct context;

struct gpu_fence_event {
	CUevent event;
	struct context *context; /* NULL: it is gone, and so is the event */
	LIST_ENTRY(gpu_fence_event) in_context;
	SLIST_ENTRY(gpu_fence_event) in_pool; /* of its context, while no fence has it */
	struct gpu_fence_event *next;         /* in its fence */
};

struct stream {
	CUstream stream;
	LIST_ENTRY(stream) link;
};

struct context {
	CUcontext ctx;
	struct cuda_ord ord;
	uint64_t serial;
	bool is_primary;
	bool is_ending;  /* the driver may be at it */
	CUstream keeper; /* of ours, before 12.5: waits for what streams did that are gone */
	LIST_HEAD(, stream) streams;         /* non-blocking ones, where events are put into each */
	LIST_HEAD(, gpu_fence_event) events; /* all of it */
	SLIST_HEAD(, gpu_fence_event) free_ones; /* of these */
	LIST_ENTRY(context) link;
};

struct gpu_fence_state {
	struct turn turn;
	_Atomic bool is_on;   /* constant after gpu_fence_init() */
	_Atomic bool is_used; /* atomic */
	/* the turn */
	bool is_blind; /* atomic: something could not be noted */
	uint64_t serials;
	LIST_HEAD(, context) contexts;
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

/* The turn. */
static struct context *find(CUcontext ctx)
{
	struct context *c;

	LIST_FOREACH(c, &state.s.contexts, link)
		if (c->ctx == ctx)
			return c;
	return NULL;
}

/* The turn: a context that is gone, with its events and streams. */
static void forget(struct context *c)
{
	struct gpu_fence_event *event, *next_event;
	struct stream *s, *next_stream;

	for (event = LIST_FIRST(&c->events); event; event = next_event) {
		next_event = LIST_NEXT(event, in_context);
		event->context = NULL;
	}
	while ((event = SLIST_FIRST(&c->free_ones))) {
		SLIST_REMOVE_HEAD(&c->free_ones, in_pool);
		free(event);
	}
	for (s = LIST_FIRST(&c->streams); s; s = next_stream) {
		next_stream = LIST_NEXT(s, link);
		free(s);
	}
	LIST_REMOVE(c, link);
	free(c);
}

/* The turn. */
static void enter(CUcontext ctx, struct cuda_ord ord, bool is_primary)
{
	struct context *c = calloc(1, sizeof(*c));

	if (!c) {
		go_blind("a context");
		return;
	}
	c->ctx = ctx;
	c->ord = ord;
	c->serial = ++state.s.serials;
	c->is_primary = is_primary;
	LIST_INIT(&c->streams);
	LIST_INIT(&c->events);
	SLIST_INIT(&c->free_ones);
	LIST_INSERT_HEAD(&state.s.contexts, c, link);
}

void gpu_fence_add_context(CUcontext ctx, struct cuda_ord ord, bool is_primary)
{
	struct context *c;

	if (!ctx || !note())
		return;
	c = find(ctx);
	/* One that was ending is gone: the driver has given its handle to this one. */
	if (c && c->is_ending) {
		forget(c);
		c = NULL;
	}
	if (!c)
		enter(ctx, ord, is_primary);
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
	struct context *c;

	if (!ctx || !note())
		return;
	c = find(ctx);
	if (c)
		c->is_ending = true;
	turn_give(&state.s.turn);
}

void gpu_fence_ended(CUcontext ctx, bool is_gone)
{
	struct context *c;

	if (!ctx || !note())
		return;
	c = find(ctx);
	if (c && c->is_ending && is_gone)
		forget(c);
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
	struct context *c;
	struct stream *s;

	/* For others the legacy stream waits. */
	if (!gpu_fence_wants_streams() || !(flags & CU_STREAM_NON_BLOCKING) || !note())
		return;
	c = find(ctx);
	s = c ? calloc(1, sizeof(*s)) : NULL;
	if (s) {
		s->stream = stream;
		LIST_INSERT_HEAD(&c->streams, s, link);
	} else {
		go_blind("a stream");
	}
	turn_give(&state.s.turn);
}

/* The turn: gives an event back to its context, or forgets it with that. */
static void give(struct gpu_fence_event *event)
{
	if (event->context)
		SLIST_INSERT_HEAD(&event->context->free_ones, event, in_pool);
	else
		free(event);
}

/* The turn, the context current. */
static struct gpu_fence_event *take(struct context *c, int *out_rc)
{
	struct gpu_fence_event *event = SLIST_FIRST(&c->free_ones);

	if (event) {
		SLIST_REMOVE_HEAD(&c->free_ones, in_pool);
		return event;
	}
	event = calloc(1, sizeof(*event));
	if (!event) {
		*out_rc = -ENOMEM;
		return NULL;
	}
	*out_rc = status_errno(real.cuEventCreate(&event->event, CU_EVENT_DISABLE_TIMING));
	if (*out_rc < 0) {
		free(event);
		return NULL;
	}
	event->context = c;
	LIST_INSERT_HEAD(&c->events, event, in_context);
	return event;
}

/* The turn, the context current. */
static int make_keeper(struct context *c)
{
	if (c->keeper)
		return 0;
	return status_errno(real.cuStreamCreate(&c->keeper, CU_STREAM_NON_BLOCKING));
}

/* The turn, the context current: the keeper waits for what is in the stream now. */
static int keep_work(struct context *c, CUstream stream)
{
	struct gpu_fence_event *event;
	int rc = make_keeper(c);
	CUresult res;

	if (rc < 0)
		return rc;
	event = take(c, &rc);
	if (!event)
		return rc;
	res = real.cuEventRecord(event->event, stream);
	if (res == CUDA_SUCCESS)
		res = real.cuStreamWaitEvent(c->keeper, event->event, 0);
	give(event);
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
static int drop(struct context *c, CUstream stream)
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

/* The turn. */
static struct stream *find_stream(CUstream stream, struct context **out_context)
{
	struct context *c;
	struct stream *s;

	LIST_FOREACH(c, &state.s.contexts, link)
		LIST_FOREACH(s, &c->streams, link)
			if (s->stream == stream) {
				*out_context = c;
				return s;
			}
	return NULL;
}

void gpu_fence_drop_stream(CUstream stream)
{
	struct relaxed mode;
	struct context *c;
	struct stream *s;

	if (!gpu_fence_wants_streams() || !note())
		return;
	s = find_stream(stream, &c);
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
static int put(struct context *c, CUstream stream, bool is_whole, struct gpu_fence *fence)
{
	struct gpu_fence_event *event;
	CUresult res;
	int rc = 0;

	event = take(c, &rc);
	if (!event)
		return rc;
	res = is_whole ? real.cuCtxRecordEvent(c->ctx, event->event) :
			 real.cuEventRecord(event->event, stream);
	if (res != CUDA_SUCCESS) {
		give(event);
		/* Nothing of a context that failed goes on. */
		return status_is_sticky(res) ? 0 : status_errno(res);
	}
	event->next = fence->events;
	fence->events = event;
	return 0;
}

static int put_all(struct context *c, struct gpu_fence *fence)
{
	struct stream *s;
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
static int record_in(struct context *c, struct gpu_fence *fence)
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
		give(event);
	}
	fence->events = NULL;
}

/* The turn. */
static int record(struct gpu_fence *out_fence)
{
	struct gpu_fence fence = { NULL };
	struct context *c;
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
		give(event);
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
	struct context *c, *found = NULL;
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
