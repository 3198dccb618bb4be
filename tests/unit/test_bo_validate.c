/*
 * The kernel's cases for seeing that an object lies where it should, by their names, for ours.
 *
 * Without a meaning here: ttm_bo_init_reserved_resv (a reservation from outside: each object has
 * its own), ttm_bo_validate_multihop (a move over a third place: each place is reached from each
 * in one). What is called a fence of a move there, which guards memory that is being left, is here
 * the fence of a deleted object: its memory can be had when that is done.
 */
#include "core/bo.h"

#include "check.h"
#include "fake_owner.h"

#include <errno.h>

#define MIB(n) (UINT64_C(n) << 20)

/* Placements of two places. */
static const struct bo_want vram_or_gtt[] = { { BO_VRAM, BO_DESIRED }, { BO_GTT, BO_FALLBACK } };
static const struct bo_want first_vram[] = { { BO_VRAM, 0 }, { BO_GTT, 0 } };
static const struct bo_placement desired = { vram_or_gtt, 2 }, either = { first_vram, 2 };

static bool is_last(struct owner *owner, const struct owned *owned, enum bo_place place)
{
	return TAILQ_LAST(&owner->device.managers[place].lru[owned->bo.priority], bo_list) ==
	       &owned->bo;
}

static void ttm_bo_init_reserved_sys_man(void **state)
{
	struct owner *owner = *state;
	struct owned a;

	owner_make_in(owner, &a, MIB(2), BO_SYSTEM);
	assert_int_equal(a.bo.refs, 1);
	assert_int_equal(a.bo.memory.bytes, MIB(2));
	assert_false(a.bo.is_reserved);
	assert_true(is_last(owner, &a, BO_SYSTEM));
	owner_look(owner, &a);
	bo_put(&a.bo);
}

static void ttm_bo_init_reserved_mock_man(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned a;

	owner_make(owner, &a, MIB(2));
	assert_ok(owner_place(&a, &owner_in[BO_VRAM], &ctx));
	assert_int_equal(a.bo.place, BO_VRAM);
	assert_int_equal(ctx.moved_bytes, 0);
	assert_int_equal(bo_device_used(&owner->device, BO_VRAM), MIB(2));
	assert_true(is_last(owner, &a, BO_VRAM));
	bo_put(&a.bo);
}

static void ttm_bo_validate_basic(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	uint64_t addr;
	struct owned a;

	owner_make_in(owner, &a, MIB(6), BO_SYSTEM);
	addr = a.bo.addr;
	assert_ok(owner_place(&a, &owner_in[BO_VRAM], &ctx));
	assert_int_equal(a.bo.place, BO_VRAM);
	assert_int_equal(a.bo.addr, addr);
	assert_int_equal(ctx.moved_bytes, MIB(6));
	assert_int_equal(bo_device_used(&owner->device, BO_VRAM), MIB(6));
	assert_int_equal(bo_device_used(&owner->device, BO_SYSTEM), 0);
	owner_look(owner, &a);
	bo_put(&a.bo);
}

static void ttm_bo_validate_invalid_placement(void **state)
{
	static const struct bo_want wants[] = { { BO_NONE, 0 }, { BO_PLACES, 0 }, { 77, 0 } };
	struct bo_placement nowhere_that_is = { wants, 3 };
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned a;

	owner_make_in(owner, &a, MIB(2), BO_GTT);
	assert_int_equal(owner_place(&a, &nowhere_that_is, &ctx), -ENOMEM);
	assert_int_equal(a.bo.place, BO_GTT);
	owner_look(owner, &a);
	bo_put(&a.bo);
}

static void ttm_bo_validate_same_placement(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned a;
	unsigned moves;

	owner_make_in(owner, &a, MIB(2), BO_VRAM);
	moves = owner->moves;
	assert_ok(owner_place(&a, &owner_in[BO_VRAM], &ctx));
	assert_ok(owner_place(&a, &either, &ctx));
	assert_int_equal(ctx.moved_bytes, 0);
	assert_int_equal(owner->moves, moves);
	bo_put(&a.bo);
}

static void ttm_bo_validate_failed_alloc(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned a;

	owner_make_in(owner, &a, MIB(2), BO_SYSTEM);
	owner->alloc_rc[BO_VRAM] = -ENOSPC;
	assert_int_equal(owner_place(&a, &owner_in[BO_VRAM], &ctx), -ENOMEM);
	owner->alloc_rc[BO_VRAM] = -EDQUOT;
	assert_int_equal(owner_place(&a, &owner_in[BO_VRAM], &ctx), -EDQUOT);
	assert_int_equal(a.bo.place, BO_SYSTEM);
	assert_int_equal(bo_device_used(&owner->device, BO_VRAM), 0);
	owner_look(owner, &a);
	bo_put(&a.bo);
}

static void ttm_bo_validate_pinned(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned a;

	owner_make_in(owner, &a, MIB(2), BO_VRAM);
	bo_pin(&a.bo);
	assert_int_equal(owner_place(&a, &owner_in[BO_GTT], &ctx), -EINVAL);
	assert_int_equal(owner_place(&a, &owner_nowhere, &ctx), -EINVAL);
	assert_ok(owner_place(&a, &owner_in[BO_VRAM], &ctx));
	assert_ok(owner_place(&a, &either, &ctx));
	assert_int_equal(a.bo.place, BO_VRAM);
	bo_unpin(&a.bo);
	assert_ok(owner_place(&a, &owner_in[BO_GTT], &ctx));
	bo_put(&a.bo);
}

static void ttm_bo_validate_busy_placement(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned a, there;

	owner->room[BO_VRAM] = MIB(2);
	owner_make_in(owner, &there, MIB(2), BO_VRAM);
	owner_make(owner, &a, MIB(2));
	assert_ok(owner_place(&a, &desired, &ctx));
	assert_int_equal(a.bo.place, BO_GTT);
	assert_int_equal(there.bo.place, BO_VRAM);
	assert_ptr_equal(TAILQ_FIRST(&owner->device.managers[BO_GTT].lru[0]), &a.bo);
	assert_true(is_last(owner, &a, BO_GTT));
	/* A fall-back is left for the first choice as soon as that has room, not before. */
	assert_ok(owner_place(&a, &desired, &ctx));
	assert_int_equal(a.bo.place, BO_GTT);
	bo_put(&there.bo);
	assert_ok(owner_place(&a, &desired, &ctx));
	assert_int_equal(a.bo.place, BO_VRAM);
	bo_put(&a.bo);
}

static void ttm_bo_validate_no_placement_signaled(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned a;

	for (unsigned place = BO_VRAM; place < BO_PLACES; place++) {
		owner_make_in(owner, &a, MIB(2), (enum bo_place)place);
		assert_ok(owner_place(&a, &owner_nowhere, &ctx));
		assert_int_equal(a.bo.place, BO_NONE);
		assert_int_equal(bo_device_used(&owner->device, (enum bo_place)place), 0);
		assert_ok(owner_place(&a, &owner_nowhere, &ctx));
		bo_put(&a.bo);
	}
	assert_int_equal(ctx.moved_bytes, 0);
	assert_int_equal(owner->waits, 0);
}

static void ttm_bo_validate_no_placement_not_signaled(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .no_wait = true };
	struct owned a;

	owner_make_in(owner, &a, MIB(2), BO_VRAM);
	bo_add_fence(&a.bo, 1);
	assert_int_equal(owner_place(&a, &owner_nowhere, &ctx), -EBUSY);
	owner_look(owner, &a);
	ctx.no_wait = false;
	assert_ok(owner_place(&a, &owner_nowhere, &ctx));
	assert_int_equal(owner->waits, 1);
	assert_int_equal(bo_device_used(&owner->device, BO_VRAM), 0);
	bo_put(&a.bo);
}

static void ttm_bo_validate_move_fence_signaled(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .no_wait = true };
	struct owned leaving, a;

	owner->room[BO_VRAM] = MIB(2);
	owner_make_in(owner, &leaving, MIB(2), BO_VRAM);
	bo_add_fence(&leaving.bo, 1);
	bo_put(&leaving.bo);
	owner_finish(owner, 1);
	owner_make(owner, &a, MIB(2));
	assert_ok(owner_place(&a, &owner_in[BO_VRAM], &ctx));
	assert_true(leaving.is_destroyed);
	assert_int_equal(owner->waits, 0);
	bo_put(&a.bo);
}

static void ttm_bo_validate_move_fence_not_signaled(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx waits = { .ticket = NULL }, does_not = { .no_wait = true };
	struct owned leaving, a, b;

	owner->room[BO_VRAM] = MIB(2);
	owner_make_in(owner, &leaving, MIB(2), BO_VRAM);
	bo_add_fence(&leaving.bo, 1);
	bo_put(&leaving.bo);
	owner_make(owner, &a, MIB(2));
	assert_ok(owner_place(&a, &either, &does_not));
	assert_int_equal(a.bo.place, BO_GTT);
	assert_false(leaving.is_destroyed);
	owner_make(owner, &b, MIB(2));
	assert_int_equal(owner_place(&b, &owner_in[BO_VRAM], &does_not), -EBUSY);
	assert_ok(owner_place(&b, &owner_in[BO_VRAM], &waits));
	assert_true(leaving.is_destroyed);
	assert_int_equal(owner->waits, 1);
	bo_put(&a.bo);
	bo_put(&b.bo);
}

static void ttm_bo_validate_happy_evict(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned small, medium, big, a;

	bo_device_set_limit(&owner->device, BO_VRAM, MIB(64));
	owner_make_in(owner, &small, MIB(2), BO_VRAM);
	owner_make_in(owner, &medium, MIB(6), BO_VRAM);
	owner_make_in(owner, &big, MIB(54), BO_VRAM);
	owner_make_in(owner, &a, MIB(4), BO_SYSTEM);
	assert_ok(owner_place(&a, &owner_in[BO_VRAM], &ctx));
	assert_int_equal(small.bo.place, BO_GTT);
	assert_int_equal(medium.bo.place, BO_VRAM);
	assert_int_equal(big.bo.place, BO_VRAM);
	assert_int_equal(ctx.moved_bytes, MIB(2) + MIB(4));
	owner_look(owner, &small);
	owner_look(owner, &a);
	bo_put(&small.bo);
	bo_put(&medium.bo);
	bo_put(&big.bo);
	bo_put(&a.bo);
}

static void ttm_bo_validate_all_pinned_evict(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned there[4], a;

	owner->room[BO_VRAM] = MIB(8);
	for (unsigned i = 0; i < 4; i++) {
		owner_make_in(owner, &there[i], MIB(2), BO_VRAM);
		bo_pin(&there[i].bo);
	}
	owner_make(owner, &a, MIB(2));
	assert_int_equal(owner_place(&a, &owner_in[BO_VRAM], &ctx), -ENOMEM);
	assert_int_equal(a.bo.place, BO_NONE);
	assert_int_equal(owner->waits, 0);
	for (unsigned i = 0; i < 4; i++)
		bo_put(&there[i].bo);
	bo_put(&a.bo);
}

static void ttm_bo_validate_allowed_only_evict(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned pinned, kept, evictable, a;

	owner->room[BO_VRAM] = MIB(6);
	owner_make_in(owner, &pinned, MIB(2), BO_VRAM);
	owner_make_in(owner, &kept, MIB(2), BO_VRAM);
	owner_make_in(owner, &evictable, MIB(2), BO_VRAM);
	bo_pin(&pinned.bo);
	kept.is_kept = true;
	owner_make(owner, &a, MIB(2));
	assert_ok(owner_place(&a, &owner_in[BO_VRAM], &ctx));
	assert_int_equal(pinned.bo.place, BO_VRAM);
	assert_int_equal(kept.bo.place, BO_VRAM);
	assert_int_equal(evictable.bo.place, BO_GTT);
	owner_look(owner, &evictable);
	bo_put(&pinned.bo);
	bo_put(&kept.bo);
	bo_put(&evictable.bo);
	bo_put(&a.bo);
}

static void ttm_bo_validate_deleted_evict(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned small, big, a;

	owner->room[BO_VRAM] = MIB(16);
	owner_make_in(owner, &small, MIB(2), BO_VRAM);
	owner_make_in(owner, &big, MIB(14), BO_VRAM);
	bo_add_fence(&big.bo, 1);
	bo_put(&big.bo);
	assert_false(big.is_destroyed);
	owner_make(owner, &a, MIB(4));
	assert_ok(owner_place(&a, &owner_in[BO_VRAM], &ctx));
	assert_true(big.is_destroyed);
	assert_int_equal(small.bo.place, BO_VRAM);
	assert_int_equal(ctx.moved_bytes, 0);
	assert_int_equal(bo_device_used(&owner->device, BO_VRAM), MIB(6));
	bo_put(&small.bo);
	bo_put(&a.bo);
}

static void ttm_bo_validate_busy_domain_evict(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned there, a;

	owner->room[BO_VRAM] = MIB(2);
	owner->alloc_rc[BO_GTT] = -EBUSY;
	owner_make_in(owner, &there, MIB(2), BO_VRAM);
	owner_make(owner, &a, MIB(2));
	assert_int_equal(owner_place(&a, &owner_in[BO_VRAM], &ctx), -EBUSY);
	owner->alloc_rc[BO_GTT] = -ENOSPC;
	assert_int_equal(owner_place(&a, &owner_in[BO_VRAM], &ctx), -ENOMEM);
	assert_int_equal(there.bo.place, BO_VRAM);
	assert_int_equal(a.bo.place, BO_NONE);
	owner_look(owner, &there);
	bo_put(&there.bo);
	bo_put(&a.bo);
}

static void ttm_bo_validate_evict_gutting(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned there, a;

	owner->room[BO_VRAM] = MIB(2);
	owner->evict_to[BO_VRAM] = &owner_nowhere;
	owner_make_in(owner, &there, MIB(2), BO_VRAM);
	owner_make(owner, &a, MIB(2));
	assert_ok(owner_place(&a, &owner_in[BO_VRAM], &ctx));
	assert_int_equal(there.bo.place, BO_NONE);
	assert_false(there.is_destroyed);
	assert_int_equal(ctx.moved_bytes, 0);
	bo_put(&there.bo);
	bo_put(&a.bo);
}

/* Spelt so there. */
static void ttm_bo_validate_recrusive_evict(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned in_vram, in_gtt, a;

	owner->room[BO_VRAM] = MIB(2);
	owner->room[BO_GTT] = MIB(2);
	owner_make_in(owner, &in_vram, MIB(2), BO_VRAM);
	owner_make_in(owner, &in_gtt, MIB(2), BO_GTT);
	owner_make(owner, &a, MIB(2));
	assert_ok(owner_place(&a, &owner_in[BO_VRAM], &ctx));
	assert_int_equal(in_vram.bo.place, BO_GTT);
	assert_int_equal(in_gtt.bo.place, BO_SYSTEM);
	assert_int_equal(ctx.moved_bytes, MIB(4));
	owner_look(owner, &in_vram);
	owner_look(owner, &in_gtt);
	bo_put(&in_vram.bo);
	bo_put(&in_gtt.bo);
	bo_put(&a.bo);
}

/* Whose memory would have to go to where it comes from: that would never end. */
static void two_places_that_send_to_each_other(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned in_vram, in_gtt, a;

	owner->room[BO_VRAM] = MIB(2);
	owner->room[BO_GTT] = MIB(2);
	owner->evict_to[BO_GTT] = &owner_in[BO_VRAM];
	owner_make_in(owner, &in_vram, MIB(2), BO_VRAM);
	owner_make_in(owner, &in_gtt, MIB(2), BO_GTT);
	owner_make(owner, &a, MIB(2));
	assert_int_equal(owner_place(&a, &owner_in[BO_VRAM], &ctx), -ENOMEM);
	assert_int_equal(in_vram.bo.place, BO_VRAM);
	assert_int_equal(in_gtt.bo.place, BO_GTT);
	bo_put(&in_vram.bo);
	bo_put(&in_gtt.bo);
	bo_put(&a.bo);
}

static void a_desired_place_is_not_emptied(void **state)
{
	static const struct bo_want want = { BO_VRAM, BO_DESIRED };
	struct bo_placement only = { &want, 1 };
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned there, a;

	owner->room[BO_VRAM] = MIB(2);
	owner_make_in(owner, &there, MIB(2), BO_VRAM);
	owner_make(owner, &a, MIB(2));
	assert_int_equal(owner_place(&a, &only, &ctx), -ENOMEM);
	assert_int_equal(there.bo.place, BO_VRAM);
	bo_put(&there.bo);
	assert_ok(owner_place(&a, &only, &ctx));
	bo_put(&a.bo);
}

static void a_limit_is_met_by_eviction(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned there, a;

	owner->unit = MIB(4);
	bo_device_set_limit(&owner->device, BO_VRAM, MIB(8));
	owner_make_in(owner, &there, MIB(5), BO_VRAM);
	assert_int_equal(there.bo.memory.bytes, MIB(8));
	assert_int_equal(bo_device_used(&owner->device, BO_VRAM), MIB(8));
	owner_make(owner, &a, MIB(1));
	assert_ok(owner_place(&a, &owner_in[BO_VRAM], &ctx));
	assert_int_equal(there.bo.place, BO_GTT);
	assert_int_equal(ctx.moved_bytes, MIB(5));
	assert_int_equal(bo_device_used(&owner->device, BO_VRAM), MIB(4));
	bo_put(&there.bo);
	bo_put(&a.bo);
	/* What is above a limit by the owner's rounding is given back. */
	bo_device_set_limit(&owner->device, BO_VRAM, MIB(7));
	owner_make(owner, &a, MIB(5));
	assert_int_equal(owner_place(&a, &owner_in[BO_VRAM], &ctx), -ENOMEM);
	assert_int_equal(owner->taken[BO_VRAM], 0);
	bo_put(&a.bo);
}

static void a_move_that_fails_leaves_it_where_it_was(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned a;

	owner_make_in(owner, &a, MIB(2), BO_GTT);
	a.move_rc = -EBUSY;
	assert_int_equal(owner_place(&a, &owner_in[BO_VRAM], &ctx), -EBUSY);
	assert_int_equal(a.bo.place, BO_GTT);
	assert_int_equal(bo_device_used(&owner->device, BO_VRAM), 0);
	owner_look(owner, &a);
	bo_add_fence(&a.bo, 1);
	owner->wait_rc = -EBUSY;
	assert_int_equal(owner_place(&a, &owner_in[BO_VRAM], &ctx), -EBUSY);
	assert_int_equal(bo_device_used(&owner->device, BO_VRAM), 0);
	owner_look(owner, &a);
	owner->wait_rc = 0;
	assert_ok(owner_place(&a, &owner_in[BO_VRAM], &ctx));
	owner_look(owner, &a);
	assert_int_equal(ctx.moved_bytes, MIB(2));
	bo_put(&a.bo);
}

static void a_move_that_fails_both_ways_loses_it(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned a;

	owner_make_in(owner, &a, MIB(2), BO_GTT);
	a.move_rc = -EIO;
	assert_int_equal(owner_place(&a, &owner_in[BO_VRAM], &ctx), -EIO);
	assert_true(a.bo.is_lost);
	assert_int_equal(a.bo.place, BO_NONE);
	assert_int_equal(bo_device_used(&owner->device, BO_VRAM), 0);
	assert_int_equal(bo_device_used(&owner->device, BO_GTT), 0);
	assert_int_equal(owner_place(&a, &owner_in[BO_VRAM], &ctx), -EIO);
	bo_put(&a.bo);
	assert_true(a.is_destroyed);
}

static void many_are_moved_together(void **state)
{
	enum { MANY = 20 };
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct bo *objects[MANY];
	struct owned all[MANY];
	unsigned moves;

	for (unsigned i = 0; i < MANY; i++) {
		owner_make_in(owner, &all[i], MIB(2), i % 4 ? BO_SYSTEM : BO_VRAM);
		assert_ok(bo_reserve(&all[i].bo, NULL));
		objects[i] = &all[i].bo;
	}
	moves = owner->moves;
	assert_ok(bo_validate_all(objects, MANY, &owner_in[BO_VRAM], &ctx));
	assert_int_equal(owner->moves, moves + 1);
	assert_int_equal(ctx.moved_bytes, MIB(2) * 15);
	/* One that cannot does not keep the others. */
	all[3].move_rc = -EBUSY;
	assert_int_equal(bo_validate_all(objects, MANY, &owner_in[BO_GTT], &ctx), -EBUSY);
	for (unsigned i = 0; i < MANY; i++) {
		assert_int_equal(all[i].bo.place, i == 3 ? BO_VRAM : BO_GTT);
		owner_look(owner, &all[i]);
	}
	assert_ok(bo_validate_all(objects, 0, &owner_in[BO_GTT], &ctx));
	for (unsigned i = 0; i < MANY; i++) {
		bo_unreserve(&all[i].bo);
		bo_put(&all[i].bo);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, owner_setup, owner_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ttm_bo_init_reserved_sys_man),
		TEST(ttm_bo_init_reserved_mock_man),
		TEST(ttm_bo_validate_basic),
		TEST(ttm_bo_validate_invalid_placement),
		TEST(ttm_bo_validate_same_placement),
		TEST(ttm_bo_validate_failed_alloc),
		TEST(ttm_bo_validate_pinned),
		TEST(ttm_bo_validate_busy_placement),
		TEST(ttm_bo_validate_no_placement_signaled),
		TEST(ttm_bo_validate_no_placement_not_signaled),
		TEST(ttm_bo_validate_move_fence_signaled),
		TEST(ttm_bo_validate_move_fence_not_signaled),
		TEST(ttm_bo_validate_happy_evict),
		TEST(ttm_bo_validate_all_pinned_evict),
		TEST(ttm_bo_validate_allowed_only_evict),
		TEST(ttm_bo_validate_deleted_evict),
		TEST(ttm_bo_validate_busy_domain_evict),
		TEST(ttm_bo_validate_evict_gutting),
		TEST(ttm_bo_validate_recrusive_evict),
		TEST(two_places_that_send_to_each_other),
		TEST(a_desired_place_is_not_emptied),
		TEST(a_limit_is_met_by_eviction),
		TEST(a_move_that_fails_leaves_it_where_it_was),
		TEST(a_move_that_fails_both_ways_loses_it),
		TEST(many_are_moved_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
