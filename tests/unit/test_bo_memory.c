/*
 * No memory of our own for lists that are longer than a few: everything goes on in smaller parts,
 * or is refused, and nothing is lost.
 */
#include "core/bo_batch.h"
#include "core/bo_exec.h"
#include "core/bo_pool.h"

#include "check.h"
#include "fake_owner.h"

#include <errno.h>

#define MIB(n) (UINT64_C(n) << 20)

enum { MANY = 4 * BO_BATCH_OWN };

static bool is_refused; /* to malloc() */

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
	return is_refused ? NULL : __real_malloc(bytes);
}

static struct owned all[MANY];
static struct bo *objects[MANY];

static void make_all(struct owner *owner, enum bo_place place)
{
	for (unsigned i = 0; i < MANY; i++) {
		owner_make_in(owner, &all[i], MIB(2), place);
		objects[i] = &all[i].bo;
	}
}

static void expect_all(struct owner *owner, enum bo_place place)
{
	for (unsigned i = 0; i < MANY; i++) {
		assert_int_equal(all[i].bo.place, place);
		owner_look(owner, &all[i]);
	}
}

static void put_all(void)
{
	for (unsigned i = 0; i < MANY; i++)
		bo_put(&all[i].bo);
}

static void many_move_in_parts(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	unsigned moves;

	make_all(owner, BO_SYSTEM);
	for (unsigned i = 0; i < MANY; i++)
		assert_ok(bo_reserve(objects[i], NULL));
	moves = owner->moves;
	is_refused = true;
	assert_ok(bo_validate_all(objects, MANY, &owner_in[BO_VRAM], &ctx));
	is_refused = false;
	assert_int_equal(owner->moves, moves + MANY / BO_BATCH_OWN);
	assert_int_equal(ctx.moved_bytes, MIB(2) * MANY);
	expect_all(owner, BO_VRAM);
	/* An error in one part ends it before the next. */
	all[2].move_rc = -EBUSY;
	is_refused = true;
	assert_int_equal(bo_validate_all(objects, MANY, &owner_in[BO_GTT], &ctx), -EBUSY);
	is_refused = false;
	for (unsigned i = 0; i < MANY; i++) {
		bool has_gone = i < BO_BATCH_OWN && i != 2;

		assert_int_equal(all[i].bo.place, has_gone ? BO_GTT : BO_VRAM);
		bo_unreserve(objects[i]);
	}
	put_all();
}

static void many_leave_in_parts(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	uint64_t gone_bytes;

	make_all(owner, BO_VRAM);
	is_refused = true;
	assert_ok(bo_evict(&owner->device, BO_VRAM, UINT64_MAX, &ctx, &gone_bytes));
	is_refused = false;
	assert_int_equal(gone_bytes, MIB(2) * MANY);
	expect_all(owner, BO_GTT);
	put_all();
}

static void many_end_in_parts(void **state)
{
	struct owner *owner = *state;
	unsigned calls = 0;

	make_all(owner, BO_VRAM);
	for (unsigned i = 0; i < MANY; i++)
		bo_add_fence(objects[i], 1);
	put_all();
	owner_finish(owner, 1);
	is_refused = true;
	while (bo_reap(&owner->device))
		calls++;
	is_refused = false;
	assert_in_range(calls, 1, MANY / BO_BATCH_OWN);
	assert_int_equal(owner->destroyed, MANY);
}

/* Who refuses cannot be noted beyond a few: the attempt ends there, instead of asking for ever. */
static void an_attempt_ends(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned a;
	unsigned moved;

	bo_device_set_limit(&owner->device, BO_VRAM, MIB(2) * MANY);
	make_all(owner, BO_VRAM);
	for (unsigned i = 0; i < MANY; i++)
		all[i].move_rc = -EBUSY;
	owner_make(owner, &a, MIB(2));
	moved = owner->moved;
	is_refused = true;
	assert_int_equal(owner_place(&a, &owner_in[BO_VRAM], &ctx), -EBUSY);
	is_refused = false;
	assert_in_range(owner->moved - moved, BO_BATCH_OWN, 2 * BO_BATCH_OWN);
	expect_all(owner, BO_VRAM);
	for (unsigned i = 0; i < MANY; i++)
		all[i].move_rc = 0;
	bo_put(&a.bo);
	put_all();
}

static void who_has_too_many_is_told(void **state)
{
	struct owner *owner = *state;
	struct bo_exec exec;
	int rc;

	make_all(owner, BO_VRAM);
	bo_exec_begin(&exec, false);
	is_refused = true;
	rc = bo_exec_reserve_all(&exec, objects, MANY);
	is_refused = false;
	assert_int_equal(rc, -ENOMEM);
	assert_false(bo_exec_again(&exec, &rc));
	assert_int_equal(exec.count, BO_EXEC_OWN);
	assert_false(objects[BO_EXEC_OWN]->is_reserved);
	bo_exec_end(&exec);
	for (unsigned i = 0; i < MANY; i++)
		assert_false(objects[i]->is_reserved);
	put_all();
}

static void what_cannot_be_kept_is_not(void **state)
{
	struct bo_pool pool;
	uint64_t handle;

	(void)state;
	bo_pool_init(&pool, MIB(64));
	is_refused = true;
	assert_false(bo_pool_give(&pool, MIB(2), 1));
	is_refused = false;
	assert_int_equal(bo_pool_kept(&pool), 0);
	assert_false(bo_pool_take(&pool, MIB(2), &handle));
	bo_pool_fini(&pool);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, owner_setup, owner_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(many_move_in_parts),       TEST(many_leave_in_parts),
		TEST(many_end_in_parts),        TEST(an_attempt_ends),
		TEST(who_has_too_many_is_told), cmocka_unit_test(what_cannot_be_kept_is_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
