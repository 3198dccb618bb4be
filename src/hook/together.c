#include "hook/together.h"

#include "base/clock.h"
#include "base/process.h"
#include "core/device.h"
#include "core/quota.h"
#include "hook/collective.h"

#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

/*
 * Work that takes longer, with the gate shut, may wait for what is held; or the queue is long. So
 * every few attempts one waits twice as long as the one like it before.
 */
#define DONE_NS (50 * NSEC_PER_MSEC)
#define LONG_NS (100 * NSEC_PER_MSEC)
enum { LONG_EVERY = 4 };
/*
 * So long all have to stand still at once; then the gate is open for that. Both grow: the more
 * there are, and the longer a limit of GPU time holds them, the more it takes.
 */
#define STILL_NS (3 * NSEC_PER_MSEC)
#define OPEN_NS NSEC_PER_MSEC
enum { GROW_EVERY = 8, GROW_MOST = 4 };
#define LOOK_NS (100 * NSEC_PER_USEC)

struct together_state {
	struct ration_region *own; /* constant after together_start(), NULL: nobody is asked */
	_Atomic bool is_linked;    /* it was given such kernels; atomic */
	/* the worker's: how long the next long wait is, 0: as long as the first */
	int64_t long_ns;
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
	__atomic_store_n(&state.s.own->residency[quota_slot()].together,
			 (uint32_t)getpid() << RATION_TOGETHER_BITS | how, __ATOMIC_SEQ_CST);
}

/* What slot i says, if its owner does: an older library leaves what was there before. */
static enum ration_together said_by(unsigned i)
{
	const struct ration_region *own = state.s.own;
	uint32_t word = __atomic_load_n(&own->residency[i].together, __ATOMIC_SEQ_CST);
	uint32_t pid = __atomic_load_n(&own->slots[i].pid, __ATOMIC_RELAXED);

	if (word >> RATION_TOGETHER_BITS != pid << RATION_TOGETHER_BITS >> RATION_TOGETHER_BITS)
		return RATION_APART;
	return (enum ration_together)(word & ((1u << RATION_TOGETHER_BITS) - 1));
}

static void become_linked(void)
{
	if (!state.s.own || atomic_exchange(&state.s.is_linked, true))
		return;
	if (quota_has_region_now())
		say(RATION_LINKED);
}

void together_given_name(const char *name)
{
	if (state.s.own && !together_is_linked() && name && collective_is_name(name))
		become_linked();
}

void together_given(CUfunction function)
{
	if (state.s.own && !together_is_linked() && collective_is(function))
		become_linked();
}

/* Of the others: is any there that `is_it` holds for? */
static bool any_other(bool (*is_it)(unsigned slot))
{
	const struct ration_region *own = state.s.own;

	for (unsigned i = 0; i < HAMI_SLOTS; i++)
		if (i != quota_slot() && __atomic_load_n(&own->hint[i], __ATOMIC_RELAXED) &&
		    is_it(i))
			return true;
	return false;
}

/* It may have work that waits for ours, and may yet launch more. */
static bool is_awaited(unsigned slot)
{
	return said_by(slot) == RATION_LINKED;
}

static bool is_there(unsigned slot)
{
	return said_by(slot) != RATION_APART;
}

static bool is_left_behind(unsigned slot)
{
	const struct ration_residency *r = &state.s.own->residency[slot];

	return is_awaited(slot) && __atomic_load_n(&r->suspend_rc, __ATOMIC_RELAXED) == -EBUSY &&
	       __atomic_load_n(&r->suspend_answered, __ATOMIC_ACQUIRE) ==
		       __atomic_load_n(&state.s.own->suspend_asks, __ATOMIC_ACQUIRE);
}

static bool are_all_still(void)
{
	return !any_other(is_awaited);
}

/* As are_all_still(), seen by them too: whoever of two looks last sees what the other said. */
static bool settle_still(void)
{
	say(RATION_STILL);
	if (are_all_still())
		return true;
	say(RATION_LINKED);
	return false;
}

/* In the n-th attempt. */
static int64_t grown_ns(int64_t ns, unsigned n)
{
	unsigned times = n / GROW_EVERY;

	return ns << (times < GROW_MOST ? times : GROW_MOST);
}

/* The gate is shut, and all is done. True when it is so with the others too. */
static bool await_others(unsigned n)
{
	int64_t until_ns = clock_now_ns() + grown_ns(STILL_NS, n);

	say(RATION_STILL);
	while (!are_all_still()) {
		if (clock_now_ns() >= until_ns) {
			say(RATION_LINKED);
			return are_all_still() && settle_still();
		}
		clock_sleep_ns(LOOK_NS);
	}
	return true;
}

/* How long the work of the n-th attempt is waited for, at most `most_ns`. */
static int64_t done_ns(unsigned n, int64_t most_ns)
{
	int64_t ns = state.s.long_ns ? state.s.long_ns : LONG_NS;

	if (n % LONG_EVERY != LONG_EVERY - 1)
		return DONE_NS;
	state.s.long_ns = clock_least_ns(2 * ns, most_ns);
	return ns;
}

/* Nobody's work can wait for what this process holds, not its own either. */
static bool is_alone(void)
{
	return device_ordinals() == 1 && !any_other(is_there);
}

int together_begin(const struct gpu_still_waits *waits)
{
	int64_t until_ns = clock_now_ns() + waits->done_ns;
	struct gpu_still_waits brief = *waits;
	int rc;

	if (!together_is_linked() || !quota_has_region_now())
		return gpu_still_begin(waits);
	/* The dead are not waited for. */
	quota_reap();
	if (is_alone())
		return gpu_still_begin(waits);
	say(RATION_LINKED);
	for (unsigned n = 0;; n++) {
		brief.done_ns = done_ns(n, waits->done_ns);
		rc = gpu_still_begin(&brief);
		if (rc < 0 && rc != -EBUSY)
			break;
		if (rc == 0 && await_others(n))
			break;
		/* Others may never stand still; and work may simply be long. */
		if (clock_now_ns() >= until_ns)
			break;
		if (rc == 0)
			gpu_still_end();
		clock_sleep_ns(grown_ns(OPEN_NS, n));
		/* Nor those who were leaving then. */
		quota_reap();
	}
	if (rc == 0)
		state.s.long_ns = 0;
	return rc;
}

void together_left(void)
{
	if (together_is_linked() && quota_has_region_now())
		say(RATION_STILL);
}

void together_end(void)
{
	if (together_is_linked() && quota_has_region_now())
		say(RATION_LINKED);
}

bool together_is_missed(void)
{
	return together_is_linked() && quota_has_region_now() && any_other(is_left_behind);
}
