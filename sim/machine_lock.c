/*
 * A device's lock: a futex word in the file that names its owner's slot. Whether the owner lives is
 * asked of the kernel (its slot's byte), and the byte is held while the word is taken from a dead
 * owner, so that nobody can move into the slot meanwhile and own the word under the same name.
 */
#include "machine_file.h"

#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOCK_WAITERS (UINT32_C(1) << 31)
#define LOOK_NS (5 * NSEC_PER_MSEC)

enum {
	SPINS = 100,
	/* Looks at an owner that cannot be told dead or alive (the file was removed) until the word is
	 * taken from it: 1 s, where a lock is held for microseconds. */
	BLIND_LOOKS = 200,
};

static void futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t ns)
{
	struct timespec timeout = { .tv_sec = ns / NSEC_PER_SEC, .tv_nsec = ns % NSEC_PER_SEC };

	(void)syscall(SYS_futex, word, FUTEX_WAIT, value, &timeout, NULL, 0);
}

/* The owner died inside: each share is right, their sum may not be. */
static void repair(int i)
{
	struct machine_file *file = machine_self()->file;
	uint32_t end = machine_slots_end();
	uint64_t sum_bytes = 0;

	for (uint32_t slot = 0; slot < end; slot++)
		sum_bytes += atomic_load_explicit(&file->slot[slot].share[i].used_bytes,
						  memory_order_relaxed);
	atomic_store_explicit(&file->state[i].used_bytes, sum_bytes, memory_order_release);
}

/* Takes the word from its owner if that is dead. `looks` counts the vain ones. */
static bool take_over(_Atomic uint32_t *word, uint32_t seen, int dead_slot, int *looks)
{
	uint32_t mine = ((uint32_t)machine_self()->slot + 1) | LOCK_WAITERS;
	int owner = (int)(seen & ~LOCK_WAITERS) - 1;
	bool is_mine;
	int fd;

	if (owner == dead_slot || owner < 0 || owner >= MACHINE_PROCESSES)
		return atomic_compare_exchange_strong(word, &seen, mine);
	if (!(*looks)++)
		return false;
	fd = machine_process_take_dead(owner);
	if (fd == -EAGAIN)
		*looks = 1;
	if (fd < 0 && *looks < BLIND_LOOKS)
		return false;
	is_mine = atomic_compare_exchange_strong(word, &seen, mine);
	if (fd >= 0)
		close(fd);
	return is_mine;
}

static void lock_slowly(int i, int dead_slot)
{
	_Atomic uint32_t *word = &machine_self()->file->state[i].lock;
	uint32_t mine = (uint32_t)machine_self()->slot + 1;
	int looks = 0;

	for (;;) {
		uint32_t seen = 0;

		if (atomic_compare_exchange_strong(word, &seen, mine | LOCK_WAITERS))
			return;
		if (take_over(word, seen, dead_slot, &looks)) {
			repair(i);
			return;
		}
		if (!(seen & LOCK_WAITERS) &&
		    !atomic_compare_exchange_strong(word, &seen, seen | LOCK_WAITERS))
			continue;
		futex_wait(word, seen | LOCK_WAITERS, LOOK_NS);
	}
}

void machine_lock(int i, int dead_slot)
{
	struct machine_self *self = machine_self();
	_Atomic uint32_t *word = &self->file->state[i].lock;

	pthread_mutex_lock(&self->lock[i]);
	for (int spin = 0; spin < SPINS; spin++) {
		uint32_t seen = 0;

		if (atomic_compare_exchange_weak_explicit(word, &seen, (uint32_t)self->slot + 1,
							  memory_order_acquire,
							  memory_order_relaxed))
			return;
	}
	lock_slowly(i, dead_slot);
}

void machine_unlock(int i)
{
	struct machine_self *self = machine_self();
	_Atomic uint32_t *word = &self->file->state[i].lock;

	if (atomic_exchange_explicit(word, 0, memory_order_release) & LOCK_WAITERS)
		(void)syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
	pthread_mutex_unlock(&self->lock[i]);
}
