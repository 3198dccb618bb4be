/*
 * Turns on a device. One process at a time is its holder; the others stand in line with tickets.
 * The holder keeps the turn for a slice. It loses it before that when it has been idle for a
 * moment, and at the end of the slice when its running kernel asks (machine_turn_expired). A holder
 * that is dead, or that does not ask long after its slice (it is stopped, say), is passed over, as a
 * GPU goes on without a stopped process.
 */
#include "machine_file.h"

#include "base/clock.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLICE_NS ((uint64_t)(2 * NSEC_PER_MSEC))
/* How long a holder with nothing to do keeps its turn: between two queued kernels it has to. */
#define IDLE_NS ((uint64_t)(50 * NSEC_PER_USEC))
#define OVERRUN_NS ((uint64_t)(250 * NSEC_PER_MSEC))
/* Waiters look this often whether the holder lives. */
#define LOOK_NS ((uint64_t)(5 * NSEC_PER_MSEC))

static uint64_t now_ns(void)
{
	return (uint64_t)clock_now_ns();
}

static struct machine_turn *turn_of(int i)
{
	return &machine_self()->file->state[i].turn;
}

static struct machine_share *share_of(uint32_t slot, int i)
{
	return &machine_self()->file->slot[slot].share[i];
}

/* The functions below: device i's lock is held. Its order makes relaxed accesses enough, but for
 * what machine_turn_expired() reads without it. */

static uint64_t get(_Atomic uint64_t *field)
{
	return atomic_load_explicit(field, memory_order_relaxed);
}

static void set(_Atomic uint64_t *field, uint64_t value)
{
	atomic_store_explicit(field, value, memory_order_relaxed);
}

static uint32_t holder_of(int i)
{
	return atomic_load_explicit(&turn_of(i)->holder, memory_order_relaxed);
}

static void wake(int i)
{
	struct machine_turn *turn = turn_of(i);

	atomic_store_explicit(&turn->is_sleeping, 0, memory_order_relaxed);
	atomic_fetch_add_explicit(&turn->seq, 1, memory_order_release);
	(void)syscall(SYS_futex, &turn->seq, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Slot + 1 of the first in line and how many there are; 0 if there is nobody. */
static uint32_t first_in_line(int i, uint32_t *out_count)
{
	uint32_t end = machine_slots_end();
	uint64_t first = UINT64_MAX;
	uint32_t found = 0;

	*out_count = 0;
	for (uint32_t slot = 0; slot < end; slot++) {
		uint64_t ticket = get(&share_of(slot, i)->ticket);

		if (!ticket)
			continue;
		(*out_count)++;
		if (ticket < first) {
			first = ticket;
			found = slot + 1;
		}
	}
	return found;
}

/* Hands the turn to the first in line; with nobody there, the device is free. */
static void pass(int i)
{
	struct machine_turn *turn = turn_of(i);
	uint32_t waiters;
	uint32_t next = first_in_line(i, &waiters);

	if (next)
		set(&share_of(next - 1, i)->ticket, 0);
	atomic_store_explicit(&turn->holder, next, memory_order_relaxed);
	atomic_store_explicit(&turn->has_waiters, waiters > 1, memory_order_relaxed);
	set(&turn->slice_start_ns, now_ns());
	set(&turn->idle_since_ns, 0);
	if (next)
		wake(i);
}

static bool has_waiters(int i)
{
	return atomic_load_explicit(&turn_of(i)->has_waiters, memory_order_relaxed);
}

static bool is_slice_over(int i, uint64_t now)
{
	return now - get(&turn_of(i)->slice_start_ns) >= SLICE_NS;
}

/* Passes the turn on if it is time. */
static void settle(int i, uint64_t now)
{
	struct machine_turn *turn = turn_of(i);
	uint64_t idle_since = get(&turn->idle_since_ns);

	if (!holder_of(i)) {
		pass(i);
		return;
	}
	if (!has_waiters(i))
		return;
	if (idle_since ? now - idle_since >= IDLE_NS || is_slice_over(i, now) :
			 now - get(&turn->slice_start_ns) >= SLICE_NS + OVERRUN_NS)
		pass(i);
}

void machine_turn_forget(int i, int slot)
{
	uint32_t waiters;

	set(&share_of((uint32_t)slot, i)->ticket, 0);
	if (holder_of(i) == (uint32_t)slot + 1) {
		pass(i);
		return;
	}
	first_in_line(i, &waiters);
	atomic_store_explicit(&turn_of(i)->has_waiters, waiters > 0, memory_order_relaxed);
}

static void stand_in_line(int i)
{
	struct machine_turn *turn = turn_of(i);
	struct machine_share *own = share_of((uint32_t)machine_self()->slot, i);

	if (get(&own->ticket))
		return;
	set(&turn->last_ticket, get(&turn->last_ticket) + 1);
	set(&own->ticket, get(&turn->last_ticket));
	if (holder_of(i) != (uint32_t)machine_self()->slot + 1)
		atomic_store_explicit(&turn->has_waiters, 1, memory_order_relaxed);
}

/* True if a thread of this process may execute now. Its own slice being over, it may only while
 * nobody waits: else its threads could relieve each other for ever. */
static bool may_execute(int i, uint64_t now)
{
	return holder_of(i) == (uint32_t)machine_self()->slot + 1 &&
	       !(has_waiters(i) && is_slice_over(i, now));
}

/* How long to sleep before looking again. */
static uint64_t nap_ns(int i)
{
	struct machine_turn *turn = turn_of(i);
	uint32_t waiters;

	if (first_in_line(i, &waiters) != (uint32_t)machine_self()->slot + 1)
		return LOOK_NS;
	if (get(&turn->idle_since_ns))
		return IDLE_NS;
	atomic_store_explicit(&turn->is_sleeping, 1, memory_order_relaxed);
	return LOOK_NS;
}

/* Gives the lock up while sleeping. Where nothing happened for long, somebody may be dead. */
static void sleep_unlocked(int i)
{
	struct machine_turn *turn = turn_of(i);
	uint32_t seq = atomic_load_explicit(&turn->seq, memory_order_relaxed);
	uint64_t ns = nap_ns(i);
	struct timespec timeout = { .tv_nsec = (long)ns };
	bool is_stale;

	machine_unlock(i);
	is_stale = syscall(SYS_futex, &turn->seq, FUTEX_WAIT, seq, &timeout, NULL, 0) != 0 &&
		   ns == LOOK_NS && atomic_load_explicit(&turn->seq, memory_order_relaxed) == seq;
	if (is_stale)
		machine_process_reap();
	machine_lock(i, -1);
}

void machine_turn_begin(int i)
{
	struct machine_self *self = machine_self();

	if (i < 0 || i >= machine_count())
		return;
	machine_lock(i, -1);
	for (;;) {
		uint64_t now = now_ns();

		if (may_execute(i, now))
			break;
		stand_in_line(i);
		settle(i, now);
		if (may_execute(i, now_ns()))
			break;
		sleep_unlocked(i);
	}
	self->executing[i]++;
	set(&turn_of(i)->idle_since_ns, 0);
	machine_unlock(i);
}

void machine_turn_end(int i)
{
	struct machine_self *self = machine_self();
	struct machine_turn *turn;
	uint64_t now;

	if (i < 0 || i >= machine_count())
		return;
	turn = turn_of(i);
	machine_lock(i, -1);
	if (self->executing[i])
		self->executing[i]--;
	if (!self->executing[i] && holder_of(i) == (uint32_t)self->slot + 1) {
		now = now_ns();
		set(&turn->idle_since_ns, now);
		settle(i, now);
		if (holder_of(i) == (uint32_t)self->slot + 1 &&
		    atomic_load_explicit(&turn->is_sleeping, memory_order_relaxed))
			wake(i);
	}
	machine_unlock(i);
}

bool machine_turn_expired(int i)
{
	struct machine_turn *turn;
	uint64_t start_ns;

	if (i < 0 || i >= machine_count())
		return false;
	turn = turn_of(i);
	if (atomic_load_explicit(&turn->holder, memory_order_relaxed) !=
	    (uint32_t)machine_self()->slot + 1)
		return true;
	start_ns = atomic_load_explicit(&turn->slice_start_ns, memory_order_relaxed);
	return atomic_load_explicit(&turn->has_waiters, memory_order_relaxed) &&
	       now_ns() - start_ns >= SLICE_NS;
}
