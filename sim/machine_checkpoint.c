/*
 * Processes that are taken off their devices from outside: locked, so that their calls wait; then
 * what they hold is set aside in their slot and the devices have it no longer; and back again.
 *
 * The word `checkpoint` changes first, by one compare-and-swap, and what is set aside under each
 * device's lock after it: who dies half-way leaves bytes in the one place or the other.
 */
#include "machine_export.h"
#include "machine_file.h"

#include "base/clock.h"
#include "base/sys.h"

#include <errno.h>
#include <unistd.h>

#define LOOK_NS (20 * NSEC_PER_MSEC)
#define NAP_NS (200 * NSEC_PER_USEC)
/* How long work that was begun before the lock may take. */
#define WORK_WAIT_NS (10 * NSEC_PER_SEC)
#define ALL_BITS (~0u)

static struct machine_slot *own(void)
{
	struct machine_self *self = machine_self();

	return &self->file->slot[self->slot];
}

void machine_checkpoint_serve(void)
{
	atomic_store(&own()->checkpoint, MACHINE_RUNS);
}

void machine_call_begin(void)
{
	struct machine_slot *slot = own();
	uint32_t seen;

	for (;;) {
		/* Before the look: who locks looks for calls after. */
		atomic_fetch_add(&slot->calls, 1);
		seen = atomic_load(&slot->checkpoint);
		if (seen <= MACHINE_RUNS)
			return;
		atomic_fetch_sub(&slot->calls, 1);
		(void)sys_futex_wait_shared(&slot->checkpoint, seen, LOOK_NS, ALL_BITS);
	}
}

void machine_call_end(void)
{
	atomic_fetch_sub(&own()->calls, 1);
}

void machine_host_handle(bool is_made)
{
	if (is_made)
		atomic_fetch_add(&own()->host_handles, 1);
	else
		atomic_fetch_sub(&own()->host_handles, 1);
}

/* Its slot, or -1. A process has others for the libraries in it that are no driver. */
static int find(uint32_t pid)
{
	const struct machine_self *self = machine_self();
	uint32_t end;

	machine_process_reap();
	end = machine_slots_end();
	for (uint32_t i = 0; i < end; i++) {
		const struct machine_slot *slot = &self->file->slot[i];

		if (atomic_load(&slot->pid) == pid &&
		    atomic_load(&slot->pid_namespace) == self->pid_namespace &&
		    atomic_load(&slot->checkpoint) != MACHINE_NO_DRIVER)
			return (int)i;
	}
	return -1;
}

static struct machine_slot *slot_of(int i)
{
	return &machine_self()->file->slot[i];
}

static bool step(int i, enum machine_checkpoint from, enum machine_checkpoint to)
{
	uint32_t expected = from;

	if (!atomic_compare_exchange_strong(&slot_of(i)->checkpoint, &expected, to))
		return false;
	sys_futex_wake_shared(&slot_of(i)->checkpoint, ALL_BITS);
	return true;
}

int machine_checkpoint_state(uint32_t pid, enum machine_checkpoint *out_state)
{
	int i = find(pid);

	if (i < 0)
		return -ESRCH;
	*out_state = (enum machine_checkpoint)atomic_load(&slot_of(i)->checkpoint);
	return 0;
}

int machine_checkpoint_lock(uint32_t pid, int64_t wait_ns)
{
	int64_t begin_ns = clock_now_ns();
	int i = find(pid);

	if (i < 0)
		return -ESRCH;
	if (!step(i, MACHINE_RUNS, MACHINE_LOCKED))
		return -EINVAL;
	while (atomic_load(&slot_of(i)->calls)) {
		if (clock_now_ns() - begin_ns >= wait_ns) {
			step(i, MACHINE_LOCKED, MACHINE_RUNS);
			return -EBUSY;
		}
		if (find(pid) != i)
			return -ESRCH;
		clock_sleep_ns(NAP_NS);
	}
	return 0;
}

/* Whether work of the slot executes on device d or stands in line for it. */
static bool works_on(int i, int d)
{
	const struct machine_turn *turn = &machine_self()->file->state[d].turn;
	bool does;

	machine_lock(d, -1);
	does = atomic_load(&slot_of(i)->share[d].ticket) ||
	       (atomic_load(&turn->holder) == (uint32_t)i + 1 &&
		!atomic_load(&turn->idle_since_ns));
	machine_unlock(d);
	return does;
}

static bool works(int i)
{
	for (int d = 0; d < machine_count(); d++)
		if (works_on(i, d))
			return true;
	return false;
}

static void set_aside(int i, int d)
{
	struct machine_share *share = &slot_of(i)->share[d];
	uint64_t bytes, managed_bytes;

	machine_lock(d, -1);
	bytes = atomic_load(&share->used_bytes);
	managed_bytes = atomic_load(&share->managed_bytes);
	atomic_fetch_add(&share->away_bytes, bytes);
	atomic_fetch_add(&share->away_managed_bytes, managed_bytes);
	atomic_store(&share->used_bytes, 0);
	atomic_store(&share->managed_bytes, 0);
	atomic_fetch_sub(&machine_self()->file->state[d].used_bytes, bytes);
	machine_unlock(d);
}

int machine_checkpoint_take(uint32_t pid)
{
	int64_t until_ns = clock_now_ns() + WORK_WAIT_NS;
	int i = find(pid);

	if (i < 0)
		return -ESRCH;
	if (atomic_load(&slot_of(i)->checkpoint) != MACHINE_LOCKED)
		return -EINVAL;
	while (works(i)) {
		if (clock_now_ns() >= until_ns)
			return -EBUSY;
		clock_sleep_ns(NAP_NS);
	}
	if (!step(i, MACHINE_LOCKED, MACHINE_CHECKPOINTED))
		return -EINVAL;
	for (int d = 0; d < machine_count(); d++)
		set_aside(i, d);
	atomic_fetch_or(&slot_of(i)->away_contexts, atomic_exchange(&slot_of(i)->contexts, 0));
	return 0;
}

/* What was set aside of device d is there again: 0 or -ENOMEM. */
static int bring_back(int i, int d)
{
	struct machine_state *state = &machine_self()->file->state[d];
	struct machine_share *share = &slot_of(i)->share[d];
	const uint64_t size_bytes = machine_device(d)->memory_bytes;
	uint64_t bytes, used_bytes, kept_bytes;
	int rc = -ENOMEM;

	machine_lock(d, -1);
	bytes = atomic_load(&share->away_bytes);
	used_bytes = atomic_load(&state->used_bytes);
	kept_bytes = machine_export_kept(d);
	if (used_bytes + kept_bytes <= size_bytes &&
	    bytes <= size_bytes - used_bytes - kept_bytes) {
		atomic_fetch_add(&share->used_bytes, bytes);
		atomic_fetch_add(&share->managed_bytes,
				 atomic_exchange(&share->away_managed_bytes, 0));
		atomic_store(&share->away_bytes, 0);
		atomic_store(&state->used_bytes, used_bytes + bytes);
		rc = 0;
	}
	machine_unlock(d);
	return rc;
}

int machine_checkpoint_restore(uint32_t pid)
{
	int i = find(pid), rc = 0, d;

	if (i < 0)
		return -ESRCH;
	if (atomic_load(&slot_of(i)->checkpoint) != MACHINE_CHECKPOINTED)
		return -EINVAL;
	if (atomic_load(&slot_of(i)->host_handles))
		return step(i, MACHINE_CHECKPOINTED, MACHINE_LOST) ? -EIO : -EINVAL;
	for (d = 0; d < machine_count() && rc == 0; d++)
		rc = bring_back(i, d);
	if (rc < 0) {
		while (d-- > 0)
			set_aside(i, d);
		return rc;
	}
	atomic_fetch_or(&slot_of(i)->contexts, atomic_exchange(&slot_of(i)->away_contexts, 0));
	return step(i, MACHINE_CHECKPOINTED, MACHINE_LOCKED) ? 0 : -EINVAL;
}

int machine_checkpoint_unlock(uint32_t pid)
{
	int i = find(pid);

	if (i < 0)
		return -ESRCH;
	return step(i, MACHINE_LOCKED, MACHINE_RUNS) ? 0 : -EINVAL;
}
