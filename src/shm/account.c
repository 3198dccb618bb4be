#include "shm/account.h"

#include <errno.h>

struct pair {
	uint64_t total_bytes;
	uint64_t last;
};

#define SEQ_MASK UINT64_C(0xffffffffffff)

static uint64_t name_of(unsigned slot, uint64_t seq)
{
	return (uint64_t)slot << 48 | (seq & SEQ_MASK);
}

static uint64_t load(const uint64_t *word, int order)
{
	return __atomic_load_n(word, order);
}

/*
 * Replaces *old by `new` if the account still is *old; otherwise reads it whole into *old. Inline
 * assembly because the compiler's 16-byte atomics call a library (libatomic) that we do not load.
 */
#if defined __x86_64__
static bool cas(struct ration_account *account, struct pair *old, struct pair new)
{
	bool same;

	__asm__ volatile("lock cmpxchg16b %1"
			 : "=@ccz"(same), "+m"(*(struct pair *)&account->total_bytes),
			   "+a"(old->total_bytes), "+d"(old->last)
			 : "b"(new.total_bytes), "c"(new.last)
			 : "memory");
	return same;
}
#elif defined __aarch64__
static bool cas(struct ration_account *account, struct pair *old, struct pair new)
{
	uint64_t total, last;
	uint32_t failed;
	bool same;

	do {
		__asm__ volatile("ldaxp %0, %1, [%2]"
				 : "=&r"(total), "=&r"(last)
				 : "r"(&account->total_bytes)
				 : "memory");
		same = total == old->total_bytes && last == old->last;
		/* Storing the same words back is what makes the pair known to be read whole. */
		__asm__ volatile("stlxp %w0, %1, %2, [%3]"
				 : "=&r"(failed)
				 : "r"(same ? new.total_bytes : total), "r"(same ? new.last : last),
				   "r"(&account->total_bytes)
				 : "memory");
	} while (failed);
	old->total_bytes = total;
	old->last = last;
	return same;
}
#else
#error "no 128-bit compare-and-swap for this processor"
#endif

static struct pair load_whole(struct ration_account *account)
{
	struct pair p = { load(&account->total_bytes, __ATOMIC_RELAXED),
			  load(&account->last, __ATOMIC_RELAXED) };

	cas(account, &p, p);
	return p;
}

/* Keeps the evidence that operation `last` took place before it is overwritten. */
static void keep_evidence(const struct account_holder *h, uint64_t last)
{
	uint64_t slot = last >> 48, seq = last & SEQ_MASK, have;
	uint64_t *done;

	if (slot >= HAMI_SLOTS)
		return;
	done = &h->slots[slot].entry[h->dev].done;
	have = load(done, __ATOMIC_RELAXED);
	while (have < seq && !__atomic_compare_exchange_n(done, &have, seq, true, __ATOMIC_RELAXED,
							  __ATOMIC_RELAXED))
		;
}

void account_settle(struct account_holder *h, struct ration_region *region, unsigned slot, int dev)
{
	struct ration_entry *e = &region->slots[slot].entry[dev];
	uint64_t seq = load(&e->seq, __ATOMIC_SEQ_CST);
	struct pair now = load_whole(&region->accounts[dev]); /* before `done` is read */
	bool took = now.last == name_of(slot, seq) || load(&e->done, __ATOMIC_SEQ_CST) >= seq;

	h->account = &region->accounts[dev];
	h->slots = region->slots;
	h->slot = slot;
	h->dev = dev;
	h->bytes = load(&e->after_bytes[(took ? seq : ~seq) & 1], __ATOMIC_SEQ_CST);
	h->next = took ? seq + 1 : seq;
}

/* Announces operation `next`, which leaves the slot with `after` bytes if it takes place. */
static void announce(struct account_holder *h, uint64_t after)
{
	struct ration_entry *e = &h->slots[h->slot].entry[h->dev];

	__atomic_store_n(&e->after_bytes[h->next & 1], after, __ATOMIC_RELAXED);
	/* Read by account_settle() of whoever takes the slot next. */
	__atomic_store_n(&e->seq, h->next, __ATOMIC_RELEASE);
}

static bool passes(uint64_t total, uint64_t add, uint64_t limit)
{
	if (limit == 0)
		return add > UINT64_MAX / 4 || total > UINT64_MAX / 4;
	return total > limit || add > limit - total;
}

int account_add(struct account_holder *h, uint64_t bytes, uint64_t limit_bytes)
{
	struct pair now = load_whole(h->account), new;

	if (passes(now.total_bytes, bytes, limit_bytes))
		return -EDQUOT;
	announce(h, h->bytes + bytes);
	do {
		if (passes(now.total_bytes, bytes, limit_bytes))
			return -EDQUOT; /* nothing was installed: the number is used again */
		if (now.last >> 48 != h->slot)
			keep_evidence(h, now.last);
		new.total_bytes = now.total_bytes + bytes;
		new.last = name_of(h->slot, h->next);
	} while (!cas(h->account, &now, new));
	h->bytes += bytes;
	h->next++;
	return 0;
}

uint64_t account_sub(struct account_holder *h, uint64_t bytes)
{
	struct pair now = load_whole(h->account), new;

	if (bytes > h->bytes)
		bytes = h->bytes;
	if (bytes == 0)
		return 0;
	announce(h, h->bytes - bytes);
	do {
		if (now.last >> 48 != h->slot)
			keep_evidence(h, now.last);
		new.total_bytes = now.total_bytes > bytes ? now.total_bytes - bytes : 0;
		new.last = name_of(h->slot, h->next);
	} while (!cas(h->account, &now, new));
	h->bytes -= bytes;
	h->next++;
	return bytes;
}
