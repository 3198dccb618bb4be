#include "core/others.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/process.h"
#include "core/backing.h"
#include "core/quota.h"
#include "core/root.h"
#include "core/slab.h"
#include "shm/residency.h"
#include "shm/wanted.h"

#include <errno.h>
#include <stdatomic.h>

/*
 * Their workers look ten times a second, on a card with many processes or a machine that is busy
 * less often. Who has something to give and does not is not waited for again soon; of the card's
 * others that is not known.
 */
#define WAIT_NS (2 * NSEC_PER_SEC)
#define ALL_WAIT_NS (400 * NSEC_PER_MSEC)
#define ROOM_WAIT_NS (150 * NSEC_PER_MSEC)
/* For objects to leave: until something went, and again after each that did. */
#define EVICT_WAIT_NS (500 * NSEC_PER_MSEC)
#define EVICT_MOST_NS (10 * NSEC_PER_SEC)
#define NAP_NS (2 * NSEC_PER_MSEC)

/* Who asked all tenants in vain asks them again after this. */
#define VAIN_NS NSEC_PER_SEC

struct others_state {
	/* constant after others_init() */
	struct ration_region *own;
	unsigned slot;
	const struct others_ops *ops;
	/* atomic: when the tenant's may be asked again, and all */
	_Atomic int64_t own_again_ns[RATION_DEVICES], again_ns[RATION_DEVICES];
};
PROCESS_STATE(others_state, state);

void others_init(struct region *region, unsigned slot, const struct others_ops *ops)
{
	process_wipe_on_fork(&state, sizeof(state));
	state.s.own = region->own;
	state.s.slot = slot;
	state.s.ops = ops;
}

int others_card_free(struct dev dev, uint64_t *out_bytes)
{
	return state.s.ops ? state.s.ops->card_free(quota_uuid(dev), out_bytes) : -ENOTSUP;
}

/* The tenant's workers look round. Returns the number of the asking. */
static uint32_t ask(struct ration_region *own)
{
	return __atomic_add_fetch(&own->room_wanted, 1, __ATOMIC_RELEASE);
}

bool others_give(struct dev dev, uint64_t bytes)
{
	struct ration_region *own = state.s.own;
	int64_t until_ns = clock_now_ns() + WAIT_NS;
	uint64_t before, now;
	uint32_t wanted;

	if (!own || !quota_has_region_now() ||
	    clock_now_ns() < atomic_load(&state.s.own_again_ns[dev.v]))
		return false;
	before = residency_kept_idle_but(own, state.s.slot, dev.v);
	if (!before)
		return false;
	/* What the dead kept comes with the rest of theirs. */
	quota_reap();
	wanted = ask(own);
	while ((now = residency_kept_idle_but(own, state.s.slot, dev.v)) &&
	       bytes_beyond(before, now) < bytes && clock_now_ns() < until_ns) {
		clock_sleep_ns(NAP_NS);
		if (!quota_has_region_now())
			return false;
		/* Theirs who leave comes when they have left. */
		quota_settle(dev);
	}
	if (now && clock_now_ns() >= until_ns)
		residency_miss(own, state.s.slot, dev.v, wanted);
	/* One that is stopped, or busy for long, is not waited for again and again. */
	if (now >= before)
		atomic_store(&state.s.own_again_ns[dev.v], clock_now_ns() + VAIN_NS);
	return now < before;
}

static int raise_wanted(void *arg)
{
	(void)arg;
	return wanted_raise();
}

/* True when the card has more free than before, or enough. */
static bool ask_all(struct dev dev, uint64_t bytes)
{
	int64_t until_ns = clock_now_ns() + ALL_WAIT_NS;
	uint64_t before_bytes, now_bytes;

	if (others_card_free(dev, &before_bytes) < 0 || root_do(raise_wanted, NULL) < 0)
		return false;
	now_bytes = before_bytes;
	while (now_bytes < bytes && clock_now_ns() < until_ns) {
		clock_sleep_ns(NAP_NS);
		if (others_card_free(dev, &now_bytes) < 0)
			return false;
	}
	return now_bytes > before_bytes;
}

bool others_give_card(struct dev dev, uint64_t bytes)
{
	if (others_give(dev, bytes))
		return true;
	if (!state.s.ops || state.s.ops->card_users() < 2 ||
	    clock_now_ns() < atomic_load(&state.s.again_ns[dev.v]))
		return false;
	if (ask_all(dev, bytes))
		return true;
	atomic_store(&state.s.again_ns[dev.v], clock_now_ns() + VAIN_NS);
	return false;
}

/* What other processes of the tenant have of the device. */
static uint64_t of_others(const struct backing_bounds *b, struct dev dev)
{
	return bytes_beyond(residency_sum(b->own, dev.v),
			    __atomic_load_n(&b->own->residency[b->slot].card_bytes[dev.v],
					    __ATOMIC_RELAXED));
}

/* True when host memory that others keep may be what is missing: they have been asked for it. */
static bool wants_host(const struct backing_bounds *b)
{
	return b->may_spill && residency_kept(b->own, b->slot) > 0;
}

void others_make_room(const struct backing_bounds *b, struct dev dev, uint64_t bytes)
{
	int64_t until_ns = clock_now_ns() + ROOM_WAIT_NS;
	uint32_t wanted;

	bytes = bytes_round_up(bytes, SLAB_BLOCK_BYTES);
	if (!quota_has_region_now())
		return;
	if (!of_others(b, dev) && !wants_host(b))
		return;
	wanted = ask(b->own);
	while ((quota_left(dev) < bytes || wants_host(b)) && clock_now_ns() < until_ns) {
		clock_sleep_ns(NAP_NS);
		if (!quota_has_region_now())
			return;
		quota_settle(dev);
	}
	if (wants_host(b) && clock_now_ns() >= until_ns)
		residency_miss(b->own, b->slot, RESIDENCY_HOST, wanted);
}

void others_want_host(const struct backing_bounds *b)
{
	if (quota_has_region_now() && residency_kept(b->own, HAMI_SLOTS))
		__atomic_fetch_add(&b->own->host_wanted, 1, __ATOMIC_RELEASE);
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

bool others_evict(const struct backing_bounds *b, struct dev dev, uint64_t bytes)
{
	int64_t now_ns = clock_now_ns(), last_ns = now_ns + EVICT_MOST_NS;
	int64_t until_ns = now_ns + EVICT_WAIT_NS;
	uint64_t before_bytes, least_bytes, is_bytes;
	uint32_t *word = &b->own->room_blocks[dev.v];
	uint32_t blocks, gone;

	if (!quota_has_region_now())
		return false;
	before_bytes = least_bytes = of_others(b, dev);
	blocks = blocks_of(bytes_least(bytes, before_bytes));
	if (blocks == 0)
		return false;
	put_on(word, blocks);
	ask(b->own);
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) && now_ns < until_ns && now_ns < last_ns) {
		clock_sleep_ns(NAP_NS);
		if (!quota_has_region_now())
			return least_bytes < before_bytes;
		quota_settle(dev);
		now_ns = clock_now_ns();
		is_bytes = of_others(b, dev);
		if (is_bytes < least_bytes) {
			least_bytes = is_bytes;
			until_ns = now_ns + EVICT_WAIT_NS;
		}
	}
	/* What nobody could do nobody shall do later. */
	gone = blocks_of(before_bytes - least_bytes);
	take_off(word, blocks > gone ? blocks - gone : 0);
	return least_bytes < before_bytes;
}

uint64_t others_evict_wanted(const struct backing_bounds *b, struct dev dev)
{
	return quota_has_region_now() ?
		       __atomic_load_n(&b->own->room_blocks[dev.v], __ATOMIC_ACQUIRE) *
			       SLAB_BLOCK_BYTES :
		       0;
}

void others_evicted(const struct backing_bounds *b, struct dev dev, uint64_t bytes)
{
	if (quota_has_region_now())
		take_off(&b->own->room_blocks[dev.v], blocks_of(bytes));
}
