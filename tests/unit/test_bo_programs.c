/*
 * Random programs of one thread. Without failures, what is placed, refused and evicted is what
 * somebody would say who knows every object; with each step failing in turn, nothing is lost but
 * what a move has lost, and nothing is left in the end. Each change is looked at (bo_check.h).
 */
#include "core/bo.h"

#include "check.h"
#include "core/bo_bulk.h"
#include "fake_owner.h"

#include <errno.h>
#include <stdlib.h>

#define MIB(n) ((uint64_t)(n) << 20)

enum { ITEMS = 14, BULKS = 2, STEPS = 120, PROGRAMS = BUILD_SANITIZED ? 30 : 300 };

/* An object and what is known of it. */
struct item {
	struct owned owned;
	bool is_alive;
	uint64_t seed; /* of what it should hold, 0: nothing */
};

static struct owner *owner;
static struct item items[ITEMS];
static struct bo_bulk bulks[BULKS];
static uint64_t last_fence, last_seed;
static unsigned seed;
static bool may_fail; /* steps fail: what comes of a call is not foretold */

static const struct bo_want gtt_or_system[] = { { BO_GTT, 0 }, { BO_SYSTEM, 0 } };
static const struct bo_want vram_or_gtt[] = { { BO_VRAM, 0 }, { BO_GTT, 0 } };
static const struct bo_want vram_desired[] = { { BO_VRAM, BO_DESIRED }, { BO_GTT, BO_FALLBACK } };
static const struct bo_placement either = { vram_or_gtt, 2 }, desired = { vram_desired, 2 };
static const struct bo_placement away = { gtt_or_system, 2 };

static unsigned dice(unsigned count)
{
	return (unsigned)rand_r(&seed) % count;
}

static const struct bo_manager *manager(enum bo_place place)
{
	return &owner->device.managers[place];
}

static bool can_go(const struct item *item)
{
	return item->is_alive && !item->owned.bo.pins && !item->owned.is_kept;
}

/* What is free in a place now, and when all went that can, but for one. */
static uint64_t free_now(enum bo_place place)
{
	return manager(place)->limit_bytes < manager(place)->used_bytes ?
		       0 :
		       manager(place)->limit_bytes - manager(place)->used_bytes;
}

static uint64_t free_at_best(enum bo_place place, const struct item *but)
{
	uint64_t stays_bytes = 0;

	for (unsigned i = 0; i < ITEMS; i++)
		if (items[i].is_alive && items[i].owned.bo.place == place && &items[i] != but &&
		    !can_go(&items[i]))
			stays_bytes += items[i].owned.bo.bytes;
	return manager(place)->limit_bytes < stays_bytes ?
		       0 :
		       manager(place)->limit_bytes - stays_bytes;
}

/* Where the object should be after a validation, BO_PLACES: it is refused. */
static enum bo_place foretell(const struct item *item, const struct bo_placement *placement)
{
	const struct bo *bo = &item->owned.bo;

	if (!placement->count)
		return bo->pins ? BO_PLACES : BO_NONE;
	for (unsigned i = 0; i < placement->count; i++)
		if (placement->wants[i].place == bo->place &&
		    (bo->pins || !(placement->wants[i].flags & BO_FALLBACK)))
			return bo->place;
	if (bo->pins)
		return BO_PLACES;
	for (unsigned i = 0; i < placement->count; i++)
		if (!(placement->wants[i].flags & BO_FALLBACK) &&
		    bo->bytes <= free_now(placement->wants[i].place))
			return placement->wants[i].place;
	for (unsigned i = 0; i < placement->count; i++)
		if (placement->wants[i].place == bo->place)
			return bo->place;
	for (unsigned i = 0; i < placement->count; i++)
		if (!(placement->wants[i].flags & BO_DESIRED) &&
		    bo->bytes <= free_at_best(placement->wants[i].place, item))
			return placement->wants[i].place;
	return BO_PLACES;
}

/* The objects of a place in the order in which they should go. */
struct order {
	struct item *items[ITEMS];
	unsigned count;
};

static void note_order(enum bo_place place, const struct item *but, struct order *order)
{
	struct bo *bo;

	order->count = 0;
	for (unsigned i = 0; i < BO_PRIORITIES; i++)
		TAILQ_FOREACH(bo, &manager(place)->lru[i], in_list) {
			struct item *item = (struct item *)bo->user;

			if (item != but && can_go(item))
				order->items[order->count++] = item;
		}
}

/* Those that went are the first; if they had to, no more than needed. */
static void expect_first_went(enum bo_place place, const struct order *order, bool had_to)
{
	const struct bo *last = NULL;
	bool has_stayed = false;

	for (unsigned i = 0; i < order->count; i++) {
		const struct bo *bo = &order->items[i]->owned.bo;

		if (bo->place == place) {
			has_stayed = true;
		} else {
			assert_false(has_stayed);
			last = bo;
		}
	}
	if (last && had_to)
		assert_true(free_now(place) < last->bytes);
}

static void look_at_all(void)
{
	for (unsigned i = 0; i < ITEMS; i++) {
		struct item *item = &items[i];

		if (!item->is_alive)
			continue;
		owner_look(owner, &item->owned);
		if (item->owned.bo.is_lost)
			item->seed = 0;
		assert_int_equal(item->owned.seed, item->seed);
	}
	if (owner_wrong(owner))
		fail_msg("%s", owner_wrong(owner));
}

static void fill(struct item *item)
{
	if (item->owned.bo.place == BO_NONE)
		return;
	item->seed = ++last_seed;
	owner_fill(owner, &item->owned, item->seed);
}

static void place(struct item *item)
{
	static const struct bo_placement *const placements[] = {
		&owner_in[BO_VRAM],
		&owner_in[BO_VRAM],
		&owner_in[BO_VRAM],
		&owner_in[BO_GTT],
		&either,
		&desired,
		&owner_in[BO_SYSTEM],
		&owner_nowhere,
	};
	const struct bo_placement *placement = placements[dice(8)];
	struct bo *bo = &item->owned.bo;
	struct bo_ctx ctx = { .no_wait = may_fail && dice(3) == 0 };
	enum bo_place before = bo->place, expected = foretell(item, placement);
	struct order in_vram, in_gtt;
	int rc;

	note_order(BO_VRAM, item, &in_vram);
	note_order(BO_GTT, item, &in_gtt);
	rc = owner_place(&item->owned, placement, &ctx);
	if (may_fail && rc < 0) {
		assert_true(bo->is_lost || bo->place == before);
	} else if (!may_fail) {
		assert_int_equal(rc < 0 ? BO_PLACES : bo->place, expected);
		assert_int_equal(bo->place, rc < 0 ? before : expected);
		expect_first_went(BO_VRAM, &in_vram, rc == 0 && bo->place == BO_VRAM);
		expect_first_went(BO_GTT, &in_gtt, false);
	}
	if (bo->place == BO_NONE)
		item->seed = 0;
	else if (before == BO_NONE)
		fill(item);
}

static void make(struct item *item)
{
	owner_make(owner, &item->owned, MIB(1 + dice(8)));
	bo_set_priority(&item->owned.bo, dice(BO_PRIORITIES));
	item->is_alive = true;
	item->seed = 0;
	item->owned.is_kept = dice(8) == 0;
	place(item);
}

static void put(struct item *item)
{
	item->is_alive = false;
	bo_put(&item->owned.bo);
}

static void pin(struct item *item)
{
	assert_ok(bo_reserve(&item->owned.bo, NULL));
	if (item->owned.bo.pins && dice(4))
		bo_unpin(&item->owned.bo);
	else if (item->owned.bo.place != BO_NONE && dice(3) == 0)
		bo_pin(&item->owned.bo);
	bo_unreserve(&item->owned.bo);
}

static void evict(void)
{
	enum bo_place from = dice(3) ? BO_VRAM : BO_GTT;
	struct bo_ctx ctx = { .ticket = NULL };
	uint64_t gone_bytes = 0;
	struct order order;
	int rc;

	note_order(from, NULL, &order);
	rc = bo_evict(&owner->device, from, MIB(1 + dice(16)), &ctx, &gone_bytes);
	if (may_fail)
		return;
	assert_true(rc == 0 || order.count == 0);
	expect_first_went(from, &order, false);
}

static void step(void)
{
	struct item *item = &items[dice(ITEMS)];
	struct bo_bulk *bulk = &bulks[dice(BULKS)];

	owner->wait_rc = may_fail && dice(8) == 0 ? -EBUSY : 0;
	if (!item->is_alive) {
		bo_reap(&owner->device);
		if (!item->owned.bo.device || item->owned.is_destroyed)
			make(item);
		return;
	}
	switch (dice(16)) {
	case 0:
		put(item);
		break;
	case 1:
		pin(item);
		break;
	case 2:
		bo_touch(&item->owned.bo);
		break;
	case 3:
		bo_bulk_set(dice(2) ? bulk : NULL, &item->owned.bo);
		break;
	case 4:
		bo_bulk_touch(bulk);
		break;
	case 5:
		bo_add_fence(&item->owned.bo, ++last_fence);
		break;
	case 6:
		owner_finish(owner, last_fence - dice(4) % (last_fence + 1));
		break;
	case 7:
		evict();
		break;
	case 8:
		bo_reap(&owner->device);
		break;
	case 9:
		bo_device_set_limit(&owner->device, BO_VRAM, MIB(16 + dice(16)));
		break;
	case 10:
		bo_set_priority(&item->owned.bo, dice(BO_PRIORITIES));
		break;
	case 11:
		fill(item);
		break;
	default:
		place(item);
	}
}

/* One program. True when the step that was to fail was reached. */
static bool run(unsigned number, unsigned fail_at, int fail_rc, const struct bo_placement *to)
{
	bool has_failed;

	seed = number;
	last_fence = 0;
	memset(items, 0, sizeof(items));
	owner_begin(owner);
	owner->evict_to[BO_VRAM] = to;
	owner->fail_at = fail_at;
	owner->fail_rc = fail_rc;
	owner->unit = may_fail && number % 2 ? MIB(3) : 0;
	for (unsigned i = 0; i < BULKS; i++)
		bo_bulk_init(&bulks[i], &owner->device);
	bo_device_set_limit(&owner->device, BO_VRAM, MIB(24));
	bo_device_set_limit(&owner->device, BO_GTT, MIB(16));
	for (unsigned i = 0; i < STEPS; i++) {
		step();
		look_at_all();
	}
	has_failed = fail_at && owner->steps >= fail_at;
	for (unsigned i = 0; i < ITEMS; i++)
		if (items[i].is_alive)
			put(&items[i]);
	owner_finish(owner, last_fence);
	/* An end that failed is tried again. */
	bo_reap(&owner->device);
	owner_end(owner);
	for (unsigned i = 0; i < ITEMS; i++)
		assert_true(!items[i].owned.bo.device || items[i].owned.is_destroyed);
	return has_failed;
}

static void what_is_foretold(void **state)
{
	(void)state;
	may_fail = false;
	for (unsigned i = 1; i <= PROGRAMS; i++)
		run(i, 0, 0, &away);
}

/* Victims have to have others evicted. */
static void over_two_places(void **state)
{
	(void)state;
	may_fail = true;
	for (unsigned i = 1; i <= PROGRAMS; i++)
		run(i, 0, 0, &owner_in[BO_GTT]);
}

static void each_step_fails_in_turn(void **state)
{
	static const int errors[] = { -ENOMEM, -EBUSY, -EIO };
	unsigned fail_at = 1;

	(void)state;
	may_fail = true;
	while (run(7, fail_at, errors[fail_at % 3], &owner_in[BO_GTT]))
		fail_at++;
	assert_true(fail_at > 50);
	for (unsigned i = 0; i < PROGRAMS; i++)
		run(i, 1 + i % 200, errors[i % 3], i % 2 ? &away : &owner_in[BO_GTT]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_foretold),
		cmocka_unit_test(over_two_places),
		cmocka_unit_test(each_step_fails_in_turn),
	};
	void *state;

	owner_setup(&state);
	owner = state;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
