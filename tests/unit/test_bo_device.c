/*
 * The kernel's cases for devices, and for what is counted and listed there, by their names, for
 * ours.
 *
 * Without a meaning here: ttm_device_init_no_vma_man and ttm_device_init_pools (addresses and
 * pools are the owner's).
 */
#include "core/bo_device.h"

#include "check.h"
#include "core/bo_bulk.h"
#include "core/bo_check.h"
#include "fake_owner.h"

#include <errno.h>
#include <stdlib.h>

#define MIB(n) (UINT64_C(n) << 20)

static const struct bo_ops no_ops;

static void expect_fresh(struct bo_device *device)
{
	bo_device_lock(device);
	assert_null(bo_check(device));
	bo_device_unlock(device);
	for (unsigned place = 0; place < BO_PLACES; place++) {
		assert_int_equal(bo_device_used(device, (enum bo_place)place), 0);
		assert_int_equal(device->managers[place].pending_bytes, 0);
		for (unsigned i = 0; i < BO_PRIORITIES; i++)
			assert_true(TAILQ_EMPTY(&device->managers[place].lru[i]));
	}
	assert_true(TAILQ_EMPTY(&device->pinned) && TAILQ_EMPTY(&device->deleted) &&
		    TAILQ_EMPTY(&device->unplaced) && TAILQ_EMPTY(&device->takers));
}

static void ttm_device_init_basic(void **state)
{
	struct bo_device device;
	int owner;

	(void)state;
	bo_device_init(&device, &no_ops, &owner);
	assert_ptr_equal(device.ops, &no_ops);
	assert_ptr_equal(device.owner, &owner);
#ifdef RATION_CHECKS
	assert_ptr_equal(device.on_change, bo_check_log);
#else
	assert_null(device.on_change);
#endif
	expect_fresh(&device);
	assert_ok(bo_device_fini(&device));
}

static void ttm_device_init_multiple(void **state)
{
	struct bo_device devices[3];

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		bo_device_init(&devices[i], &no_ops, NULL);
	for (unsigned i = 0; i < 3; i++) {
		expect_fresh(&devices[i]);
		assert_ok(bo_device_fini(&devices[i]));
	}
}

static void ttm_device_fini_basic(void **state)
{
	struct owner *owner = *state;
	struct owned a;

	owner_make_in(owner, &a, MIB(2), BO_VRAM);
	assert_int_equal(bo_device_fini(&owner->device), -EBUSY);
	bo_add_fence(&a.bo, 1);
	bo_put(&a.bo);
	assert_int_equal(bo_device_fini(&owner->device), -EBUSY);
	owner_finish(owner, 1);
	assert_ok(bo_device_fini(&owner->device));
	assert_true(a.is_destroyed);
	owner_begin(owner);
}

static void ttm_resource_init_basic(void **state)
{
	struct owner *owner = *state;
	struct owned a;

	for (unsigned place = BO_VRAM; place < BO_PLACES; place++) {
		owner_make_in(owner, &a, MIB(3), (enum bo_place)place);
		assert_int_equal(a.bo.place, place);
		assert_int_equal(a.bo.memory.bytes, MIB(3));
		assert_ptr_equal(a.bo.list, &owner->device.managers[place].lru[0]);
		assert_int_equal(bo_device_used(&owner->device, (enum bo_place)place), MIB(3));
		bo_put(&a.bo);
	}
}

static void ttm_resource_init_pinned(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned a;

	owner_make_in(owner, &a, MIB(2), BO_VRAM);
	bo_pin(&a.bo);
	assert_ptr_equal(TAILQ_FIRST(&owner->device.pinned), &a.bo);
	assert_true(TAILQ_EMPTY(&owner->device.managers[BO_VRAM].lru[0]));
	assert_int_equal(bo_device_used(&owner->device, BO_VRAM), MIB(2));
	bo_unpin(&a.bo);
	assert_true(TAILQ_EMPTY(&owner->device.pinned));
	assert_ok(owner_place(&a, &owner_in[BO_GTT], &ctx));
	bo_put(&a.bo);
}

static void ttm_resource_fini_basic(void **state)
{
	struct owner *owner = *state;
	struct owned a;

	owner_make_in(owner, &a, MIB(2), BO_VRAM);
	bo_put(&a.bo);
	assert_null(a.bo.list);
	expect_fresh(&owner->device);
}

static void ttm_resource_manager_init_basic(void **state)
{
	struct owner *owner = *state;

	expect_fresh(&owner->device);
	for (unsigned place = 0; place < BO_PLACES; place++)
		assert_true(owner->device.managers[place].limit_bytes == UINT64_MAX);
}

static void ttm_resource_manager_usage_basic(void **state)
{
	struct owner *owner = *state;
	struct owned a, b;

	owner->unit = MIB(2);
	owner_make_in(owner, &a, MIB(2), BO_VRAM);
	owner_make_in(owner, &b, MIB(3), BO_VRAM);
	assert_int_equal(bo_device_used(&owner->device, BO_VRAM), MIB(6));
	assert_int_equal(owner->taken[BO_VRAM], MIB(6));
	bo_put(&a.bo);
	assert_int_equal(bo_device_used(&owner->device, BO_VRAM), MIB(4));
	bo_put(&b.bo);
}

/* A place that is not used has a limit of none. */
static void ttm_resource_manager_set_used_basic(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned a;

	owner_make(owner, &a, MIB(2));
	bo_device_set_limit(&owner->device, BO_GTT, 0);
	assert_int_equal(owner_place(&a, &owner_in[BO_GTT], &ctx), -ENOMEM);
	bo_device_set_limit(&owner->device, BO_GTT, MIB(2));
	assert_ok(owner_place(&a, &owner_in[BO_GTT], &ctx));
	bo_device_set_limit(&owner->device, BO_GTT, 0);
	assert_ok(owner_place(&a, &owner_in[BO_GTT], &ctx));
	assert_int_equal(a.bo.place, BO_GTT);
	bo_put(&a.bo);
}

static void ttm_sys_man_alloc_basic(void **state)
{
	struct owner *owner = *state;
	struct bo_memory memory;
	uint64_t gains;
	struct owned a;

	owner_make(owner, &a, MIB(2));
	assert_ok(bo_reserve(&a.bo, NULL));
	assert_ok(bo_device_take(&a.bo, BO_SYSTEM, &memory, &gains));
	assert_int_equal(memory.bytes, MIB(2));
	assert_int_equal(bo_device_used(&owner->device, BO_SYSTEM), MIB(2));
	assert_int_equal(owner->device.managers[BO_SYSTEM].pending_bytes, MIB(2));
	bo_device_give(&owner->device, BO_SYSTEM, memory);
	bo_unreserve(&a.bo);
	bo_put(&a.bo);
}

static void ttm_sys_man_free_basic(void **state)
{
	struct owner *owner = *state;
	struct owned a;

	owner_make_in(owner, &a, MIB(2), BO_SYSTEM);
	bo_put(&a.bo);
	expect_fresh(&owner->device);
	assert_int_equal(owner->taken[BO_SYSTEM], 0);
}

static void what_is_too_large_for_a_number(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned a, huge;
	unsigned steps;

	owner_make_in(owner, &a, MIB(2), BO_VRAM);
	a.is_kept = true;
	owner_make(owner, &huge, UINT64_MAX - MIB(1));
	steps = owner->steps;
	assert_int_equal(owner_place(&huge, &owner_in[BO_VRAM], &ctx), -ENOMEM);
	assert_int_equal(owner->steps, steps);
	owner_look(owner, &a);
	bo_put(&huge.bo);
	bo_put(&a.bo);
}

/* Else who was refused just before would not ask again. */
static void what_may_give_room_is_counted(void **state)
{
	struct owner *owner = *state;
	struct bo_device *device = &owner->device;
	struct bo_ctx ctx = { .ticket = NULL };
	struct bo_memory memory;
	uint64_t before, gains;
	struct owned a;

	owner_make(owner, &a, MIB(2));
	before = device->gains;
	assert_ok(owner_place(&a, &owner_in[BO_VRAM], &ctx));
	assert_int_not_equal(device->gains, before);
	bo_pin(&a.bo);
	before = device->gains;
	bo_unpin(&a.bo);
	assert_int_not_equal(device->gains, before);
	before = device->gains;
	bo_device_set_limit(device, BO_VRAM, MIB(64));
	assert_int_not_equal(device->gains, before);
	assert_ok(bo_reserve(&a.bo, NULL));
	assert_ok(bo_device_take(&a.bo, BO_GTT, &memory, &gains));
	before = device->gains;
	bo_device_give(device, BO_GTT, memory);
	assert_int_not_equal(device->gains, before);
	/* One's own refusal is none. */
	owner->alloc_rc[BO_GTT] = -ENOSPC;
	assert_int_equal(bo_device_take(&a.bo, BO_GTT, &memory, &gains), -ENOSPC);
	assert_int_equal(device->gains, gains);
	bo_device_set_limit(device, BO_GTT, 0);
	assert_int_equal(bo_device_take(&a.bo, BO_GTT, &memory, &gains), -ENOSPC);
	assert_int_equal(device->gains, gains);
	bo_unreserve(&a.bo);
	bo_add_fence(&a.bo, 1);
	before = device->gains;
	bo_put(&a.bo);
	assert_int_not_equal(device->gains, before);
	owner_finish(owner, 1);
	assert_false(bo_reap(device));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, owner_setup, owner_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ttm_device_init_basic),
		cmocka_unit_test(ttm_device_init_multiple),
		TEST(ttm_device_fini_basic),
		TEST(ttm_resource_init_basic),
		TEST(ttm_resource_init_pinned),
		TEST(ttm_resource_fini_basic),
		TEST(ttm_resource_manager_init_basic),
		TEST(ttm_resource_manager_usage_basic),
		TEST(ttm_resource_manager_set_used_basic),
		TEST(ttm_sys_man_alloc_basic),
		TEST(ttm_sys_man_free_basic),
		TEST(what_is_too_large_for_a_number),
		TEST(what_may_give_room_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
