#include "core/bo.h"

#include "check.h"
#include "core/bo_ticket.h"
#include "fake_owner.h"

#include <errno.h>

#define MIB(n) (UINT64_C(n) << 20)

static struct owner owner;

static int begin(void **state)
{
	(void)state;
	owner_begin(&owner);
	return 0;
}

static int end(void **state)
{
	(void)state;
	owner_end(&owner);
	return 0;
}

/* In a place, and nobody's. */
static void make_in(struct owned *owned, uint64_t bytes, enum bo_place place)
{
	struct bo_ctx ctx = { .ticket = NULL };

	owner_make(&owner, owned, bytes);
	assert_ok(bo_reserve(&owned->bo, &ctx));
	assert_ok(bo_validate(&owned->bo, &owner_in[place], &ctx));
	bo_unreserve(&owned->bo);
	owner_fill(&owner, owned, (uintptr_t)owned | 1);
}

static void an_object_begins_nowhere(void **state)
{
	struct owned a;

	(void)state;
	owner_make(&owner, &a, MIB(2));
	assert_int_equal(a.bo.place, BO_NONE);
	assert_ptr_equal(a.bo.list, &owner.device.unplaced);
	assert_int_equal(bo_device_fini(&owner.device), -EBUSY);
	bo_put(&a.bo);
	assert_true(a.is_destroyed);
	assert_int_equal(owner.moves, 0);
}

static void memory_comes_and_goes(void **state)
{
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned a;

	(void)state;
	make_in(&a, MIB(4), BO_VRAM);
	assert_int_equal(bo_device_used(&owner.device, BO_VRAM), MIB(4));
	assert_ok(bo_reserve(&a.bo, &ctx));
	assert_ok(bo_validate(&a.bo, &owner_in[BO_GTT], &ctx));
	assert_int_equal(ctx.moved_bytes, MIB(4));
	owner_look(&owner, &a);
	assert_int_equal(bo_device_used(&owner.device, BO_VRAM), 0);
	assert_int_equal(bo_device_used(&owner.device, BO_GTT), MIB(4));
	bo_unreserve(&a.bo);
	bo_put(&a.bo);
	assert_true(a.is_destroyed);
	assert_int_equal(bo_device_used(&owner.device, BO_GTT), 0);
}

static void what_was_used_least_makes_room(void **state)
{
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned a, b, c;

	(void)state;
	owner.room[BO_VRAM] = MIB(8);
	make_in(&a, MIB(4), BO_VRAM);
	make_in(&b, MIB(4), BO_VRAM);
	bo_touch(&a.bo);
	make_in(&c, MIB(4), BO_VRAM);
	assert_int_equal(a.bo.place, BO_VRAM);
	assert_int_equal(b.bo.place, BO_GTT);
	owner_look(&owner, &b);
	assert_ok(bo_reserve(&b.bo, &ctx));
	assert_ok(bo_validate(&b.bo, &owner_in[BO_VRAM], &ctx));
	bo_unreserve(&b.bo);
	assert_int_equal(ctx.moved_bytes, MIB(8));
	assert_int_equal(a.bo.place, BO_GTT);
	owner_look(&owner, &a);
	owner_look(&owner, &b);
	bo_put(&a.bo);
	bo_put(&b.bo);
	bo_put(&c.bo);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_object_begins_nowhere, begin, end),
		cmocka_unit_test_setup_teardown(memory_comes_and_goes, begin, end),
		cmocka_unit_test_setup_teardown(what_was_used_least_makes_room, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
