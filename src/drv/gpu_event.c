#include "drv/gpu_event.h"

#include "base/clock.h"
#include "base/process.h"
#include "drv/real.h"

#include <pthread.h>

enum {
	CONTEXTS = 64,
	POOLED = 64,
	OUT_MOST = 512, /* events of a context that were taken and not given back */
};

/*
 * cuEventElapsedTime() gives a float of milliseconds: up to this from the reference its last digit is
 * 0.12 us or less, and then another event becomes the reference.
 */
#define REFERENCE_NS INT64_C(1000000000)

struct context {
	CUcontext ctx; /* NULL: a free place */
	uint64_t key;
	CUevent reference;
	int64_t reference_ns; /* of the context's clock */
	/* The reference before it: others may be at a question about it. */
	CUevent retired;
	unsigned out;
	unsigned pooled;
	CUevent pool[POOLED];
};

struct gpu_events {
	/* Orders all of it; zero is an unlocked mutex. */
	pthread_mutex_t mutex;
	uint64_t keys; /* given out so far */
	struct context contexts[CONTEXTS];
};
PROCESS_STATE(gpu_events, state);

static CUevent event_of(uint64_t event)
{
	return (CUevent)(uintptr_t)event;
}

static uint64_t number_of(CUevent event)
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

/* An event that was asked for was not made. */
static void take_back(uint64_t key)
{
	struct context *c;

	lock();
	c = find(key);
	if (c && c->out > 0)
		c->out--;
	unlock();
}

uint64_t gpu_event_take(uint64_t key, bool is_current)
{
	bool may_make = false;
	CUevent event = NULL;
	struct context *c;

	lock();
	c = find(key);
	if (c && c->out < OUT_MOST && (c->pooled > 0 || is_current)) {
		c->out++;
		if (c->pooled > 0)
			event = c->pool[--c->pooled];
		else
			may_make = true;
	}
	unlock();
	if (may_make &&
	    (!real.cuEventCreate || real.cuEventCreate(&event, CU_EVENT_DEFAULT) != CUDA_SUCCESS)) {
		take_back(key);
		return 0;
	}
	return number_of(event);
}

/* The handle of a living context. */
static CUcontext handle_of(uint64_t key)
{
	struct context *c;
	CUcontext ctx;

	lock();
	c = find(key);
	ctx = c ? c->ctx : NULL;
	unlock();
	return ctx;
}

bool gpu_event_record(uint64_t event, uint64_t key, CUstream stream, bool is_whole)
{
	CUcontext ctx = is_whole && real.cuCtxRecordEvent ? handle_of(key) : NULL;
	CUresult res = CUDA_ERROR_NOT_SUPPORTED;

	if (ctx)
		res = real.cuCtxRecordEvent(ctx, event_of(event));
	else if (real.cuEventRecord)
		res = real.cuEventRecord(event_of(event), stream);
	return res == CUDA_SUCCESS;
}

/* mutex held. */
static void pool(struct context *c, CUevent event)
{
	if (event && c->pooled < POOLED)
		c->pool[c->pooled++] = event;
	else if (event && real.cuEventDestroy_v2)
		real.cuEventDestroy_v2(event);
}

/* mutex held: the event becomes the reference; giving it back keeps it. */
static void take_reference(struct context *c, CUevent event, int64_t gpu_ns)
{
	pool(c, c->retired);
	c->retired = c->reference;
	c->reference = event;
	c->reference_ns = gpu_ns;
}

/* The reference, and its time. NULL: the context has none yet, and the event becomes it. */
static CUevent reference_of(uint64_t key, CUevent event, int64_t *out_ns, bool *out_is_known)
{
	CUevent reference = NULL;
	struct context *c;

	lock();
	c = find(key);
	*out_is_known = c != NULL;
	if (c && !c->reference)
		take_reference(c, event, 0);
	else if (c)
		reference = c->reference;
	*out_ns = c ? c->reference_ns : 0;
	unlock();
	return reference;
}

/* Keeps an event that is far from the reference in its place. */
static void move_reference(uint64_t key, CUevent old, CUevent event, int64_t gpu_ns)
{
	struct context *c;

	lock();
	c = find(key);
	if (c && c->reference == old)
		take_reference(c, event, gpu_ns);
	unlock();
}

enum gpu_event_state gpu_event_read(uint64_t number, uint64_t key, int64_t *out_gpu_ns)
{
	CUevent event = event_of(number), reference;
	int64_t reference_ns, since_ns;
	bool is_known;
	CUresult res;
	float ms = 0;

	res = real.cuEventQuery(event);
	if (res == CUDA_ERROR_NOT_READY)
		return GPU_EVENT_RUNNING;
	if (res != CUDA_SUCCESS)
		return GPU_EVENT_LOST;
	reference = reference_of(key, event, &reference_ns, &is_known);
	if (!is_known)
		return GPU_EVENT_LOST;
	if (reference && reference != event &&
	    real.cuEventElapsedTime(&ms, reference, event) != CUDA_SUCCESS)
		return GPU_EVENT_LOST;
	since_ns = (int64_t)((double)ms * (double)NSEC_PER_MSEC);
	*out_gpu_ns = reference_ns + since_ns;
	if (since_ns > REFERENCE_NS)
		move_reference(key, reference, event, *out_gpu_ns);
	return GPU_EVENT_DONE;
}

void gpu_event_give(uint64_t number, uint64_t key)
{
	CUevent event = event_of(number);
	struct context *c;

	lock();
	c = find(key);
	if (c && c->out > 0)
		c->out--;
	if (c && event != c->reference && event != c->retired)
		pool(c, event);
	unlock();
}

uint64_t gpu_event_forget(CUcontext ctx)
{
	struct context *c;
	uint64_t key = 0;

	if (!ctx)
		return 0;
	lock();
	c = find_handle(ctx);
	if (c) {
		key = c->key;
		c->ctx = NULL;
	}
	unlock();
	return key;
}
