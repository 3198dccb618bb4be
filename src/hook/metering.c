#include "hook/metering.h"

#include "base/clock.h"
#include "base/process.h"
#include "base/turn.h"
#include "core/ended.h"
#include "core/gate.h"
#include "core/pace_policy.h"
#include "core/quota.h"
#include "core/share.h"
#include "drv/capture.h"
#include "drv/gpu_event.h"
#include "drv/gpu_fence.h"
#include "drv/real.h"
#include "drv/relaxed.h"
#include "drv/visit.h"
#include "hook/event_point.h"
#include "hook/stream_key.h"
#include "hook/uses_sample.h"
#include "hook/work.h"
#include "shm/pace_call.h"

#include <pthread.h>
#include <sys/mman.h>

#define TICK_NS NSEC_PER_MSEC
#define QUIET_NS (100 * NSEC_PER_MSEC)
/* A process that launched within this is looked after at every tick. */
#define BUSY_NS (20 * NSEC_PER_MSEC)
#define TAIL_AGE_NS (200 * NSEC_PER_USEC)
/* Who ends a stream waits so long for somebody who is at it with a marker. */
#define END_WAIT_NS NSEC_PER_SEC
/* Who begins a capture waits so long for those who are in a driver call. */
#define CAPTURE_WAIT_NS (50 * NSEC_PER_MSEC)

enum { QUERIES = 64, TAILS = 64, PROBES = 16, PAIRS = 32, SPARE = 8 };

/* A stream of ours in a context, with nothing in it but an event now and then. */
struct probe {
	uint64_t context; /* 0: free, and so is all the rest */
	CUstream stream; /* written under `making`; atomic: the worker looks whether there is one */
	uint64_t event;  /* under way, 0: none */
	uint64_t first;  /* directly before it, 0: none */
	int64_t begin_ns, submit_ns; /* of its record call */
	int pairs;                   /* of events that were put so far */
};

struct metering {
	struct region *region;                          /* constant after metering_init() */
	_Atomic(struct meter *) meters[RATION_DEVICES]; /* set once under `making`; atomic */
	pthread_mutex_t making;                         /* zero is an unlocked mutex */
	struct turn marking;     /* of who has another's stream marked, or ends one */
	_Atomic int64_t read_ns; /* when the markers were read last; atomic */
	/* The worker's alone. */
	uint64_t passes;
	int64_t passed_ns; /* when somebody was seen to have passed the gate */
	int64_t told_ns;   /* when the monitor was told */
	bool is_watched;
	struct probe probes[PROBES]; /* context: `making`; event, first, pairs: `marking` */
};
PROCESS_STATE(metering, state);

_Atomic bool metering_on;

/* What this process's meters need of the region while it is ours. */
static struct pace_device *pace_of(struct dev dev)
{
	return &state.s.region->own->pace[dev.v];
}

static struct meter *make(struct dev dev)
{
	void *m = mmap(NULL, sizeof(struct meter), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct meter *meter = m;

	if (m == MAP_FAILED)
		return NULL;
	pthread_mutex_init(&meter->lock, NULL);
	meter->pace = (struct pace){ .device = pace_of(dev),
				     .slot = quota_slot(),
				     .all = pace_of((struct dev){ 0 }),
				     .count = RATION_DEVICES };
	return meter;
}

struct meter *metering_of(struct dev dev)
{
	struct meter *meter = atomic_load_explicit(&state.s.meters[dev.v], memory_order_acquire);

	if (meter || share_limit_pct(dev, clock_now_ns()) == 0)
		return meter;
	pthread_mutex_lock(&state.s.making);
	meter = atomic_load(&state.s.meters[dev.v]);
	if (!meter) {
		meter = make(dev);
		atomic_store_explicit(&state.s.meters[dev.v], meter, memory_order_release);
	}
	pthread_mutex_unlock(&state.s.making);
	return meter;
}

static bool is_blocked(void)
{
	return __atomic_load_n(&state.s.region->hami->recent_kernel, __ATOMIC_RELAXED) < 0;
}

struct pace_terms metering_terms(struct dev dev, int64_t now_ns)
{
	struct pace_terms terms = { .share_pct = PACE_NO_LIMIT_PCT };

	if (share_in_force(dev, now_ns))
		terms.share_pct = share_limit_pct(dev, now_ns);
	if (quota_has_region(now_ns))
		terms.is_blocked = is_blocked();
	return terms;
}

/* True when launches have to come by: there is a limit in force, a meter, or the monitor's hold. */
static bool is_wanted(int64_t now_ns)
{
	for (int d = 0; d < RATION_DEVICES; d++)
		if (atomic_load(&state.s.meters[d]) || share_in_force((struct dev){ d }, now_ns))
			return true;
	return quota_has_region(now_ns) && is_blocked();
}

static void watch(int64_t now_ns)
{
	bool is_on = is_wanted(now_ns);

	/* First on, then watched, so that who comes by is held. */
	if (is_on)
		atomic_store(&metering_on, true);
	if (is_on != state.s.is_watched)
		gate_watch(GATE_METERING, is_on);
	if (!is_on)
		atomic_store(&metering_on, false);
	state.s.is_watched = is_on;
}

void metering_init(struct region *region)
{
	process_wipe_on_fork(&state, sizeof(state));
	state.s.region = region;
	gpu_event_init();
	again_init();
	event_point_init();
	uses_sample_init();
	watch(clock_now_ns());
}

/*
 * Whether an event of ours may go into the stream: nothing captures it, and nothing at all is captured if it
 * is to be the context's. Inside the gate, which is shut for a moment when a capture begins.
 */
static bool may_mark(CUstream stream, bool is_whole)
{
	CUstreamCaptureStatus status;

	if (!capture_any())
		return true;
	return !is_whole && real.cuStreamIsCapturing &&
	       real.cuStreamIsCapturing(stream ? stream : CU_STREAM_LEGACY, &status) ==
		       CUDA_SUCCESS &&
	       status == CU_STREAM_CAPTURE_STATUS_NONE;
}

static bool record(uint64_t event, CUstream stream, bool is_whole)
{
	uint32_t was_in = gate_enter();
	bool is_done = may_mark(stream, is_whole) && gpu_event_record(event, stream, is_whole);

	gate_leave(was_in);
	return is_done;
}

void metering_mark(struct meter *meter, struct lane *lane, enum meter_kind kind, CUstream stream,
		   uint64_t context, struct means_entry *work, bool may_make, bool is_whole)
{
	struct relaxed relaxed = relaxed_begin();
	uint64_t event = gpu_event_take(context, may_make);
	int64_t begin_ns = clock_now_ns();

	if (event && (!record(event, stream, is_whole) ||
		      !marker_put(meter, lane, kind, event, work, begin_ns, clock_now_ns())))
		gpu_event_give(event);
	relaxed_end(relaxed);
}

/* What has no marker in a created stream gets one: it may end, and nobody can put it then. */
static void mark_last(CUstream stream)
{
	uint64_t context, newest;
	struct lane *lane;

	for (int d = 0; d < RATION_DEVICES && may_mark(stream, false); d++) {
		struct meter *meter = atomic_load(&state.s.meters[d]);

		lane = meter ? ended_lane(meter, stream_key_of(stream), &context, &newest) : NULL;
		if (lane && newest)
			gpu_event_give(newest);
		if (lane)
			metering_mark(meter, lane, METER_TAIL, stream, context, NULL, true, false);
	}
}

void metering_begin_capture(CUstream stream)
{
	bool is_shut;

	/* It may end captured. */
	if (metering_is_on() && !stream_key_is_default(stream))
		mark_last(stream);
	is_shut = (metering_is_on() || gpu_fence_is_used()) && gate_close(CAPTURE_WAIT_NS) == 0;
	capture_begin();
	again_void();
	if (is_shut)
		gate_open();
}

/* True if the marker is read or gone. */
static bool ask(struct meter *meter, const struct marker_query *query)
{
	bool is_ours;
	int64_t gpu_ns;

	switch (gpu_event_read(query->handle, &gpu_ns)) {
	case GPU_EVENT_RUNNING:
		marker_running(meter, query, clock_now_ns());
		return false;
	case GPU_EVENT_DONE:
		is_ours = marker_ended(meter, query, gpu_ns, clock_now_ns());
		break;
	default:
		is_ours = marker_lost(meter, query);
	}
	if (is_ours)
		gpu_event_give(query->handle);
	return is_ours;
}

void metering_check_debt(struct meter *meter)
{
	uint32_t share_pct = __atomic_load_n(&meter->share_pct, __ATOMIC_RELAXED);

	if (share_pct > 0 && share_pct < PACE_NO_LIMIT_PCT &&
	    pace_level_ns(&meter->pace, share_pct, clock_now_ns()) < 0)
		work_call_attention();
}

void metering_read(struct meter *meter)
{
	struct marker_query queries[QUERIES];
	unsigned n = marker_pending(meter, queries, QUERIES);
	struct relaxed relaxed = { .is_set = false };
	bool any = true, has_ended = false;

	/* Most waits find none, and the driver is not to be called for that. */
	if (n)
		relaxed = relaxed_begin();
	for (; n && any; n = marker_pending(meter, queries, QUERIES)) {
		any = false;
		for (unsigned i = 0; i < n; i++)
			any |= ask(meter, &queries[i]);
		has_ended |= any;
	}
	if (has_ended)
		metering_check_debt(meter);
	atomic_store_explicit(&state.s.read_ns, clock_now_ns(), memory_order_relaxed);
	relaxed_end(relaxed);
}

void metering_read_all(int64_t age_ns)
{
	int64_t read_ns = atomic_load_explicit(&state.s.read_ns, memory_order_relaxed);

	if (age_ns && clock_now_ns() - read_ns < age_ns)
		return;
	for (int d = 0; d < RATION_DEVICES; d++) {
		struct meter *meter = atomic_load_explicit(&state.s.meters[d],
							   memory_order_acquire);

		if (meter)
			metering_read(meter);
	}
}

/*
 * A stranger's mark behind what was launched some time ago and no marker covers. An event of the whole
 * context reaches the default streams too, which another thread cannot name.
 */
static void mark_tails(struct meter *meter, int64_t now_ns)
{
	struct lane *lanes[TAILS];
	unsigned n;

	/* An event of a whole context would invalidate a capture, and one in a stream may be in it. */
	if (capture_any() || !turn_take(&state.s.marking, NSEC_PER_MSEC))
		return;
	n = marker_tails(meter, NULL, now_ns - TAIL_AGE_NS, lanes, TAILS);
	for (unsigned i = 0; i < n; i++) {
		CUstream stream = stream_key_handle(
			__atomic_load_n(&lanes[i]->key, __ATOMIC_ACQUIRE));

		if (stream || real.cuCtxRecordEvent)
			metering_mark(meter, lanes[i], METER_TAIL, stream,
				      meter_context_of(meter, lanes[i]), NULL, false, true);
	}
	turn_give(&state.s.marking);
}

/* A few events for the worker, which can make none: it does not have the context. */
static void spare_events(uint64_t context)
{
	uint64_t events[SPARE];

	for (int i = 0; i < SPARE; i++)
		events[i] = gpu_event_take(context, true);
	for (int i = 0; i < SPARE; i++)
		if (events[i])
			gpu_event_give(events[i]);
}

void metering_add_context(uint64_t context)
{
	CUstream stream = NULL;
	struct probe *free_one = NULL;
	struct relaxed relaxed;
	bool has_visited;

	pthread_mutex_lock(&state.s.making);
	for (int i = 0; i < PROBES; i++) {
		struct probe *p = &state.s.probes[i];

		if (p->context == context) {
			pthread_mutex_unlock(&state.s.making);
			return;
		}
		if (!p->context && !free_one)
			free_one = p;
	}
	if (free_one)
		free_one->context = context;
	pthread_mutex_unlock(&state.s.making);
	if (!free_one || !real.cuStreamCreate)
		return;
	relaxed = relaxed_begin();
	has_visited = visit_begin(gpu_event_handle(context));
	if (real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS)
		spare_events(context);
	visit_end(has_visited);
	relaxed_end(relaxed);
	pthread_mutex_lock(&state.s.making);
	/* Else the context ended meanwhile, and the stream with it. */
	if (free_one->context == context)
		__atomic_store_n(&free_one->stream, stream, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&state.s.making);
}

/* Reads the event that is under way, and the one before it. False: it has not run yet. */
static bool read_probe(struct meter *meter, struct probe *p)
{
	int64_t gpu_ns, first_ns;
	enum gpu_event_state was = gpu_event_read(p->event, &gpu_ns);

	if (was == GPU_EVENT_RUNNING)
		return false;
	if (was == GPU_EVENT_DONE && !p->first)
		marker_probe(meter, p->context, p->begin_ns, p->submit_ns, gpu_ns);
	if (was == GPU_EVENT_DONE && p->first &&
	    gpu_event_read(p->first, &first_ns) == GPU_EVENT_DONE)
		marker_event_cost(meter, gpu_ns - first_ns);
	if (p->first)
		gpu_event_give(p->first);
	gpu_event_give(p->event);
	p->first = p->event = 0;
	return true;
}

/* An event in the probe's stream; 0 when there is none. */
static uint64_t put_event(const struct probe *p)
{
	uint64_t event = gpu_event_take(p->context, false);

	if (!event || gpu_event_record(event, p->stream, false))
		return event;
	gpu_event_give(event);
	return 0;
}

/* Reads the event that is under way in a context of this meter, and puts the next. */
static void probe(struct meter *meter, struct probe *p)
{
	int64_t now_ns = clock_now_ns();

	if (p->event && !read_probe(meter, p))
		return;
	if (now_ns - p->submit_ns < marker_probe_apart_ns(meter, now_ns))
		return;
	if (p->pairs < PAIRS) {
		p->first = put_event(p);
		p->pairs++;
	}
	p->begin_ns = clock_now_ns();
	p->event = put_event(p);
	p->submit_ns = clock_now_ns();
}

static void probe_all(struct meter *meter)
{
	if (!turn_take(&state.s.marking, NSEC_PER_MSEC))
		return;
	for (int i = 0; i < PROBES; i++) {
		struct probe *p = &state.s.probes[i];

		/* Acquire: with the stream the context is there. */
		if (__atomic_load_n(&p->stream, __ATOMIC_ACQUIRE) && gpu_event_handle(p->context))
			probe(meter, p);
	}
	turn_give(&state.s.marking);
}

static void tell_monitor(int64_t now_ns)
{
	if (!quota_has_region(now_ns))
		return;
	pace_policy_launched(&state.s.region->hami->recent_kernel);
	state.s.told_ns = now_ns;
}

void metering_launched_first(void)
{
	if (quota_has_region_now())
		pace_policy_launched(&state.s.region->hami->recent_kernel);
}

void metering_await(bool is_awaited)
{
	for (int d = 0; d < RATION_DEVICES; d++) {
		struct meter *meter = atomic_load_explicit(&state.s.meters[d],
							   memory_order_acquire);

		if (!meter)
			continue;
		pace_await(&meter->pace, is_awaited);
		if (is_awaited && quota_has_region_now())
			pace_call(meter->pace.device);
	}
}

int64_t metering_tick(void)
{
	int64_t now_ns = clock_now_ns();
	uint64_t passes = gate_passes();
	bool is_metered = false;

	if (passes != state.s.passes) {
		state.s.passes = passes;
		state.s.passed_ns = now_ns;
		if (now_ns - state.s.told_ns > QUIET_NS / 2)
			tell_monitor(now_ns);
	}
	watch(now_ns);
	for (int d = 0; d < RATION_DEVICES; d++) {
		struct meter *meter = atomic_load(&state.s.meters[d]);

		if (!meter)
			continue;
		is_metered = true;
		probe_all(meter);
		metering_read(meter);
		mark_tails(meter, now_ns);
	}
	return is_metered && now_ns - state.s.passed_ns < BUSY_NS ? TICK_NS : QUIET_NS;
}

const uint32_t *metering_word(void)
{
	return quota_has_region_now() ? &state.s.region->own->pace[0].change : NULL;
}

/* The worker's turn is ours: the context's probe goes with it. */
static void drop_probe(uint64_t context)
{
	pthread_mutex_lock(&state.s.making);
	for (int i = 0; i < PROBES; i++) {
		struct probe *p = &state.s.probes[i];

		if (p->context != context)
			continue;
		if (p->first)
			gpu_event_give(p->first);
		if (p->event)
			gpu_event_give(p->event);
		p->first = p->event = 0;
		p->pairs = 0;
		__atomic_store_n(&p->stream, NULL, __ATOMIC_RELAXED);
		p->context = 0;
	}
	pthread_mutex_unlock(&state.s.making);
}

/*
 * A stream that ends, or with NULL a context, leaves all meters; who may be at it with a marker is
 * waited for.
 */
static void drop(CUstream stream, uint64_t context)
{
	bool has_turn;

	if (stream)
		mark_last(stream);
	has_turn = turn_take(&state.s.marking, END_WAIT_NS);
	for (int d = 0; d < RATION_DEVICES; d++) {
		struct meter *meter = atomic_load(&state.s.meters[d]);

		if (meter && stream)
			ended_begin(meter, stream_key_of(stream), clock_now_ns());
		else if (meter)
			meter_drop(meter, context, clock_now_ns());
	}
	if (!stream && has_turn)
		drop_probe(context);
	again_void();
	if (has_turn)
		turn_give(&state.s.marking);
}

static bool is_metering(void)
{
	for (int d = 0; d < RATION_DEVICES; d++)
		if (atomic_load_explicit(&state.s.meters[d], memory_order_relaxed))
			return true;
	return false;
}

void metering_forget_graph(CUgraphExec exec)
{
	struct work_call call = work_graph(NULL, false, exec);

	if (!is_metering())
		return;
	for (int d = 0; d < RATION_DEVICES; d++) {
		struct meter *meter = atomic_load_explicit(&state.s.meters[d],
							   memory_order_acquire);

		if (!meter)
			continue;
		pthread_mutex_lock(&meter->lock);
		means_forget(&meter->means, work_call_kind(&call));
		pthread_mutex_unlock(&meter->lock);
	}
	again_void();
}

void metering_end_stream(CUstream stream)
{
	uses_sample_forget(stream);
	if (!is_metering() || stream_key_is_default(stream))
		return;
	metering_read_all(0);
	drop(stream, 0);
}

void metering_end_context(CUcontext ctx)
{
	uint64_t context;

	uses_sample_forget(NULL);
	metering_read_all(0);
	context = gpu_event_forget(ctx);
	if (context && is_metering())
		drop(NULL, context);
}
