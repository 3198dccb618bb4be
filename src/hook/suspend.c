#include "hook/suspend.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "core/bo_hold.h"
#include "core/handle.h"
#include "core/object.h"
#include "core/others.h"
#include "core/quota.h"
#include "core/rdma.h"
#include "core/root.h"
#include "drv/gpu_bo.h"
#include "drv/gpu_still.h"
#include "drv/sample_nvml.h"
#include "hook/metering.h"
#include "hook/signals.h"
#include "hook/together.h"
#include "shm/residency.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

/* Markers are read so often while work is waited for. */
#define READ_NS (5 * NSEC_PER_MSEC)
#define AGAIN_FIRST_NS (10 * NSEC_PER_MSEC)
#define AGAIN_MOST_NS NSEC_PER_SEC
/* Who has left looks so often whether others could not, and comes back for them so often. */
#define MISSED_LOOK_NS (200 * NSEC_PER_MSEC)
enum { RETURNS_MOST = 3 };

enum state {
	RUNS,
	HELD,       /* the gate is shut, and all that may leave has left */
	HELD_DEEP,  /* as that, and the driver has no host memory for us or the program */
	COMES_BACK, /* the gate is shut, and something has not come back */
};

struct suspend_state {
	struct region *region;  /* constant after suspend_start(), NULL: nothing is asked of it */
	_Atomic unsigned state; /* enum state; the worker writes */
	_Atomic bool begins;    /* the gate is shut now and then, to be held; the worker writes */
	_Atomic bool is_ending; /* the program ends; atomic */
	/* the worker's */
	int64_t again_ns;       /* when the next attempt is due, 0: at once */
	int64_t pause_ns;       /* before the one after */
	uint32_t resumes, asks; /* the region's words, as seen last */
	enum ration_suspend want;
	bool is_told;
	unsigned returns; /* for others, since it was asked */
	int told_rc;      /* and for which asks */
	uint32_t told_asks;
};
PROCESS_STATE(suspend_state, state);

void suspend_start(struct region *region)
{
	process_wipe_on_fork(&state, sizeof(state));
	state.s.resumes = __atomic_load_n(&region->own->resumes, __ATOMIC_RELAXED);
	state.s.asks = __atomic_load_n(&region->own->suspend_asks, __ATOMIC_ACQUIRE);
	state.s.region = region;
	together_start(region);
}

bool suspend_is_shut(void)
{
	return atomic_load_explicit(&state.s.state, memory_order_relaxed) != RUNS;
}

bool suspend_may_shut(void)
{
	return suspend_is_shut() || atomic_load_explicit(&state.s.begins, memory_order_relaxed);
}

void suspend_end(void)
{
	atomic_store(&state.s.is_ending, true);
}

/* Who resumes the tenant resumes also what a signal has suspended. */
static enum ration_suspend region_wants(void)
{
	const struct ration_region *own = state.s.region->own;
	uint32_t resumes = __atomic_load_n(&own->resumes, __ATOMIC_ACQUIRE);

	if (resumes != state.s.resumes)
		signals_forget();
	state.s.resumes = resumes;
	return region_suspend_want(own);
}

/* A region that was taken away asks for nothing: nobody could ever say that it is over. */
static enum ration_suspend wanted_now(int64_t now_ns)
{
	enum ration_suspend want = RATION_RUN;

	if (!state.s.region)
		return RATION_RUN;
	if (quota_has_region(now_ns))
		want = region_wants();
	return want == RATION_RUN && signals_want_suspension() ? RATION_SUSPEND : want;
}

/* Why it is not as far as asked: -errno, or 0. The slot's words; NULL: there is no region. */
static struct ration_residency *tell_why(int rc)
{
	struct ration_residency *r;

	if (!quota_has_region_now())
		return NULL;
	r = &state.s.region->own->residency[quota_slot()];
	__atomic_store_n(&r->suspend_rc, rc, __ATOMIC_RELAXED);
	__atomic_store_n(&r->suspend_answered, state.s.asks, __ATOMIC_RELEASE);
	state.s.told_rc = rc;
	state.s.told_asks = state.s.asks;
	return r;
}

/* Says in the region how it stands. */
static void tell(enum ration_suspend suspended, int rc)
{
	struct ration_residency *r = tell_why(rc);

	if (!r)
		return;
	__atomic_store_n(&r->is_suspended, suspended, __ATOMIC_RELEASE);
	__atomic_store_n(&state.s.region->hami->procs[quota_slot()].status,
			 suspended == RATION_RUN ? HAMI_RUNNING : HAMI_SUSPENDED, __ATOMIC_RELEASE);
}

/* It is under way. The reason of the last attempt stays. */
static void tell_begun(void)
{
	if (state.s.told_asks != state.s.asks || state.s.told_rc == 0)
		tell_why(-EINPROGRESS);
}

/*
 * Where the card has room for as much again nobody waits for what leaves, and it all goes back to
 * the driver at the end: it probably clears what goes back, while others' memory may come in. What
 * comes has memory at once, so that its copies do not wait for more.
 */
static uint64_t at_a_time(struct dev dev, struct bo_device *bos)
{
	uint64_t bytes = bo_device_used(bos, BO_VRAM) + bo_device_used(bos, BO_SYSTEM), free_bytes;

	return others_card_free(dev, &free_bytes) == 0 && free_bytes >= bytes ? UINT64_MAX : 0;
}

/* Both for all devices: the first error, when others may have gone. */
static int each(int (*call)(struct bo_device *device, struct bo_ctx *ctx))
{
	int rc = 0;

	for (int d = 0; d < RATION_DEVICES && rc == 0; d++) {
		struct bo_device *bos = object_bos((struct dev){ d });
		struct bo_ctx ctx = { 0 };

		if (bos)
			ctx.batch_bytes = at_a_time((struct dev){ d }, bos);
		rc = bos ? call(bos, &ctx) : 0;
	}
	return rc;
}

static void try_again(int64_t now_ns)
{
	if (!state.s.pause_ns)
		state.s.pause_ns = AGAIN_FIRST_NS;
	state.s.again_ns = now_ns + state.s.pause_ns;
	if (state.s.pause_ns < AGAIN_MOST_NS)
		state.s.pause_ns *= 2;
}

static void enter(enum state next)
{
	atomic_store(&state.s.state, next);
	state.s.again_ns = state.s.pause_ns = 0;
	state.s.is_told = false;
}

static void come_back(void)
{
	int rc;

	tell_begun();
	gpu_bo_use_pages(false);
	rc = each(bo_unhold);
	if (rc == 0) {
		sample_nvml_rest(false);
		object_keep(true);
		enter(RUNS);
		/* It may have come back only for others. */
		tell(RATION_RUN, state.s.want == RATION_RUN ? 0 : -EINPROGRESS);
		together_end();
		gpu_still_end();
		return;
	}
	/* Not when it goes the next time. */
	if (state.s.pause_ns && !state.s.is_told) {
		log_warn("suspended memory does not come back (%s); the program is held until it "
			 "does",
			 strerror(-rc));
		state.s.is_told = true;
	}
	tell(RATION_SUSPEND, rc);
	try_again(clock_now_ns());
}

/*
 * All that may leave goes to pages of the process. What the program has of the driver's host memory
 * is not ours to move.
 */
static int leave_for_pages(void)
{
	int rc = handle_has_host() ? -ENOTSUP : 0;

	if (rc == 0) {
		gpu_bo_use_pages(true);
		rc = each(bo_hold_all);
	}
	return rc < 0 ? rc : gpu_bo_drop_host();
}

/*
 * The card will not list this process while its contexts are off it; nothing of what it shows then
 * counts.
 */
static void be_deep(void)
{
	sample_nvml_rest(true);
	enter(HELD_DEEP);
	together_left();
	tell(RATION_SUSPEND_DEEP, 0);
}

/* The gate is shut: as far as it goes. 0, or why it went back to where nothing is held. */
static int leave(enum ration_suspend want)
{
	int deep_rc = 0, rc;

	if (want == RATION_SUSPEND_DEEP) {
		deep_rc = leave_for_pages();
		if (deep_rc == 0) {
			be_deep();
			return 0;
		}
		gpu_bo_use_pages(false);
	}
	rc = each(bo_hold);
	if (rc < 0) {
		/* All or nothing: what went comes back. */
		enter(COMES_BACK);
		come_back();
		return rc;
	}
	enter(HELD);
	together_left();
	tell(RATION_SUSPEND, deep_rc);
	if (deep_rc < 0)
		try_again(clock_now_ns());
	return 0;
}

static bool fits_in_host(uint64_t bytes)
{
	const struct ration_region *own = state.s.region->own;
	uint64_t limit_bytes = residency_host_limit(own);
	uint64_t used_bytes = residency_sum(own, RESIDENCY_HOST);

	/* What is kept at hand goes for it. */
	used_bytes = bytes_beyond(used_bytes, residency_kept(own, HAMI_SLOTS));
	return limit_bytes == UINT64_MAX || bytes <= bytes_beyond(limit_bytes, used_bytes);
}

/* False where host memory has no room for what is to leave: nothing need stand still or move. */
static bool may_leave(void)
{
	uint64_t bytes = 0;

	if (!state.s.region)
		return true;
	for (int d = 0; d < RATION_DEVICES; d++) {
		struct bo_device *bos = object_bos((struct dev){ d });

		bytes += bos ? bo_hold_bytes(bos) : 0;
	}
	if (fits_in_host(bytes))
		return true;
	/* What the dead have there is none of it. */
	quota_reap();
	return fits_in_host(bytes);
}

/* The tenant is asked, not this process alone by a signal: all of it goes. */
static bool is_asked_of_all(void)
{
	return state.s.region && quota_has_region_now() && region_wants() != RATION_RUN;
}

/*
 * Something else is asked for, or the same once more: what is under way is begun anew. Meanwhile
 * what the worker has to do soon is done.
 */
static bool is_asked_anew(void *arg)
{
	const struct ration_region *own = state.s.region->own;

	(void)arg;
	root_serve();
	metering_read_all(READ_NS);
	if (atomic_load(&state.s.is_ending))
		return true;
	return quota_has_region_now() &&
	       (__atomic_load_n(&own->suspend_asks, __ATOMIC_ACQUIRE) != state.s.asks ||
		(region_suspend_want(own) == RATION_RUN && !signals_want_suspension()));
}

static int begin_still(void)
{
	struct gpu_still_waits waits = GPU_STILL_SUSPEND_WAITS;
	int rc;

	if (state.s.region)
		waits.is_over = is_asked_anew;
	atomic_store_explicit(&state.s.begins, true, memory_order_relaxed);
	rc = is_asked_of_all() ? together_begin(&waits) : gpu_still_begin(&waits);
	atomic_store_explicit(&state.s.begins, false, memory_order_relaxed);
	return rc == -EBUSY && waits.is_over && is_asked_anew(NULL) ? -ECANCELED : rc;
}

/* It does not go; why not is said, and when it is tried again. */
static void stay(int rc)
{
	together_end();
	object_keep(true);
	if (rc == -ECANCELED) {
		state.s.again_ns = clock_now_ns();
		return;
	}
	tell(RATION_RUN, rc);
	try_again(clock_now_ns());
}

static void hold(enum ration_suspend want)
{
	int rc = rdma_look() ? -EPERM : 0;

	tell_begun();
	if (rc == 0) {
		object_keep(false);
		rc = may_leave() ? begin_still() : -ENOMEM;
	}
	if (rc == 0)
		rc = leave(want);
	if (rc < 0 && !suspend_is_shut())
		stay(rc);
}

/*
 * What lies in the driver's host memory has to come back first, with the gate shut all along. What
 * lies in pages already stays.
 */
static void deepen(void)
{
	int64_t pause_ns = state.s.pause_ns;
	int rc = handle_has_host() ? -ENOTSUP : 0;

	tell_begun();
	if (rc == 0 && gpu_bo_drop_host() == 0) {
		be_deep();
		return;
	}
	if (rc == 0)
		rc = each(bo_unhold);
	if (rc == 0) {
		leave(RATION_SUSPEND_DEEP);
	} else if (each(bo_hold) == 0) {
		tell(RATION_SUSPEND, rc);
	} else {
		enter(COMES_BACK);
		come_back();
	}
	if (atomic_load_explicit(&state.s.state, memory_order_relaxed) == HELD) {
		/* Later each time. */
		state.s.pause_ns = pause_ns;
		try_again(clock_now_ns());
	}
}

bool suspend_is_asked(void)
{
	int64_t now_ns = clock_now_ns();

	signals_check();
	return wanted_now(now_ns) != RATION_RUN && now_ns >= state.s.again_ns;
}

/*
 * The gate is shut. Who is ready for a checkpoint says so until it runs again, whatever else is
 * wanted: its contexts may be away, and who resumes it has to know.
 */
static void follow(enum ration_suspend want)
{
	enum state now = atomic_load_explicit(&state.s.state, memory_order_relaxed);

	/* It stays: whoever asks anew is told so. */
	if (now != COMES_BACK && want != RATION_RUN) {
		together_left();
		if (state.s.told_asks != state.s.asks)
			tell_why(state.s.told_rc == -EINPROGRESS ? 0 : state.s.told_rc);
	}
	if (now == COMES_BACK) {
		come_back();
	} else if (want == RATION_RUN) {
		enter(COMES_BACK);
		come_back();
	} else if (now == HELD && state.s.returns < RETURNS_MOST && is_asked_of_all() &&
		   together_is_missed()) {
		state.s.returns++;
		enter(COMES_BACK);
		come_back();
	} else if (want == RATION_SUSPEND_DEEP && now == HELD) {
		deepen();
	}
}

/* Who asks once more, even for the same, has it tried at once. */
static void look_for_asks(int64_t now_ns)
{
	uint32_t asks;

	if (!state.s.region || !quota_has_region(now_ns))
		return;
	asks = __atomic_load_n(&state.s.region->own->suspend_asks, __ATOMIC_ACQUIRE);
	if (asks != state.s.asks)
		state.s.again_ns = state.s.returns = 0;
	state.s.asks = asks;
}

int64_t suspend_tick(void)
{
	int64_t now_ns = clock_now_ns();
	enum ration_suspend want;

	signals_check();
	/* Before what is wanted, which was written first. */
	look_for_asks(now_ns);
	want = wanted_now(now_ns);
	if (want != state.s.want)
		state.s.again_ns = state.s.returns = 0;
	state.s.want = want;
	together_seen(state.s.resumes);
	if (now_ns < state.s.again_ns)
		return state.s.again_ns;
	if (suspend_is_shut()) {
		follow(want);
	} else if (want != RATION_RUN) {
		hold(want);
	} else if (state.s.pause_ns || state.s.told_rc) {
		enter(RUNS);
		tell(RATION_RUN, 0);
	}
	if (state.s.again_ns)
		return state.s.again_ns;
	return suspend_is_shut() && together_is_linked() ? now_ns + MISSED_LOOK_NS : INT64_MAX;
}
