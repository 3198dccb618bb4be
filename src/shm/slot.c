#include "shm/slot.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/process.h"
#include "base/sys.h"
#include "shm/account.h"
#include "shm/doubted.h"
#include "shm/heir.h"
#include "shm/kept.h"
#include "shm/leaver.h"
#include "shm/lock.h"
#include "shm/occupant.h"
#include "shm/pace_slot.h"
#include "shm/residency.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HIGH_FD = 800, REAP_AT_ATTACH_MAX = 32 };

/* How long who finds all slots taken waits for owners who go: a little more than they may take. */
#define FULL_WAIT_NS (LEAVER_GONE_NS + 200 * NSEC_PER_MSEC)

/* How long a slot of our own that was lost may be another's: one reaps it. */
#define RETAKE_WAIT_NS (10 * NSEC_PER_MSEC)

/* Threads of this process reap in turn; between processes RATION_LOCK_REAP orders them. */
struct slot_reaping {
	pthread_mutex_t mutex;
};
PROCESS_STATE(slot_reaping, reaping);

static void hint_set(struct region *r, unsigned index, uint8_t value)
{
	__atomic_store_n(&r->own->hint[index], value, __ATOMIC_RELAXED);
}

/* Programs that close what they do not know begin at 3. Keeps `fd` where no room is higher up. */
static int fd_out_of_the_way(int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);

	if (high < 0)
		return fd;
	close(fd);
	return high;
}

/*
 * Hands the lock on byte `at` over from descriptor `fd` to a mapping of its description and closes
 * it, if such a mapping holds a lock here; the region's own descriptor (the creation lock is held)
 * looks from outside.
 */
static int keep_lock(struct region *r, int fd, int64_t at, struct slot *out)
{
	long page_bytes = sysconf(_SC_PAGESIZE);
	void *keep = mmap(NULL, (size_t)page_bytes, PROT_READ, MAP_SHARED, fd, 0);
	int rc;

	out->keep = NULL;
	out->fd = -1;
	if (keep == MAP_FAILED)
		goto keep_fd;
	if (madvise(keep, (size_t)page_bytes, MADV_DONTFORK) < 0) {
		munmap(keep, (size_t)page_bytes);
		goto keep_fd;
	}
	close(fd);
	rc = lock_held(r->fd, at, 1, NULL);
	if (rc == 1) {
		out->keep = keep;
		return 0;
	}
	munmap(keep, (size_t)page_bytes);
	fd = region_reopen(r);
	if (fd < 0)
		return fd;
	/*
	 * Only who looks whether it lives can have it, for a moment: the right to take it is ours.
	 */
	rc = lock_wait(fd, at, 1, NSEC_PER_SEC);
	if (rc < 0) {
		close(fd);
		return rc;
	}
keep_fd:
	out->fd = fd_out_of_the_way(fd);
	return 0;
}

/* Takes all that slot `index` holds off the accounts but so much of each device. */
static void give_back_but(struct region *r, unsigned index, const uint64_t *keep_bytes)
{
	struct account_holder h;

	for (int d = 0; d < region_device_count(r->own); d++) {
		account_settle(&h, r->own, index, d);
		account_sub(&h, bytes_beyond(h.bytes, keep_bytes[d]));
		__atomic_store_n(&r->own->slots[index].used_bytes[d], h.bytes, __ATOMIC_RELAXED);
		pace_slot_clear(&r->own->pace[d], index);
	}
	doubted_clear(r->own, index);
	kept_clear(r->own, index);
	residency_clear(r->own, index);
}

/* All of it. The caller has its RATION_LOCK_REAP. */
static void give_back(struct region *r, unsigned index)
{
	static const uint64_t nothing[RATION_DEVICES];

	give_back_but(r, index, nothing);
	heir_clear(r->own, index);
}

/* A freed slot shows zeros: some monitors add up all 1024 whatever their status. */
static void clear_hami(struct hami_slot *s)
{
	__atomic_store_n(&s->status, HAMI_FREE, __ATOMIC_RELEASE);
	__atomic_store_n(&s->pid, 0, __ATOMIC_RELAXED);
	s->hostpid = 0;
	for (int d = 0; d < HAMI_DEVICES; d++) {
		/* The parts first: total >= context + module + data at every instant. */
		__atomic_store_n(&s->used[d].context_bytes, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&s->used[d].module_bytes, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&s->used[d].data_bytes, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&s->used[d].offset_bytes, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&s->used[d].total_bytes, 0, __ATOMIC_RELEASE);
		s->monitorused_bytes[d] = 0;
		s->util[d].dec_pct = 0;
		s->util[d].enc_pct = 0;
		__atomic_store_n(&s->util[d].sm_pct, 0, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&s->seqlock, 0, __ATOMIC_RELEASE);
}

/*
 * What is left of a dead owner's shows as data of his. It is looked for again and again: monitors
 * see no zeros between.
 */
static void show_rest(struct region *r, unsigned index)
{
	struct hami_slot *s = &r->hami->procs[index];

	for (int d = 0; d < HAMI_DEVICES; d++) {
		uint64_t bytes = __atomic_load_n(&r->own->slots[index].used_bytes[d],
						 __ATOMIC_RELAXED);

		__atomic_store_n(&s->used[d].context_bytes, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&s->used[d].module_bytes, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&s->used[d].data_bytes, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&s->used[d].total_bytes, bytes, __ATOMIC_RELEASE);
		__atomic_store_n(&s->used[d].data_bytes, bytes, __ATOMIC_RELEASE);
		__atomic_store_n(&s->util[d].sm_pct, 0, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&s->pid, (int32_t)r->own->slots[index].pid, __ATOMIC_RELAXED);
	__atomic_store_n(&s->status, HAMI_RUNNING, __ATOMIC_RELEASE);
}

/*
 * True when nobody has the slot any more, nor anything of it. The caller has the right to reap it.
 * What only descriptors hold stays in it, alone.
 */
static bool is_over(struct region *r, unsigned index, enum occupant_byte byte)
{
	uint64_t keep_bytes[RATION_DEVICES], any_bytes = 0;

	if (!leaver_is_gone(r->own, index, byte, keep_bytes))
		return false;
	for (int d = 0; d < RATION_DEVICES; d++)
		any_bytes |= keep_bytes[d];
	if (!any_bytes)
		return true;
	give_back_but(r, index, keep_bytes);
	show_rest(r, index);
	return false;
}

/* Makes proc_num cover slot `index`; a value that monitors would fall over covers all of them. */
static void raise_bound(struct hami_region *h, unsigned index)
{
	int32_t want, bound = __atomic_load_n(&h->proc_num, __ATOMIC_RELAXED);

	do {
		want = bound < 0 || bound > HAMI_SLOTS ? HAMI_SLOTS : (int32_t)index + 1;
		if (bound >= want && bound <= HAMI_SLOTS)
			return;
	} while (!__atomic_compare_exchange_n(&h->proc_num, &bound, want, true, __ATOMIC_RELEASE,
					      __ATOMIC_RELAXED));
}

bool slot_is_had(const struct ration_slot *s, bool is_held)
{
	if (is_held)
		return occupant_look(s, OCCUPANT_BYTE_HELD) != OCCUPANT_DEAD;
	switch (occupant_look(s, OCCUPANT_BYTE_FREE)) {
	case OCCUPANT_ALIVE:
	case OCCUPANT_LEAVING:
		return true;
	default:
		return false;
	}
}

enum occupant_life slot_look_free(const struct ration_region *own)
{
	enum occupant_life most = OCCUPANT_DEAD, life;
	uint64_t keep_bytes[RATION_DEVICES];

	for (int i = 0; i < HAMI_SLOTS && most != OCCUPANT_ALIVE; i++) {
		if (!__atomic_load_n(&own->hint[i], __ATOMIC_RELAXED))
			continue;
		life = occupant_look(&own->slots[i], OCCUPANT_BYTE_FREE);
		/* Who starts anew would have what the card has not, or perhaps not. */
		if (life >= OCCUPANT_FADING && heir_keeps(own, (unsigned)i, keep_bytes) != 0)
			life = OCCUPANT_ALIVE;
		most = life < most ? life : most;
	}
	return most;
}

static void fill(struct region *r, const struct slot *slot)
{
	struct hami_slot *h = &r->hami->procs[slot->index];

	/* First what leads a reaper here: from now on we may be killed. */
	hint_set(r, slot->index, 1);
	raise_bound(r->hami, slot->index);
	occupant_show(&slot->occupant, &r->own->slots[slot->index]);
	__atomic_store_n(&h->pid, (int32_t)slot->occupant.pid, __ATOMIC_RELAXED);
	__atomic_store_n(&h->status, HAMI_RUNNING, __ATOMIC_RELEASE);
}

/*
 * Takes the byte of slot i on `fd`, and on the region's own descriptor (the creation lock is held)
 * the right to take it. 0 or -EAGAIN; *out_leaves becomes true where its owner only has to go.
 */
static int try_byte(struct region *r, int fd, int i, bool *out_leaves)
{
	int rc = lock_try(r->fd, RATION_LOCK_REAP + i, 1);

	if (rc < 0)
		return rc;
	rc = lock_try(fd, RATION_LOCK_SLOT + i, 1);
	if (rc == 0 && !is_over(r, (unsigned)i, OCCUPANT_BYTE_FREE)) {
		lock_drop(fd, RATION_LOCK_SLOT + i, 1);
		*out_leaves = true;
		rc = -EAGAIN;
	}
	if (rc < 0)
		lock_drop(r->fd, RATION_LOCK_REAP + i, 1);
	return rc;
}

/* The first slot that can be had; those that look free first. */
static int take_byte(struct region *r, int fd, bool *out_leaves)
{
	for (int pass = 0; pass < 2; pass++) {
		for (int i = 0; i < HAMI_SLOTS; i++) {
			bool taken = __atomic_load_n(&r->own->hint[i], __ATOMIC_RELAXED);
			int rc;

			/* Those that were reaped since the first pass look free by now. */
			if (taken && pass == 0)
				continue;
			rc = try_byte(r, fd, i, out_leaves);
			if (rc != -EAGAIN)
				return rc < 0 ? rc : i;
		}
	}
	return -EUSERS;
}

/* As that, when all are taken after a wait for those that are about to be free. */
static int await_byte(struct region *r, int fd)
{
	int64_t start_ns = clock_now_ns(), waited_ns;
	bool leaves = false;
	int rc;

	while ((rc = take_byte(r, fd, &leaves)) == -EUSERS && leaves) {
		waited_ns = clock_now_ns() - start_ns;
		if (waited_ns >= FULL_WAIT_NS)
			break;
		clock_sleep_ns(clock_nap_ns(waited_ns));
		leaves = false;
	}
	return rc;
}

/* True when few slots are taken: looking at each then costs less than leaving the dead in view. */
static bool is_few(const struct ration_region *own)
{
	unsigned taken = 0;

	for (int i = 0; i < HAMI_SLOTS; i++)
		taken += __atomic_load_n(&own->hint[i], __ATOMIC_RELAXED) != 0;
	return taken <= REAP_AT_ATTACH_MAX;
}

int slot_claim(struct region *r, struct slot *out)
{
	int fd = region_reopen(r), index, rc;

	if (fd < 0)
		return fd;
	index = await_byte(r, fd);
	if (index < 0) {
		close(fd);
		return index;
	}
	rc = keep_lock(r, fd, RATION_LOCK_SLOT + index, out);
	if (rc == 0) {
		out->index = (unsigned)index;
		give_back(r, out->index);
		clear_hami(&r->hami->procs[index]);
		occupant_begin(&out->occupant, out->fd >= 0);
		fill(r, out);
	}
	lock_drop(r->fd, RATION_LOCK_REAP + index, 1);
	if (rc == 0 && is_few(r->own))
		slot_reap(r, index);
	return rc;
}

/* Whether what we entered stands in our slot: nobody has reaped it. */
static bool is_entered(const struct region *r, const struct slot *slot)
{
	return occupant_is(&slot->occupant, &r->own->slots[slot->index]);
}

/* Enters us again in our slot, whose byte is ours: what stood there was given back. */
static void enter_again(struct region *r, struct slot *slot)
{
	give_back(r, slot->index);
	clear_hami(&r->hami->procs[slot->index]);
	fill(r, slot);
}

/*
 * Takes our slot's byte again, which was lost with its descriptor; the caller has its
 * RATION_LOCK_REAP.
 */
static int claim_again(struct region *r, struct slot *slot)
{
	bool is_ours = is_entered(r, slot);
	int fd = region_reopen(r), rc;

	if (fd < 0)
		return is_ours ? 0 : -EAGAIN;
	/* A child of ours may have it, with the descriptor that we lost: it is as good as we. */
	rc = lock_wait(fd, RATION_LOCK_SLOT + slot->index, 1, is_ours ? 0 : RETAKE_WAIT_NS);
	if (rc < 0) {
		close(fd);
		if (is_ours)
			return 0;
		return r->own->slots[slot->index].pid ? -ESTALE : -EAGAIN;
	}
	/* Another had it meanwhile, who goes. */
	if (!is_ours && !is_over(r, slot->index, OCCUPANT_BYTE_FREE)) {
		close(fd);
		return -EAGAIN;
	}
	slot->fd = fd_out_of_the_way(fd);
	if (!is_ours)
		enter_again(r, slot);
	return 1;
}

/* The descriptor that held our slot is gone. */
static int retake(struct region *r, struct slot *slot)
{
	bool is_kept = slot->occupant.line.number && is_entered(r, slot);
	int guard = region_reopen(r), rc;

	/* Who reaps sees that we live. */
	if (guard < 0)
		return is_kept ? 0 : -ENOENT;
	rc = lock_wait(guard, RATION_LOCK_REAP + slot->index, 1, is_kept ? 0 : RETAKE_WAIT_NS);
	if (rc == 0)
		rc = claim_again(r, slot);
	else
		rc = is_kept ? 0 : -EAGAIN;
	close(guard);
	return rc;
}

int slot_check(struct region *r, struct slot *slot)
{
	struct stat st;
	int held, rc;

	if (slot->fd < 0)
		return 0;
	/* While the descriptor is open on our file, its description has the lock. */
	if (sys_fstat(slot->fd, &st) == 0 && st.st_dev == r->place.st_dev &&
	    st.st_ino == r->place.st_ino)
		return 0;
	/* The caller has a lock, and open() is a cancellation point. */
	held = sys_cancel_hold();
	rc = retake(r, slot);
	sys_cancel_release(held);
	return rc;
}

void slot_vacate(struct region *r, const struct slot *slot)
{
	if (slot->index < HAMI_SLOTS)
		clear_hami(&r->hami->procs[slot->index]);
}

/*
 * Reaps slot i if its owner has gone; `fd` has its RATION_LOCK_REAP, so nobody else does, and who
 * has just taken the byte waits before the slot is its own. True when it was.
 */
static bool reap_locked(struct region *r, int fd, unsigned i)
{
	bool is_free = lock_try(fd, RATION_LOCK_SLOT + i, 1) == 0;
	struct ration_slot *s = &r->own->slots[i];
	/*
	 * A child of the owner may have the byte; where it is free a living owner may have lost it.
	 */
	bool is_gone = is_over(r, i, is_free ? OCCUPANT_BYTE_FREE : OCCUPANT_BYTE_HELD);

	if (is_gone) {
		give_back(r, i);
		clear_hami(&r->hami->procs[i]);
		s->pid = 0;
		if (is_free)
			hint_set(r, i, 0);
	}
	if (is_free)
		lock_drop(fd, RATION_LOCK_SLOT + i, 1);
	return is_gone;
}

static bool reap_one(struct region *r, int fd, unsigned i)
{
	bool is_reaped;

	if (lock_try(fd, RATION_LOCK_REAP + i, 1) != 0)
		return false;
	is_reaped = reap_locked(r, fd, i);
	lock_drop(fd, RATION_LOCK_REAP + i, 1);
	return is_reaped;
}

int slot_reap(struct region *r, int own)
{
	int opened = region_reopen(r), fd = opened < 0 ? region_spare(r) : opened, reaped = 0;

	if (fd < 0)
		return opened;
	process_wipe_on_fork(&reaping, sizeof(reaping));
	pthread_mutex_lock(&reaping.s.mutex);
	/* All hints: proc_num is in reach of others and must hide nobody's bytes. */
	for (unsigned i = 0; i < HAMI_SLOTS; i++)
		if ((int)i != own && __atomic_load_n(&r->own->hint[i], __ATOMIC_RELAXED))
			reaped += reap_one(r, fd, i);
	pthread_mutex_unlock(&reaping.s.mutex);
	if (opened >= 0)
		close(opened);
	return reaped;
}

int slot_alive(int fd, unsigned index)
{
	return lock_held(fd, RATION_LOCK_SLOT + index, 1, NULL);
}

int slot_keep(struct region *r, struct slot *out)
{
	int fd = region_reopen(r), rc;

	if (fd < 0)
		return fd;
	rc = lock_try(fd, RATION_LOCK_KEEPER, 1);
	if (rc < 0) {
		close(fd);
		return rc;
	}
	out->index = HAMI_SLOTS;
	return keep_lock(r, fd, RATION_LOCK_KEEPER, out);
}
