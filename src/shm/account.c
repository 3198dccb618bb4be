#include "shm/account.h"

#include "base/bytes.h"
#include "base/pair.h"

#include <errno.h>

#define SEQ_MASK UINT64_C(0xffffffffffff)

static uint64_t name_of(unsigned slot, uint64_t seq)
{
	return (uint64_t)slot << 48 | (seq & SEQ_MASK);
}

static uint64_t load(const uint64_t *word, int order)
{
	return __atomic_load_n(word, order);
}

static struct pair *pair_of(struct ration_account *account)
{
	return (struct pair *)&account->total_bytes;
}

static bool replace(struct ration_account *account, struct pair *old, uint64_t total_bytes,
		    uint64_t last)
{
	return pair_cas(pair_of(account), old,
			(struct pair){ .first = total_bytes, .second = last });
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
	struct pair now = pair_load(pair_of(&region->accounts[dev])); /* before `done` is read */
	bool took = now.second == name_of(slot, seq) || load(&e->done, __ATOMIC_SEQ_CST) >= seq;

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
	struct pair now = pair_load(pair_of(h->account));

	if (passes(now.first, bytes, limit_bytes))
		return -EDQUOT;
	announce(h, h->bytes + bytes);
	do {
		if (passes(now.first, bytes, limit_bytes))
			return -EDQUOT; /* nothing was installed: the number is used again */
		if (now.second >> 48 != h->slot)
			keep_evidence(h, now.second);
	} while (!replace(h->account, &now, now.first + bytes, name_of(h->slot, h->next)));
	h->bytes += bytes;
	h->next++;
	return 0;
}

uint64_t account_sub(struct account_holder *h, uint64_t bytes)
{
	struct pair now = pair_load(pair_of(h->account));

	if (bytes > h->bytes)
		bytes = h->bytes;
	if (bytes == 0)
		return 0;
	announce(h, h->bytes - bytes);
	do {
		if (now.second >> 48 != h->slot)
			keep_evidence(h, now.second);
	} while (!replace(h->account, &now, bytes_beyond(now.first, bytes),
			  name_of(h->slot, h->next)));
	h->bytes -= bytes;
	h->next++;
	return bytes;
}
