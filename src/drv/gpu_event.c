#include "drv/gpu_event.h"

#include "base/clock.h"
#include "base/process.h"
#include "drv/real.h"
#include "drv/visit.h"

#include <pthread.h>
#include <stddef.h>

enum {
	CONTEXTS = 256,
	EVENTS = 2048,  /* of all contexts together */
	OUT_MOST = 512, /* of a context, taken and not given back */
};

/*
 * cuEventElapsedTime() gives a float of milliseconds: up to this from the reference its last digit is
 * 0.12 us or less, and then another event becomes the reference.
 */
#define REFERENCE_NS INT64_C(1000000000)

struct gpu_event {
	CUevent event;          /* constant while the place is not free */
	uint64_t context;       /* likewise; 0: the place is free */
	struct gpu_event *next; /* in its context's pool, or of the free places */
	bool is_out;            /* taken and not given back */
};

struct context {
	CUcontext ctx; /* NULL: a free place */
	uint64_t key;
	struct gpu_event *reference;
	int64_t reference_ns; /* of the context's clock */
	/* The reference before it: others may be at a question about it. */
	struct gpu_event *retired;
	unsigned out;
	struct gpu_event *pool;
};

struct gpu_events {
	/* Orders all of it; zero is an unlocked mutex. */
	pthread_mutex_t mutex;
	uint64_t keys; /* given out so far */
	struct context contexts[CONTEXTS];
	unsigned used; /* events 0..used-1 were ever taken */
	struct gpu_event *free;
	struct gpu_event events[EVENTS];
};
PROCESS_STATE(gpu_events, state);

static struct gpu_event *event_of(uint64_t number)
{
	return (struct gpu_event *)(uintptr_t)number;
}

static uint64_t number_of(const struct gpu_event *event)
{
	return (uint64_t)(uintptr_t)event;
}

void gpu_event_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

static void lock(void)
{
	pthread_mutex_lock(&state.s.mutex);
}

static void unlock(void)
{
	pthread_mutex_unlock(&state.s.mutex);
}

/* mutex held: a living context's place; NULL when it is gone. */
static struct context *find(uint64_t key)
{
	for (int i = 0; i < CONTEXTS; i++)
		if (state.s.contexts[i].ctx && state.s.contexts[i].key == key)
			return &state.s.contexts[i];
	return NULL;
}

/* mutex held. With NULL: a free place. */
static struct context *find_handle(CUcontext ctx)
{
	for (int i = 0; i < CONTEXTS; i++)
		if (state.s.contexts[i].ctx == ctx)
			return &state.s.contexts[i];
	return NULL;
}

uint64_t gpu_event_context(CUcontext ctx)
{
	struct context *c;
	uint64_t key = 0;

	if (!ctx)
		return 0;
	lock();
	c = find_handle(ctx);
	if (!c) {
		c = find_handle(NULL);
		if (c)
			*c = (struct context){ .ctx = ctx, .key = ++state.s.keys };
	}
	if (c)
		key = c->key;
	unlock();
	return key;
}

CUcontext gpu_event_handle(uint64_t key)
{
	struct context *c;
	CUcontext ctx;

	lock();
	c = find(key);
	ctx = c ? c->ctx : NULL;
	unlock();
	return ctx;
}

/* mutex held. */
static void free_place(struct gpu_event *event)
{
	event->context = 0;
	event->is_out = false;
	event->next = state.s.free;
	state.s.free = event;
}

/* mutex held: a place for a new event, or NULL. */
static struct gpu_event *take_place(void)
{
	struct gpu_event *event = state.s.free;

	if (event)
		state.s.free = event->next;
	else if (state.s.used < EVENTS)
		event = &state.s.events[state.s.used++];
	return event;
}

/* mutex held. One that is out comes when it is given back. */
static void pool(struct context *c, struct gpu_event *event)
{
	if (!event || event->is_out)
		return;
	event->next = c->pool;
	c->pool = event;
}

/* Makes the event of a place that was taken, in `ctx`. False: the place is free again. */
static bool make(struct gpu_event *event, uint64_t key, CUcontext ctx)
{
	bool has_visited = visit_begin(ctx);
	CUevent made = NULL;
	struct context *c;
	bool is_made = real.cuEventCreate &&
		       real.cuEventCreate(&made, CU_EVENT_DEFAULT) == CUDA_SUCCESS;

	visit_end(has_visited);
	lock();
	/* Whoever asks about what was in this place before finds all of it or nothing. */
	if (is_made) {
		event->event = made;
		event->context = key;
		unlock();
		return true;
	}
	c = find(key);
	if (c && c->out > 0)
		c->out--;
	free_place(event);
	unlock();
	return false;
}

uint64_t gpu_event_take(uint64_t key, bool may_make)
{
	struct gpu_event *event = NULL;
	CUcontext ctx = NULL;
	bool is_new = false;
	struct context *c;

	lock();
	c = find(key);
	if (c && c->out < OUT_MOST) {
		event = c->pool;
		is_new = !event && may_make;
		ctx = c->ctx;
		if (event)
			c->pool = event->next;
		else if (is_new)
			event = take_place();
		if (event) {
			event->is_out = true;
			c->out++;
		}
	}
	unlock();
	if (event && is_new && !make(event, key, ctx))
		return 0;
	return number_of(event);
}

bool gpu_event_record(uint64_t number, CUstream stream, bool is_whole)
{
	struct gpu_event *event = event_of(number);
	CUcontext ctx = is_whole && real.cuCtxRecordEvent ? gpu_event_handle(event->context) : NULL;

	if (ctx)
		return real.cuCtxRecordEvent(ctx, event->event) == CUDA_SUCCESS;
	return real.cuEventRecord && real.cuEventRecord(event->event, stream) == CUDA_SUCCESS;
}

/* mutex held: the event becomes the reference; giving it back keeps it. */
static void take_reference(struct context *c, struct gpu_event *event, int64_t gpu_ns)
{
	pool(c, c->retired);
	c->retired = c->reference;
	c->reference = event;
	c->reference_ns = gpu_ns;
}

/* mutex held. */
static enum gpu_event_state read_event(struct gpu_event *event, int64_t *out_gpu_ns)
{
	struct context *c = find(event->context);
	float ms = 0;
	CUresult res;

	/* In the pool it is nobody's: another thread had its answer first. */
	if (!c || !event->is_out)
		return GPU_EVENT_LOST;
	res = real.cuEventQuery(event->event);
	if (res != CUDA_SUCCESS)
		return res == CUDA_ERROR_NOT_READY ? GPU_EVENT_RUNNING : GPU_EVENT_LOST;
	if (!c->reference)
		take_reference(c, event, 0);
	if (c->reference != event &&
	    real.cuEventElapsedTime(&ms, c->reference->event, event->event) != CUDA_SUCCESS)
		return GPU_EVENT_LOST;
	*out_gpu_ns = c->reference_ns + (int64_t)((double)ms * (double)NSEC_PER_MSEC);
	/* Far from the reference, it keeps its place. */
	if (*out_gpu_ns - c->reference_ns > REFERENCE_NS)
		take_reference(c, event, *out_gpu_ns);
	return GPU_EVENT_DONE;
}

/*
 * Somebody else may have had the answer, and the context may be ending: it does not while the
 * driver is asked, as gpu_event_forget() comes before that and waits here. Neither question waits
 * for work.
 */
enum gpu_event_state gpu_event_read(uint64_t number, int64_t *out_gpu_ns)
{
	enum gpu_event_state was;

	lock();
	was = read_event(event_of(number), out_gpu_ns);
	unlock();
	return was;
}

void gpu_event_give(uint64_t number)
{
	struct gpu_event *event = event_of(number);
	struct context *c;

	lock();
	c = find(event->context);
	if (event->is_out) {
		event->is_out = false;
		if (c && c->out > 0)
			c->out--;
		if (!c)
			free_place(event);
		else if (event != c->reference && event != c->retired)
			pool(c, event);
	}
	unlock();
}

uint64_t gpu_event_forget(CUcontext ctx)
{
	struct gpu_event *next;
	struct context *c;
	uint64_t key = 0;

	if (!ctx)
		return 0;
	lock();
	c = find_handle(ctx);
	if (c) {
		key = c->key;
		/* Those that are out come back one by one. */
		pool(c, c->reference);
		pool(c, c->retired);
		for (struct gpu_event *event = c->pool; event; event = next) {
			next = event->next;
			free_place(event);
		}
		c->ctx = NULL;
	}
	unlock();
	return key;
}
