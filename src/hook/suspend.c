#include "hook/suspend.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "core/bo_hold.h"
#include "core/object.h"
#include "core/quota.h"
#include "core/rdma.h"
#include "drv/gpu_still.h"
#include "hook/signals.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#define AGAIN_FIRST_NS (10 * NSEC_PER_MSEC)
#define AGAIN_MOST_NS NSEC_PER_SEC

static const struct gpu_still_waits waits = GPU_STILL_SUSPEND_WAITS;

enum state {
	RUNS,
	HELD,       /* the gate is shut, and all that may leave has left */
	COMES_BACK, /* the gate is shut, and something has not come back */
};

struct suspend_state {
	struct region *region;  /* constant after suspend_start(), NULL: nothing is asked of it */
	_Atomic unsigned state; /* enum state; the worker writes */
	/* the worker's */
	int64_t again_ns; /* when the next attempt is due, 0: at once */
	int64_t pause_ns; /* before the one after */
	uint32_t resumes; /* the region's word, as seen last */
	bool is_told;
};
PROCESS_STATE(suspend_state, state);

void suspend_start(struct region *region)
{
	process_wipe_on_fork(&state, sizeof(state));
	state.s.resumes = __atomic_load_n(&region->own->resumes, __ATOMIC_RELAXED);
	state.s.region = region;
}

bool suspend_is_shut(void)
{
	return atomic_load_explicit(&state.s.state, memory_order_relaxed) != RUNS;
}

/* Who resumes the tenant resumes also what a signal has suspended. */
static bool region_wants(void)
{
	const struct ration_region *own = state.s.region->own;
	uint32_t resumes = __atomic_load_n(&own->resumes, __ATOMIC_ACQUIRE);

	if (resumes != state.s.resumes)
		signals_forget();
	state.s.resumes = resumes;
	return region_suspend_want(own) != RATION_RUN;
}

/* A region that was taken away asks for nothing: nobody could ever say that it is over. */
static bool is_wanted_now(int64_t now_ns)
{
	bool region_does;

	if (!state.s.region)
		return false;
	region_does = quota_has_region(now_ns) && region_wants();
	return region_does || signals_want_suspension();
}

/* Says in the region how it stands. */
static void tell(bool is_suspended, int rc)
{
	struct ration_residency *r;
	unsigned slot = quota_slot();

	if (!quota_has_region(clock_now_ns()))
		return;
	r = &state.s.region->own->residency[slot];
	__atomic_store_n(&r->suspend_rc, rc, __ATOMIC_RELAXED);
	__atomic_store_n(&r->is_suspended, is_suspended, __ATOMIC_RELEASE);
	__atomic_store_n(&state.s.region->hami->procs[slot].status,
			 is_suspended ? HAMI_SUSPENDED : HAMI_RUNNING, __ATOMIC_RELEASE);
}

/* Both for all devices: the first error, when others may have gone. */
static int each(int (*call)(struct bo_device *device, struct bo_ctx *ctx))
{
	int rc = 0;

	for (int d = 0; d < RATION_DEVICES && rc == 0; d++) {
		struct bo_device *bos = object_bos((struct dev){ d });
		struct bo_ctx ctx = { 0 };

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
	int rc = each(bo_unhold);

	if (rc == 0) {
		enter(RUNS);
		tell(false, 0);
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
	tell(true, rc);
	try_again(clock_now_ns());
}

static void hold(void)
{
	int rc = rdma_look() ? -EPERM : gpu_still_begin(&waits);

	if (rc < 0) {
		tell(false, rc);
		try_again(clock_now_ns());
		return;
	}
	rc = each(bo_hold);
	if (rc == 0) {
		enter(HELD);
		tell(true, 0);
		return;
	}
	/* All or nothing: what went comes back. */
	enter(COMES_BACK);
	come_back();
	if (!suspend_is_shut()) {
		tell(false, rc);
		try_again(clock_now_ns());
	}
}

bool suspend_is_asked(void)
{
	int64_t now_ns = clock_now_ns();

	signals_check();
	return is_wanted_now(now_ns) && now_ns >= state.s.again_ns;
}

int64_t suspend_tick(void)
{
	int64_t now_ns = clock_now_ns();
	bool is_wanted;

	signals_check();
	is_wanted = is_wanted_now(now_ns);
	if (now_ns < state.s.again_ns)
		return state.s.again_ns;
	switch (atomic_load_explicit(&state.s.state, memory_order_relaxed)) {
	case RUNS:
		if (is_wanted)
			hold();
		else if (state.s.again_ns) {
			enter(RUNS);
			tell(false, 0);
		}
		break;
	case HELD:
		if (!is_wanted) {
			enter(COMES_BACK);
			come_back();
		}
		break;
	default:
		come_back();
	}
	return state.s.again_ns ? state.s.again_ns : INT64_MAX;
}
