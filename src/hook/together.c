#include "hook/together.h"

#include "base/clock.h"
#include "base/process.h"
#include "core/device.h"
#include "core/gate.h"
#include "core/quota.h"
#include "hook/collective.h"
#include "hook/metering.h"

#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

/*
 * Work that takes longer, with the gate shut, may wait for what is held, or is long: then one may
 * pass, and the next time it is waited for twice as long. So who has launched what others have not
 * launches little more, and they come up with it.
 */
#define DONE_NS (100 * NSEC_PER_MSEC)
#define DONE_MOST_NS NSEC_PER_SEC
#define PIECE_MOST_NS (20 * NSEC_PER_MSEC)
/*
 * So long all have to stand still at once. Else who is done may be what others wait for: some may
 * pass, each time more, within so long; fewest again when it is not done. Both grow: the more there
 * are, the more it takes.
 */
#define STILL_NS (3 * NSEC_PER_MSEC)
#define LET_NS NSEC_PER_MSEC
/*
 * Where it is known how many collectives each has launched, who has fewer than one that waits goes
 * on until it has as many, and others are waited for longer.
 */
#define COUNTED_STILL_NS (50 * NSEC_PER_MSEC)
#define LEVEL_NS (20 * NSEC_PER_MSEC)
enum {
	FAR = 4096,
	GROW_EVERY = 32,
	GROW_MOST = 3,
	LETS_EVERY = 4,
	LETS_TIMES = 4,
	QUIET_MOST = 4,
	REAP_EVERY = 8,
};
#define LOOK_NS (100 * NSEC_PER_USEC)
/*
 * So long, of each time that a suspension is asked for, launches are not held for want of GPU time.
 * Then each process leaves for itself, if it can.
 */
#define MEET_NS (8 * NSEC_PER_SEC)

struct together_state {
	struct ration_region *own; /* constant after together_start(), NULL: nobody is asked */
	_Atomic bool is_linked;    /* it was given such kernels; atomic */
	_Atomic uint64_t launched[RATION_DEVICES]; /* such kernels and graphs; atomic */
	_Atomic uint64_t goal; /* as many as another has launched; the worker writes */
	/* As seen when it was looked what is wanted; the worker writes. */
	_Atomic uint32_t resumes;
	/* the worker's: for what was asked last, how long the process has tried to meet others */
	uint32_t asks;
	int64_t met_ns;
};
PROCESS_STATE(together_state, state);

/* One more than the device that the thread launches something on; 0: it never did. */
static __thread int launches_on __attribute__((tls_model("initial-exec")));

void together_start(struct region *region)
{
	process_wipe_on_fork(&state, sizeof(state));
	state.s.own = region->own;
}

bool together_is_linked(void)
{
	return atomic_load_explicit(&state.s.is_linked, memory_order_relaxed);
}

void together_launching(struct dev dev)
{
	launches_on = 1 + dev.v;
}

void together_launched(struct dev dev)
{
	if (together_is_linked())
		atomic_fetch_add_explicit(&state.s.launched[dev.v], 1, memory_order_relaxed);
}

static uint64_t launched_on(int d)
{
	return atomic_load_explicit(&state.s.launched[d], memory_order_relaxed);
}

/* On the device with most: those of one job launch as many on each. */
static uint64_t launched(void)
{
	uint64_t most = 0;

	for (int d = 0; d < RATION_DEVICES; d++)
		if (launched_on(d) > most)
			most = launched_on(d);
	return most;
}

/* Sequentially consistent with others' looks: see the header. */
static void say(enum ration_together how)
{
	struct ration_residency *r = &state.s.own->residency[quota_slot()];

	__atomic_store_n(&r->collectives, launched(), __ATOMIC_SEQ_CST);
	__atomic_store_n(&r->still_resumes,
			 atomic_load_explicit(&state.s.resumes, memory_order_relaxed),
			 __ATOMIC_SEQ_CST);
	__atomic_store_n(&r->together, (uint32_t)getpid() << RATION_TOGETHER_BITS | how,
			 __ATOMIC_SEQ_CST);
}

/*
 * What slot i says, if its owner does: an older library leaves what was there before. Who stood
 * still before all were resumed may be about to go on.
 */
static enum ration_together said_by(unsigned i)
{
	const struct ration_region *own = state.s.own;
	uint32_t word = __atomic_load_n(&own->residency[i].together, __ATOMIC_SEQ_CST);
	uint32_t pid = __atomic_load_n(&own->slots[i].pid, __ATOMIC_RELAXED), how;

	if (word >> RATION_TOGETHER_BITS != pid << RATION_TOGETHER_BITS >> RATION_TOGETHER_BITS)
		return RATION_APART;
	how = word & ((1u << RATION_TOGETHER_BITS) - 1);
	if (how == RATION_STILL &&
	    __atomic_load_n(&own->residency[i].still_resumes, __ATOMIC_SEQ_CST) !=
		    __atomic_load_n(&own->resumes, __ATOMIC_SEQ_CST))
		how = RATION_LINKED;
	return (enum ration_together)how;
}

static void become_linked(void)
{
	if (!state.s.own || atomic_exchange(&state.s.is_linked, true))
		return;
	/* Those are counted from now on. */
	gate_watch(GATE_LINKED, true);
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
	enum ration_together how = said_by(slot);

	return how == RATION_LINKED || how == RATION_WAITS;
}

static bool is_there(unsigned slot)
{
	return said_by(slot) != RATION_APART;
}

/* Its work is not done, perhaps for want of ours. */
static bool is_waiting(unsigned slot)
{
	return said_by(slot) == RATION_WAITS;
}

static bool is_left_behind(unsigned slot)
{
	const struct ration_residency *r = &state.s.own->residency[slot];
	bool has_failed = __atomic_load_n(&r->suspend_rc, __ATOMIC_RELAXED) == -EBUSY;

	return (is_waiting(slot) || (is_awaited(slot) && has_failed)) &&
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

/* What one has launched whose work is not done, 0 of others. */
static uint64_t launched_by(unsigned slot)
{
	return is_waiting(slot) ? __atomic_load_n(&state.s.own->residency[slot].collectives,
						  __ATOMIC_SEQ_CST) :
				  0;
}

/*
 * Looks at the others whose work is not done: a sum of which, and the goal, as many as one of them
 * has launched more than this process. What is far from that is another job's.
 */
static uint64_t look_at_others(void)
{
	const struct ration_region *own = state.s.own;
	uint64_t sum = 0, have = launched(), goal = have;

	for (unsigned i = 0; i < HAMI_SLOTS; i++) {
		uint64_t theirs;

		if (i == quota_slot() || !__atomic_load_n(&own->hint[i], __ATOMIC_RELAXED))
			continue;
		theirs = launched_by(i);
		sum = sum * 31 + is_waiting(i) + theirs;
		if (theirs > have && theirs - have < FAR && theirs > goal)
			goal = theirs;
	}
	atomic_store_explicit(&state.s.goal, goal, memory_order_relaxed);
	return sum;
}

/*
 * True when what others have launched, or this process elsewhere, it has launched on the device
 * too, as far as that is known: where nothing of the kind was launched nothing is to come.
 */
static bool is_level_on(int d)
{
	uint64_t have = launched_on(d);

	return have == 0 || have >= atomic_load_explicit(&state.s.goal, memory_order_relaxed);
}

/* Of the device that the calling thread launches something on; of one that does not, of all. */
static bool is_level(void)
{
	if (launches_on)
		return is_level_on(launches_on - 1);
	for (int d = 0; d < RATION_DEVICES; d++)
		if (!is_level_on(d))
			return false;
	return true;
}

/*
 * The gate is shut, and all is done. True when it is so with the others too; false when some wait
 * for this process, or nothing has come of what they have for a while.
 */
static bool await_others(unsigned n)
{
	int64_t still_ns = grown_ns(launched() ? COUNTED_STILL_NS : STILL_NS, n);
	int64_t now_ns = clock_now_ns(), quiet_ns = now_ns;
	int64_t until_ns = now_ns + QUIET_MOST * still_ns;
	uint64_t seen, now_seen;

	say(RATION_STILL);
	seen = look_at_others();
	while (!are_all_still()) {
		now_ns = clock_now_ns();
		now_seen = look_at_others();
		if (now_seen != seen)
			quiet_ns = now_ns;
		seen = now_seen;
		if (!is_level() || now_ns >= until_ns || now_ns - quiet_ns >= still_ns) {
			say(RATION_LINKED);
			return are_all_still() && settle_still();
		}
		clock_sleep_ns(LOOK_NS);
	}
	return true;
}

/* Nobody's work can wait for what this process holds, not its own either. */
static bool is_alone(void)
{
	return device_ordinals() == 1 && !any_other(is_there);
}

/* The worker's, while its process meets the others. */
struct meeting {
	int64_t until_ns;
	int64_t done_ns; /* how long its work is waited for */
	unsigned n;      /* attempts */
	unsigned dones;  /* of them, how many one after another found the work done */
	bool is_shut;    /* its gate */
	bool is_done;    /* likewise, and its work */
};

/*
 * The gate is shut: until its work is done. In pieces, since a thread may have been about to count
 * what it launched, and others may launch more. 0 or why not.
 */
static int wait_for_own(struct meeting *m)
{
	int64_t until_ns = clock_now_ns() + m->done_ns, piece_ns = STILL_NS;
	struct gpu_still_waits waits;
	int rc;

	do {
		say(RATION_WAITS);
		look_at_others();
		waits = (struct gpu_still_waits){ .shut_ns = piece_ns, .done_ns = piece_ns };
		rc = gpu_still_wait(&waits);
		piece_ns = clock_least_ns(2 * piece_ns, PIECE_MOST_NS);
	} while (rc == -EBUSY && is_level() && clock_now_ns() < until_ns);
	return rc;
}

/* The gate is shut, and the work may be done. 0: so it is, and the others'; -EBUSY: not yet. */
static int wait_shut(struct meeting *m)
{
	int rc = wait_for_own(m);

	m->is_done = rc == 0;
	if (m->is_done) {
		m->dones++;
		return await_others(m->n) ? 0 : -EBUSY;
	}
	/* What is behind others waits for them no longer. */
	if (is_level())
		m->done_ns = clock_least_ns(2 * m->done_ns, DONE_MOST_NS);
	m->dones = 0;
	return rc;
}

/* Some may pass: until this process has launched what others have, or a few. */
static void let_some(const struct meeting *m)
{
	unsigned times = m->dones / LETS_EVERY;

	say(RATION_LINKED);
	if (!is_level())
		gpu_still_let(UINT32_MAX, is_level, LEVEL_NS);
	else
		gpu_still_let(1u << (times < LETS_TIMES ? times : LETS_TIMES), NULL,
			      grown_ns(LET_NS, m->n));
}

static int attempt(struct meeting *m)
{
	struct gpu_still_waits waits = { .shut_ns = m->done_ns };
	int rc;

	if (m->is_shut)
		let_some(m);
	rc = m->is_shut ? 0 : gpu_still_shut(&waits);
	m->is_shut = rc == 0;
	if (rc == 0)
		rc = wait_shut(m);
	else if (rc == -EBUSY)
		clock_sleep_ns(grown_ns(LET_NS, m->n));
	/* Nor those who were leaving when it began. */
	if (++m->n % REAP_EVERY == 0)
		quota_reap();
	return rc;
}

/* 0, or why not; -EBUSY with m->is_done: of the others some do not stand still. */
static int meet(struct meeting *m, const struct gpu_still_waits *waits)
{
	int rc;

	do
		rc = attempt(m);
	while (rc == -EBUSY && clock_now_ns() < m->until_ns && !waits->is_over(waits->arg));
	return rc == -EBUSY && waits->is_over(waits->arg) ? -ECANCELED : rc;
}

/* Who asks once more has all tried once more. */
static void look_for_asks(void)
{
	uint32_t asks = __atomic_load_n(&state.s.own->suspend_asks, __ATOMIC_RELAXED);

	if (asks != state.s.asks)
		state.s.met_ns = 0;
	state.s.asks = asks;
}

/* Others of the tenant may wait for this process's work, or it for itself. */
static int begin(const struct gpu_still_waits *waits)
{
	int64_t begin_ns = clock_now_ns(), left_ns = MEET_NS - state.s.met_ns;
	struct meeting m = { .done_ns = DONE_NS };
	int rc;

	m.until_ns = begin_ns + (left_ns > 0 ? left_ns : waits->done_ns);
	say(RATION_LINKED);
	metering_await(left_ns > 0);
	rc = meet(&m, waits);
	metering_await(false);
	state.s.met_ns += clock_now_ns() - begin_ns;
	/* What they have may have no end. */
	if (rc == -EBUSY && m.is_done && state.s.met_ns >= MEET_NS)
		return 0;
	if (rc < 0 && m.is_shut)
		gpu_still_open();
	return rc;
}

int together_begin(const struct gpu_still_waits *waits)
{
	if (!together_is_linked() || !quota_has_region_now())
		return gpu_still_begin(waits);
	/* The dead are not waited for. */
	quota_reap();
	if (is_alone())
		return gpu_still_begin(waits);
	look_for_asks();
	return begin(waits);
}

void together_seen(uint32_t resumes)
{
	atomic_store_explicit(&state.s.resumes, resumes, memory_order_relaxed);
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
