#include "core/object_evict.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/sys.h"
#include "core/object_idle.h"
#include "shm/residency.h"

#include <errno.h>

#define NAP_NS (2 * NSEC_PER_MSEC)
/* How long work that uses what is to go is waited for. */
#define BUSY_WAIT_NS (10 * NSEC_PER_SEC)
/* How long others are waited for: until something went, and again after each that did. */
#define OTHERS_WAIT_NS (500 * NSEC_PER_MSEC)
#define OTHERS_MOST_NS (10 * NSEC_PER_SEC)
/* What a worker sends away in one round. */
#define ROUND_BYTES (UINT64_C(1) << 30)

/* 0 with *out_bytes, or as bo_evict(). */
static int evict(struct object_device *d, uint64_t bytes, uint64_t *out_bytes)
{
	struct bo_ctx ctx = { 0 };
	int held = sys_cancel_hold();
	int rc = bo_evict(&d->backing.bo, BO_VRAM, bytes, &ctx, out_bytes);

	sys_cancel_release(held);
	return rc;
}

/* What went. */
static uint64_t evict_own(struct object_device *d, uint64_t bytes)
{
	int64_t until_ns = clock_now_ns() + BUSY_WAIT_NS;
	uint64_t gone_bytes = 0;
	int rc;

	while ((rc = evict(d, bytes, &gone_bytes)) == -EBUSY && clock_now_ns() < until_ns)
		clock_sleep_ns(NAP_NS);
	return rc == 0 ? gone_bytes : 0;
}

static uint64_t on_card(const struct object_device *d)
{
	const struct backing_bounds *b = &d->backing.bounds;

	return __atomic_load_n(&b->own->residency[b->slot].card_bytes[d->dev.v], __ATOMIC_RELAXED);
}

/* What nobody uses goes first. What went, or less where others took some meanwhile. */
static uint64_t give_idle(struct object_device *d)
{
	uint64_t before_bytes = on_card(d);

	object_idle_reclaim(d, 0);
	return bytes_beyond(before_bytes, on_card(d));
}

static uint32_t *word_of(const struct object_device *d)
{
	return &d->backing.bounds.own->room_blocks[d->dev.v];
}

static uint32_t blocks_of(uint64_t bytes)
{
	return (uint32_t)bytes_least(bytes_round_up(bytes, SLAB_BLOCK_BYTES) / SLAB_BLOCK_BYTES,
				     UINT32_MAX / 2);
}

/* Takes what went, or is not wanted any more, off what is wanted. Never below none. */
static void take_off(uint32_t *word, uint32_t blocks)
{
	uint32_t is = __atomic_load_n(word, __ATOMIC_ACQUIRE), left;

	do
		left = is > blocks ? is - blocks : 0;
	while (!__atomic_compare_exchange_n(word, &is, left, true, __ATOMIC_ACQ_REL,
					    __ATOMIC_ACQUIRE));
}

static void put_on(uint32_t *word, uint32_t blocks)
{
	uint32_t is = __atomic_load_n(word, __ATOMIC_ACQUIRE), sum;

	do
		sum = is > UINT32_MAX - blocks ? UINT32_MAX : is + blocks;
	while (!__atomic_compare_exchange_n(word, &is, sum, true, __ATOMIC_ACQ_REL,
					    __ATOMIC_ACQUIRE));
}

static uint64_t of_others(const struct object_device *d)
{
	const struct backing_bounds *b = &d->backing.bounds;

	return bytes_beyond(residency_sum(b->own, d->dev.v), on_card(d));
}

/* True when what others have of the card became less. */
static bool ask_others(struct object_device *d, uint64_t bytes)
{
	int64_t now_ns = clock_now_ns(), last_ns = now_ns + OTHERS_MOST_NS;
	int64_t until_ns = now_ns + OTHERS_WAIT_NS;
	uint64_t before_bytes = of_others(d), least_bytes = before_bytes, is_bytes;
	uint32_t *word = word_of(d), blocks = blocks_of(bytes_least(bytes, before_bytes)), gone;

	if (blocks == 0)
		return false;
	put_on(word, blocks);
	__atomic_fetch_add(&d->backing.bounds.own->room_wanted, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) && now_ns < until_ns && now_ns < last_ns) {
		clock_sleep_ns(NAP_NS);
		now_ns = clock_now_ns();
		is_bytes = of_others(d);
		if (is_bytes < least_bytes) {
			least_bytes = is_bytes;
			until_ns = now_ns + OTHERS_WAIT_NS;
		}
	}
	/* What nobody could do nobody shall do later. */
	gone = blocks_of(before_bytes - least_bytes);
	take_off(word, blocks > gone ? blocks - gone : 0);
	return least_bytes < before_bytes;
}

bool object_evict(struct dev dev, uint64_t bytes)
{
	struct object_device *d = object_device_of(dev);
	uint64_t gone_bytes;

	if (!d || !d->backing.bounds.may_spill)
		return false;
	gone_bytes = give_idle(d);
	if (gone_bytes < bytes)
		gone_bytes += evict_own(d, bytes - gone_bytes);
	if (gone_bytes < bytes && ask_others(d, bytes - gone_bytes))
		return true;
	return gone_bytes > 0;
}

uint64_t object_evict_most(struct dev dev)
{
	struct object_device *d = object_device_of(dev);

	return d && d->backing.bounds.may_spill ? residency_sum(d->backing.bounds.own, dev.v) : 0;
}

void object_evict_tick(struct object_device *d)
{
	uint64_t gone_bytes = 0;
	uint32_t wanted;

	if (!__atomic_load_n(word_of(d), __ATOMIC_ACQUIRE) || !d->backing.bounds.may_spill)
		return;
	take_off(word_of(d), blocks_of(give_idle(d)));
	wanted = __atomic_load_n(word_of(d), __ATOMIC_ACQUIRE);
	if (wanted == 0)
		return;
	if (evict(d, bytes_least(wanted * SLAB_BLOCK_BYTES, ROUND_BYTES), &gone_bytes) == 0)
		take_off(word_of(d), blocks_of(gone_bytes));
}
