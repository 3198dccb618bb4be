#include "hook/work.h"

#include "base/clock.h"
#include "base/process.h"
#include "base/sys.h"
#include "core/gate.h"
#include "core/green.h"
#include "core/quota.h"
#include "core/spare.h"
#include "drv/capture.h"
#include "drv/gpu_cuda.h"
#include "drv/gpu_event.h"
#include "drv/real.h"
#include "drv/relaxed.h"
#include "drv/visit.h"
#include "hook/collective.h"
#include "hook/enter.h"
#include "hook/metering.h"
#include "hook/stream_key.h"
#include "hook/together.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PLACES = 8, TAILS = 16 };
/* A hold that somebody asked for is looked at again after this. */
#define POLL_NS (100 * NSEC_PER_MSEC)
/* Of what launches have to keep to, what the monitor writes without a word is seen after so long. */
#define TERMS_NS NSEC_PER_MSEC

/* Where a stream's work goes. */
struct place {
	CUstream stream;
	bool is_own;    /* a default stream: the thread's own */
	CUcontext ctx;  /* of a default stream; else NULL */
	uint64_t epoch; /* again_epoch() when it was looked for: another value makes it void */
	struct dev dev;
	struct meter *meter; /* NULL: time there is not limited */
	struct meter_thread *thread;
	uint64_t context, key;
};

/* A thread's part. The thread's alone; `next` and `tid` are constant once it is in the list. */
struct work_thread {
	struct work_thread *next;
	uint32_t tid;
	uint64_t life;   /* of the process that it belongs to */
	uint64_t number; /* from 1 on */
	struct again again[AGAIN_PLACES];
	struct place places[PLACES];
	struct meter_thread *meters[RATION_DEVICES];
	struct meter_thread *meter; /* of its last launch that came the long way; or NULL */
	/* What launches on `terms_dev` had to keep to when it was looked at last. */
	struct pace_terms terms;
	int terms_dev;
	uint32_t terms_change; /* of the limits, then */
	int64_t terms_ns;      /* 0: never */
};

struct work_state {
	uint64_t life;           /* not 0 once there is a thread; another in each fork child */
	pthread_mutex_t mutex;   /* zero is an unlocked mutex */
	struct work_thread *all; /* mutex */
	uint64_t numbers;        /* mutex: given out so far */
};
PROCESS_STATE(work_state, state);

static struct {
	_Atomic uint64_t lives; /* of this program and its fork children */
} program;

static __thread struct work_thread *own __attribute__((tls_model("initial-exec")));

static struct work_thread *new_thread(void)
{
	struct work_thread *t = NULL;

	if (posix_memalign((void **)&t, _Alignof(struct work_thread), sizeof(*t)) != 0)
		return NULL;
	memset(t, 0, sizeof(*t));
	again_clear(t->again);
	process_wipe_on_fork(&state, sizeof(state));
	t->tid = (uint32_t)sys_gettid();
	pthread_mutex_lock(&state.s.mutex);
	if (!state.s.life)
		__atomic_store_n(&state.s.life, atomic_fetch_add(&program.lives, 1) + 1,
				 __ATOMIC_RELAXED);
	t->life = state.s.life;
	t->number = ++state.s.numbers;
	t->next = state.s.all;
	state.s.all = t;
	pthread_mutex_unlock(&state.s.mutex);
	return t;
}

/* The calling thread's part; a fork child's is not its parent's. NULL without memory. */
static struct work_thread *own_thread(void)
{
	if (__builtin_expect(own && own->life == __atomic_load_n(&state.s.life, __ATOMIC_RELAXED),
			     1))
		return own;
	own = new_thread();
	if (own)
		again_places = own->again;
	return own;
}

static bool is_gone(uint32_t tid)
{
	return syscall(SYS_tgkill, getpid(), tid, 0) < 0 && errno == ESRCH;
}

/* A thread that ended: nobody has its part any more. */
static void end_thread(struct work_thread *t)
{
	for (int d = 0; d < RATION_DEVICES; d++) {
		struct meter *meter = t->meters[d] ? metering_of((struct dev){ d }) : NULL;

		if (meter)
			meter_thread_end(meter, t->meters[d]);
		free(t->meters[d]);
	}
	free(t);
}

void work_end_threads(void)
{
	struct work_thread **at, *gone = NULL, *t;

	pthread_mutex_lock(&state.s.mutex);
	for (at = &state.s.all; (t = *at);) {
		if (!is_gone(t->tid)) {
			at = &t->next;
			continue;
		}
		*at = t->next;
		t->next = gone;
		gone = t;
	}
	pthread_mutex_unlock(&state.s.mutex);
	while ((t = gone)) {
		gone = t->next;
		end_thread(t);
	}
}

/*
 * Where work in the stream goes, and the device of that: the stream's own context, where kernels and graphs
 * go whichever is current; of a default one the calling thread's. False where there is none.
 */
static bool find_context(CUstream stream, CUcontext *out_ctx, struct dev *out_dev)
{
	CUcontext home = stream_key_is_default(stream) ? NULL : visit_stream_context(stream);
	struct cuda_ord ord;
	const void *ctx;
	bool is_known = gpu_cuda_current(&ord, &ctx), has_visited;

	/* A green context's stream and its primary's are told apart by who is current. */
	if (home && !(is_known && green_owner(ctx) == home)) {
		has_visited = visit_begin(home);
		is_known = has_visited && gpu_cuda_current(&ord, &ctx);
		visit_end(has_visited);
	}
	if (!is_known || !device_by_ordinal(ord, out_dev))
		return false;
	*out_ctx = (CUcontext)(uintptr_t)ctx;
	return true;
}

static struct meter_thread *meter_thread_of(struct work_thread *t, struct dev dev)
{
	struct meter_thread *m = t->meters[dev.v];

	if (m)
		return m;
	m = calloc(1, sizeof(*m));
	if (m)
		m->id = t->number;
	/* Release: work_call_attention() looks at it. */
	__atomic_store_n(&t->meters[dev.v], m, __ATOMIC_RELEASE);
	return m;
}

static void find_place(struct work_thread *t, struct place *p, CUstream stream, bool is_own,
		       CUcontext current, uint64_t epoch)
{
	CUcontext ctx;

	*p = (struct place){ .stream = stream, .is_own = is_own, .ctx = current, .epoch = epoch };
	if (!find_context(stream, &ctx, &p->dev))
		return;
	p->meter = metering_of(p->dev);
	p->thread = p->meter ? meter_thread_of(t, p->dev) : NULL;
	if (!p->thread)
		p->meter = NULL;
	p->context = p->meter ? gpu_event_context(ctx) : 0;
	if (!p->context)
		return;
	p->key = stream_key_is_default(stream) ?
			 stream_key_default(p->context, is_own ? t->number : 0) :
			 stream_key_of(stream);
	metering_add_context(p->context);
}

/* The place of the calling thread's work in this stream; looked for again when something ended. */
static struct place *place_of(struct work_thread *t, CUstream stream, bool is_per_thread)
{
	bool is_default = stream_key_is_default(stream);
	bool is_own = is_default && stream_key_is_own(stream, is_per_thread);
	struct place *p =
		&t->places[((uintptr_t)stream >> 4 ^ (uintptr_t)stream >> 9 ^ (uintptr_t)is_own) %
			   PLACES];
	uint64_t epoch = again_epoch();
	CUcontext current = NULL;

	if (is_default && (!real.cuCtxGetCurrent || real.cuCtxGetCurrent(&current) != CUDA_SUCCESS))
		current = NULL;
	if (__builtin_expect(p->stream == stream && p->is_own == is_own && p->ctx == current &&
				     p->epoch == epoch && p->meter,
			     1))
		return p;
	find_place(t, p, stream, is_own, current, epoch);
	return p;
}

/* What is captured is work of the graph, not of now; and no event of ours may go there. */
bool work_is_captured(CUstream stream, bool is_per_thread)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUstream asked = stream;

	if (!atomic_load_explicit(&capture_count, memory_order_relaxed))
		return false;
	if (!asked)
		asked = is_per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
	return !real.cuStreamIsCapturing ||
	       real.cuStreamIsCapturing(asked, &status) != CUDA_SUCCESS ||
	       status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* What this thread launched and no marker covers gets one before the thread is held. */
static void mark_own(struct work *w, int64_t now_ns)
{
	struct lane *lanes[TAILS];
	unsigned n;

	if (capture_any())
		return;
	n = marker_tails(w->meter, w->thread, now_ns, lanes, TAILS);
	for (unsigned i = 0; i < n; i++) {
		CUstream stream = stream_key_handle(
			__atomic_load_n(&lanes[i]->key, __ATOMIC_ACQUIRE));

		if (stream || real.cuCtxRecordEvent)
			metering_mark(w->meter, lanes[i], METER_TAIL, stream,
				      meter_context_of(w->meter, lanes[i]), NULL, true, true);
	}
}

/* Sleeps until then, or until the limits are not those of `change` any more. */
static void sleep_until(const struct pace *pace, uint32_t change, int64_t until_ns)
{
	int64_t wait_ns = until_ns - clock_now_ns();
	int held = sys_cancel_hold();

	if (wait_ns > 0)
		sys_futex_wait_shared(&pace->device->change, change,
				      wait_ns < POLL_NS ? wait_ns : POLL_NS, UINT32_MAX);
	sys_cancel_release(held);
}

/* Looks at the terms, unless that was just done and who changes them has said nothing since. */
static void look_at_terms(struct work_thread *t, struct dev dev, uint32_t change, int64_t now_ns)
{
	if (t->terms_ns && t->terms_dev == dev.v && t->terms_change == change &&
	    now_ns - t->terms_ns < TERMS_NS)
		return;
	t->terms = metering_terms(dev, now_ns);
	t->terms_dev = dev.v;
	t->terms_change = change;
	t->terms_ns = now_ns;
}

static void admit(struct work_thread *t, struct work *w, struct dev dev)
{
	int saved = errno;

	for (;;) {
		uint32_t change = __atomic_load_n(&w->meter->pace.device->change, __ATOMIC_ACQUIRE);
		int64_t now_ns = clock_now_ns(), until_ns = now_ns;

		look_at_terms(t, dev, change, now_ns);
		if (meter_admit(w->meter, w->thread, w->lane, w->entry, &t->terms, now_ns,
				&until_ns) == PACE_GO)
			break;
		t->terms_ns = 0;
		mark_own(w, now_ns);
		metering_read(w->meter);
		sleep_until(&w->meter->pace, change, until_ns);
		metering_read(w->meter);
	}
	errno = saved;
}

/* Without a meter there is still the monitor's hold. */
static void obey_monitor(void)
{
	int64_t now_ns;

	while (init_is_member()) {
		now_ns = clock_now_ns();
		if (!metering_terms((struct dev){ 0 }, now_ns).is_blocked)
			return;
		clock_sleep_ns(POLL_NS / 10);
	}
}

/*
 * A marker behind what is in the stream now; the context's where no other stream of it has work. NULL in our
 * own calls is the legacy stream.
 */
static void mark_lane(struct meter *meter, struct lane *lane, enum meter_kind kind, CUstream stream,
		      bool is_per_thread, uint64_t context, struct means_entry *entry)
{
	bool is_whole = !capture_any() && real.cuCtxRecordEvent &&
			meter_is_single(meter, lane, clock_now_ns());

	if (!stream && is_per_thread)
		stream = CU_STREAM_PER_THREAD;
	metering_mark(meter, lane, kind, stream, context, entry, true, is_whole);
}

/* A marker at one end of a launch. */
static void mark(struct work *w, enum meter_kind kind, struct means_entry *entry)
{
	mark_lane(w->meter, w->lane, kind, w->call.stream, w->call.is_per_thread, w->context,
		  entry);
}

/* A function of a context cannot be launched in another; all else goes where the thread is. */
static bool is_by_context(const struct work_call *call)
{
	return stream_key_is_default(call->stream) &&
	       (!call->function || !function_owner(call->function) ||
		function_kind(call->function) != FUNCTION_OF_CONTEXT);
}

/*
 * Keeps what was found out for launches like this one. Not during a capture, when each stream has to be
 * asked, nor before the function's first launch was dealt with.
 */
static void keep(const struct work *w, const struct place *p)
{
	struct again *at = again_place(&w->call);

	if ((at->epoch & ~AGAIN_BY_CONTEXT) == p->epoch && at->what == w->call.what &&
	    at->amount == w->call.amount && at->lane == w->lane && at->entry == w->entry &&
	    at->stream == again_stream(&w->call))
		return;
	if (!w->lane || !means_is_known(w->entry) || means_may_wait(w->entry) || capture_any() ||
	    !first_launch_is_over(w->call.function, w->call.stream))
		return;
	*at = (struct again){ .what = w->call.what,
			      .amount = w->call.amount,
			      .stream = again_stream(&w->call),
			      .epoch = p->epoch | (is_by_context(&w->call) ? AGAIN_BY_CONTEXT : 0),
			      .thread = w->thread,
			      .lane = w->lane,
			      .entry = w->entry,
			      .kind = work_call_kind(&w->call),
			      .meter = w->meter,
			      .ctx = p->ctx };
}

/* True if it may wait for work elsewhere; notes that the process has such kernels, in its graphs too. */
static bool link_if_collective(struct meter *meter, const struct work_call *call)
{
	bool is_linked = __atomic_load_n(&meter->is_linked, __ATOMIC_RELAXED);

	if (!collective_may_be(call, is_linked))
		return false;
	__atomic_store_n(&meter->is_linked, true, __ATOMIC_RELAXED);
	return true;
}

/* Holds it, and has it measured. */
static void begin_metered(struct work *w, struct work_call call)
{
	struct work_thread *t = own_thread();
	struct place *p = t ? place_of(t, call.stream, call.is_per_thread) : NULL;
	enum meter_kind kind;

	if (!p || !p->meter) {
		obey_monitor();
		return;
	}
	if (work_is_captured(call.stream, call.is_per_thread)) {
		link_if_collective(p->meter, &call);
		return;
	}
	w->meter = p->meter;
	w->thread = p->thread;
	w->context = p->context;
	w->dev = p->dev;
	t->meter = p->thread;
	together_launching(p->dev);
	if (p->context)
		w->lane = meter_lane(w->meter, w->thread, p->key, p->context);
	w->entry = means_find(&w->meter->means, work_call_kind(&call));
	if (!means_is_known(w->entry) && link_if_collective(w->meter, &call))
		__atomic_store_n(&w->entry->may_wait, 1, __ATOMIC_RELAXED);
	w->is_collective = means_may_wait(w->entry);
	if (!meter_admit_fast(w->thread, w->entry))
		admit(t, w, p->dev);
	if (w->lane && lane_wants(w->lane) &&
	    meter_wants_mark(w->meter, w->thread, w->lane, w->entry, clock_now_ns(), &kind))
		mark(w, kind, NULL);
	keep(w, p);
}

/* Of a process with kernels that wait for others', without a limit of GPU time: is it one? */
static bool find_collective(struct work *w, const struct work_call *call)
{
	CUcontext ctx;

	/* A graph may have some: as many have it on all devices of a job. */
	if (call->function ? !collective_is_seen(call->function) : call->what == WORK_CALL_BYTES)
		return false;
	if (work_is_captured(call->stream, call->is_per_thread) ||
	    !find_context(call->stream, &ctx, &w->dev))
		return false;
	together_launching(w->dev);
	return true;
}

CUresult work_begin(struct work *w, struct work_call call)
{
	CUresult res = CUDA_SUCCESS;

	*w = (struct work){ .call = call };
	if (!init_is_member())
		return res;
	if (metering_is_on())
		begin_metered(w, call);
	else if (!gate_is_watched())
		metering_launched_first();
	if (!w->meter && together_is_linked())
		w->is_collective = find_collective(w, &call);
	if (function_any() && !function_is_settled(call.function)) {
		w->is_first = true;
		res = first_launch_begin(&w->first, call.function, call.stream,
					 work_is_captured(call.stream, call.is_per_thread));
	}
	if (res != CUDA_SUCCESS)
		work_end(w, res);
	return res;
}

void work_end(struct work *w, CUresult res)
{
	if (w->is_first)
		first_launch_finish(&w->first, res);
	if (res == CUDA_SUCCESS && w->is_collective)
		together_launched(w->dev);
	if (!w->meter)
		return;
	if (res != CUDA_SUCCESS)
		meter_cancel(w->meter, w->thread);
	else if (!w->lane)
		meter_unmeasured(w->meter, w->thread, clock_now_ns());
	else if (meter_launched(w->meter, w->thread, w->lane, clock_now_ns()))
		mark(w, METER_AFTER, w->entry);
}

void work_call_attention(void)
{
	pthread_mutex_lock(&state.s.mutex);
	for (struct work_thread *t = state.s.all; t; t = t->next)
		for (int d = 0; d < RATION_DEVICES; d++) {
			struct meter_thread *m = __atomic_load_n(&t->meters[d], __ATOMIC_ACQUIRE);

			if (m)
				__atomic_store_n(&m->attention, 1, __ATOMIC_RELAXED);
		}
	pthread_mutex_unlock(&state.s.mutex);
}

bool work_wait_begin(CUstream stream, bool is_per_thread, struct work_wait *out)
{
	struct work_thread *t = own_thread();
	struct place *p = t ? place_of(t, stream, is_per_thread) : NULL;
	struct lane *lane;

	if (!p || !p->meter || !p->context)
		return false;
	lane = meter_lane_known(p->thread, p->key);
	if (lane && spare_may_pass(p->meter, lane)) {
		spare_pass(lane);
		return false;
	}
	*out = (struct work_wait){ p, clock_now_ns() };
	return true;
}

/* `key` 0: for all of the context. `lane`: where the thread's launches are that it waited for. */
static void waited(struct place *p, uint64_t key, struct lane *lane, int64_t begin_ns,
		   int64_t now_ns)
{
	if (lane)
		spare_waited(lane, begin_ns, now_ns);
	if (lane && key && meter_wait_is_spare(p->meter, lane, begin_ns, now_ns))
		return;
	metering_read(p->meter);
	marker_waited(p->meter, key, p->context, clock_least_ns(begin_ns, now_ns), now_ns);
	metering_check_debt(p->meter);
}

void work_wait_over(const struct work_wait *wait)
{
	/* Before the markers are read, which takes as long as many a wake-up. */
	int64_t now_ns = clock_now_ns();
	struct place *p = wait->place;

	/* Another thread may have ended the stream meanwhile: its lane is nobody's then. */
	waited(p, p->key, meter_lane_known(p->thread, p->key), wait->begin_ns, now_ns);
}

void work_waited(CUstream stream, bool is_per_thread, bool is_context, int64_t begin_ns)
{
	int64_t now_ns = clock_now_ns();
	struct work_thread *t = own_thread();
	struct place *p = t ? place_of(t, stream, is_per_thread) : NULL;

	if (!p || !p->meter || !p->context)
		return;
	waited(p, is_context ? 0 : p->key,
	       is_context ? spare_lane(p->meter, p->thread, p->context) :
			    meter_lane_known(p->thread, p->key),
	       begin_ns, now_ns);
}

struct lane *work_lane_at(const struct marker_point *point)
{
	struct work_thread *t = own_thread();

	return t && t->meter ? spare_lane_at(t->meter, point) : NULL;
}

/* Where the calling thread's work in the stream is measured; NULL where it is not, or is captured. */
static struct place *measured_place(CUstream stream, bool is_per_thread)
{
	struct work_thread *t = own_thread();
	struct place *p = t ? place_of(t, stream, is_per_thread) : NULL;

	return p && p->meter && p->context && !work_is_captured(stream, is_per_thread) ? p : NULL;
}

const struct meter *work_meter(CUstream stream, bool is_per_thread)
{
	struct place *p = measured_place(stream, is_per_thread);

	return p ? p->meter : NULL;
}

void work_unready(CUstream stream, bool is_per_thread)
{
	int64_t now_ns = clock_now_ns();
	struct place *p = measured_place(stream, is_per_thread);

	if (p)
		marker_unready(p->meter, p->key, p->context, now_ns);
}

bool work_point(CUstream stream, bool is_per_thread, struct meter **out_meter,
		struct marker_point *out_point)
{
	struct place *p = measured_place(stream, is_per_thread);

	if (!p || !marker_point(p->meter, p->key, p->context, out_point))
		return false;
	*out_meter = p->meter;
	return true;
}

void work_fence(CUstream stream, bool is_per_thread)
{
	struct place *p = measured_place(stream, is_per_thread);
	struct lane *lane = p ? marker_fence(p->meter, p->key, p->context) : NULL;
	int saved = errno;

	if (lane)
		mark_lane(p->meter, lane, METER_TAIL, stream, is_per_thread, p->context, NULL);
	errno = saved;
}
