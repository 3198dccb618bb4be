#include "hook/together.h"

#include "base/clock.h"
#include "base/process.h"
#include "core/quota.h"
#include "hook/collective.h"

#include <errno.h>
#include <stdatomic.h>

/* Work that takes longer, with the gate shut, may wait for what is held. */
#define DONE_NS (50 * NSEC_PER_MSEC)
/* So long all have to stand still at once; then the gate is open for that. */
#define STILL_NS (3 * NSEC_PER_MSEC)
#define OPEN_NS NSEC_PER_MSEC
#define LOOK_NS (100 * NSEC_PER_USEC)

struct together_state {
	struct ration_region *own; /* constant after together_start(), NULL: nobody is asked */
	_Atomic bool is_linked;    /* it was given such kernels; atomic */
};
PROCESS_STATE(together_state, state);

void together_start(struct region *region)
{
	process_wipe_on_fork(&state, sizeof(state));
	state.s.own = region->own;
}

bool together_is_linked(void)
{
	return atomic_load_explicit(&state.s.is_linked, memory_order_relaxed);
}

/* Sequentially consistent with others' looks: see the header. */
static void say(enum ration_together how)
{
	__atomic_store_n(&state.s.own->residency[quota_slot()].together, how, __ATOMIC_SEQ_CST);
}

static void link(void)
{
	if (!state.s.own || atomic_exchange(&state.s.is_linked, true))
		return;
	if (quota_has_region(clock_now_ns()))
		say(RATION_LINKED);
}

void together_given_name(const char *name)
{
	if (state.s.own && !together_is_linked() && name && collective_is_name(name))
		link();
}

void together_given(CUfunction function)
{
	if (state.s.own && !together_is_linked() && collective_is(function))
		link();
}

/* Of the others: is any there that `is_it` holds for? */
static bool any_other(bool (*is_it)(const struct ration_residency *r))
{
	const struct ration_region *own = state.s.own;

	for (unsigned i = 0; i < HAMI_SLOTS; i++)
		if (i != quota_slot() && __atomic_load_n(&own->hint[i], __ATOMIC_RELAXED) &&
		    is_it(&own->residency[i]))
			return true;
	return false;
}

/* It may have work that waits for ours, and may yet launch more. */
static bool is_awaited(const struct ration_residency *r)
{
	return __atomic_load_n(&r->together, __ATOMIC_SEQ_CST) == RATION_LINKED;
}

static bool is_left_behind(const struct ration_residency *r)
{
	return is_awaited(r) && __atomic_load_n(&r->suspend_rc, __ATOMIC_RELAXED) == -EBUSY &&
	       __atomic_load_n(&r->suspend_answered, __ATOMIC_ACQUIRE) ==
		       __atomic_load_n(&state.s.own->suspend_asks, __ATOMIC_ACQUIRE);
}

static bool are_all_still(void)
{
	return !any_other(is_awaited);
}

/* The gate is shut, and all is done. True when it is so with the others too. */
static bool await_others(void)
{
	int64_t until_ns = clock_now_ns() + STILL_NS;

	say(RATION_STILL);
	while (!are_all_still()) {
		if (clock_now_ns() >= until_ns) {
			say(RATION_LINKED);
			if (!are_all_still())
				return false;
			say(RATION_STILL);
			return true;
		}
		clock_sleep_ns(LOOK_NS);
	}
	return true;
}

int together_begin(const struct gpu_still_waits *waits)
{
	int64_t until_ns = clock_now_ns() + waits->done_ns;
	struct gpu_still_waits brief = *waits;
	int rc;

	if (!together_is_linked() || !quota_has_region(clock_now_ns()))
		return gpu_still_begin(waits);
	/* The dead are not waited for. */
	quota_reap();
	say(RATION_LINKED);
	brief.done_ns = DONE_NS;
	for (;;) {
		rc = gpu_still_begin(&brief);
		if (rc < 0 && rc != -EBUSY)
			break;
		if (rc == 0 && await_others())
			break;
		/* Others may never stand still; and work may simply be long. */
		if (clock_now_ns() >= until_ns)
			break;
		if (rc == 0)
			gpu_still_end();
		clock_sleep_ns(OPEN_NS);
	}
	if (rc == 0)
		say(RATION_STILL);
	return rc;
}

void together_end(void)
{
	if (together_is_linked() && quota_has_region(clock_now_ns()))
		say(RATION_LINKED);
}

bool together_is_missed(void)
{
	return together_is_linked() && quota_has_region(clock_now_ns()) &&
	       any_other(is_left_behind);
}
