/*
 * Memory behind objects and its exchange: the kernel's cases for an object's pages, by their
 * names, for ours.
 *
 * Without a meaning here: ttm_tt_fini_sg, ttm_tt_fini_shmem (kinds of pages there),
 * ttm_tt_create_invalid_bo_type (there is one kind of object), ttm_tt_populate_null_ttm (an object
 * without memory is an ordinary one).
 */
#include "core/bo_batch.h"

#include "check.h"
#include "core/bo_device.h"
#include "fake_owner.h"

#include <errno.h>

#define MIB(n) (UINT64_C(n) << 20)

static void ttm_tt_init_basic(void **state)
{
	struct owner *owner = *state;
	struct owned a;

	owner_make(owner, &a, MIB(2));
	assert_int_equal(a.bo.bytes, MIB(2));
	assert_int_equal(a.bo.memory.bytes, 0);
	assert_int_equal(owner->steps, 0);
	bo_put(&a.bo);
}

static void ttm_tt_init_misaligned(void **state)
{
	struct owner *owner = *state;
	struct owned a;

	owner->unit = MIB(2);
	owner_make_in(owner, &a, MIB(2) + 1, BO_VRAM);
	assert_int_equal(a.bo.bytes, MIB(2) + 1);
	assert_int_equal(a.bo.memory.bytes, MIB(4));
	bo_put(&a.bo);
}

static void ttm_tt_fini_basic(void **state)
{
	struct owner *owner = *state;
	struct owned a;

	owner_make_in(owner, &a, MIB(2), BO_VRAM);
	bo_put(&a.bo);
	assert_int_equal(a.bo.memory.bytes, 0);
	assert_int_equal(owner->taken[BO_VRAM], 0);
}

static void ttm_tt_create_basic(void **state)
{
	struct owner *owner = *state;
	struct owned a;

	owner_make_in(owner, &a, MIB(2), BO_SYSTEM);
	assert_int_equal(owner->taken[BO_SYSTEM], MIB(2));
	assert_int_equal(a.mapped, a.bo.memory.handle);
	bo_put(&a.bo);
}

/* What is there stays as it is. */
static void ttm_tt_create_ttm_exists(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned a;
	uint64_t handle;

	owner_make_in(owner, &a, MIB(2), BO_SYSTEM);
	handle = a.bo.memory.handle;
	assert_ok(owner_place(&a, &owner_in[BO_SYSTEM], &ctx));
	assert_int_equal(a.bo.memory.handle, handle);
	bo_put(&a.bo);
}

static void ttm_tt_create_failed(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned a;

	owner_make(owner, &a, MIB(2));
	owner->alloc_rc[BO_SYSTEM] = -ENOMEM;
	assert_int_equal(owner_place(&a, &owner_in[BO_SYSTEM], &ctx), -ENOMEM);
	assert_int_equal(a.bo.place, BO_NONE);
	assert_int_equal(bo_device_used(&owner->device, BO_SYSTEM), 0);
	bo_put(&a.bo);
}

static void ttm_tt_destroy_basic(void **state)
{
	struct owner *owner = *state;
	struct owned a;

	owner_make_in(owner, &a, MIB(2), BO_SYSTEM);
	bo_put(&a.bo);
	assert_true(a.is_destroyed);
	assert_int_equal(owner->taken[BO_SYSTEM], 0);
}

static void ttm_tt_populate_populated_ttm(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned a;
	unsigned steps;

	owner_make_in(owner, &a, MIB(2), BO_GTT);
	steps = owner->steps;
	assert_ok(owner_place(&a, &owner_in[BO_GTT], &ctx));
	assert_int_equal(owner->steps, steps);
	bo_put(&a.bo);
}

static void ttm_tt_unpopulate_basic(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned a;

	owner_make_in(owner, &a, MIB(2), BO_GTT);
	assert_ok(owner_place(&a, &owner_nowhere, &ctx));
	assert_int_equal(a.mapped, 0);
	assert_int_equal(owner->taken[BO_GTT], 0);
	/* It can be used again. */
	assert_ok(owner_place(&a, &owner_in[BO_GTT], &ctx));
	assert_int_equal(owner->taken[BO_GTT], MIB(2));
	bo_put(&a.bo);
}

static void ttm_tt_unpopulate_empty_ttm(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned a;

	owner_make(owner, &a, MIB(2));
	assert_ok(owner_place(&a, &owner_nowhere, &ctx));
	assert_int_equal(owner->steps, 0);
	bo_put(&a.bo);
}

static void ttm_tt_swapin_basic(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned a;
	uint64_t gone_bytes;

	owner->evict_to[BO_VRAM] = &owner_in[BO_SYSTEM];
	owner_make_in(owner, &a, MIB(8), BO_VRAM);
	assert_ok(bo_evict(&owner->device, BO_VRAM, UINT64_MAX, &ctx, &gone_bytes));
	assert_int_equal(gone_bytes, MIB(8));
	assert_int_equal(a.bo.place, BO_SYSTEM);
	assert_int_equal(owner->taken[BO_VRAM], 0);
	assert_ok(owner_place(&a, &owner_in[BO_VRAM], &ctx));
	assert_int_equal(owner->taken[BO_SYSTEM], 0);
	assert_int_equal(ctx.moved_bytes, MIB(16));
	owner_look(owner, &a);
	bo_put(&a.bo);
}

static void each_of_a_batch_has_its_own_end(void **state)
{
	enum { MANY = 3 * BO_BATCH_OWN };
	struct owner *owner = *state;
	struct owned all[MANY];
	struct bo_batch batch;
	struct bo_memory memory;
	uint64_t gains;

	bo_batch_init(&batch, &owner->device);
	assert_int_equal(bo_batch_run(&batch), 0);
	for (unsigned i = 0; i < MANY; i++) {
		owner_make_in(owner, &all[i], MIB(2), BO_VRAM);
		assert_ok(bo_reserve(&all[i].bo, NULL));
		all[i].move_rc = i % 3 == 1 ? -EBUSY : i % 3 == 2 ? -EIO : 0;
		assert_true(bo_batch_has_room(&batch));
		assert_ok(bo_device_take(&all[i].bo, BO_GTT, &memory, &gains));
		bo_batch_add(&batch, &all[i].bo, BO_GTT, memory);
	}
	assert_int_equal(bo_batch_run(&batch), MIB(2) * MANY / 3);
	for (unsigned i = 0; i < MANY; i++) {
		assert_int_equal(all[i].bo.place, i % 3 == 1 ? BO_VRAM :
						  i % 3 == 2 ? BO_NONE :
							       BO_GTT);
		assert_int_equal(all[i].bo.is_lost, i % 3 == 2);
		owner_look(owner, &all[i]);
		bo_unreserve(&all[i].bo);
		bo_put(&all[i].bo);
	}
	bo_batch_fini(&batch);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, owner_setup, owner_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ttm_tt_init_basic),        TEST(ttm_tt_init_misaligned),
		TEST(ttm_tt_fini_basic),        TEST(ttm_tt_create_basic),
		TEST(ttm_tt_create_ttm_exists), TEST(ttm_tt_create_failed),
		TEST(ttm_tt_destroy_basic),     TEST(ttm_tt_populate_populated_ttm),
		TEST(ttm_tt_unpopulate_basic),  TEST(ttm_tt_unpopulate_empty_ttm),
		TEST(ttm_tt_swapin_basic),      TEST(each_of_a_batch_has_its_own_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
