#include "core/bo_bulk.h"

#include "check.h"
#include "fake_owner.h"

#define MIB(n) (UINT64_C(n) << 20)

enum { COUNT = 6 };

/* The list of a place and priority, as the numbers of the objects in all[], 'a' for the first. */
static void expect_order(struct owner *owner, enum bo_place place, unsigned priority,
			 struct owned *all, const char *expected)
{
	char order[COUNT + 1] = "";
	unsigned count = 0;
	struct bo *bo;

	TAILQ_FOREACH(bo, &owner->device.managers[place].lru[priority], in_list)
		order[count++] = (char)('a' + ((struct owned *)bo->user - all));
	assert_string_equal(order, expected);
}

static void make_all(struct owner *owner, struct owned *all)
{
	for (unsigned i = 0; i < COUNT; i++)
		owner_make_in(owner, &all[i], MIB(2), BO_VRAM);
}

static void put_all(struct owned *all)
{
	for (unsigned i = 0; i < COUNT; i++)
		bo_put(&all[i].bo);
}

static void a_bulk_stands_together(void **state)
{
	struct owner *owner = *state;
	struct owned all[COUNT];
	struct bo_bulk bulk;

	bo_bulk_init(&bulk, &owner->device);
	make_all(owner, all);
	bo_bulk_set(&bulk, &all[1].bo);
	bo_bulk_set(&bulk, &all[3].bo);
	bo_bulk_set(&bulk, &all[0].bo);
	expect_order(owner, BO_VRAM, 0, all, "cefbda");
	bo_touch(&all[2].bo);
	bo_bulk_touch(&bulk);
	expect_order(owner, BO_VRAM, 0, all, "efcbda");
	bo_bulk_touch(&bulk);
	expect_order(owner, BO_VRAM, 0, all, "efcbda");
	bo_touch(&all[4].bo);
	/* One of them goes last of the bulk, which stays where it is. */
	bo_touch(&all[1].bo);
	expect_order(owner, BO_VRAM, 0, all, "fcdabe");
	bo_bulk_set(NULL, &all[3].bo);
	expect_order(owner, BO_VRAM, 0, all, "fcabed");
	bo_bulk_touch(&bulk);
	expect_order(owner, BO_VRAM, 0, all, "fcedab");
	put_all(all);
}

static void the_first_and_all_of_a_list(void **state)
{
	struct owner *owner = *state;
	struct owned all[COUNT];
	struct bo_bulk bulk;

	bo_bulk_init(&bulk, &owner->device);
	make_all(owner, all);
	bo_bulk_touch(&bulk);
	bo_bulk_set(&bulk, &all[5].bo);
	bo_bulk_set(&bulk, &all[4].bo);
	for (unsigned i = 0; i < 4; i++)
		bo_touch(&all[i].bo);
	expect_order(owner, BO_VRAM, 0, all, "feabcd");
	bo_bulk_touch(&bulk);
	expect_order(owner, BO_VRAM, 0, all, "abcdfe");
	for (unsigned i = 0; i < 4; i++)
		bo_bulk_set(&bulk, &all[i].bo);
	bo_bulk_touch(&bulk);
	expect_order(owner, BO_VRAM, 0, all, "feabcd");
	put_all(all);
}

static void a_bulk_has_a_run_in_each_list(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned all[COUNT];
	struct bo_bulk bulk, other;

	bo_bulk_init(&bulk, &owner->device);
	bo_bulk_init(&other, &owner->device);
	make_all(owner, all);
	for (unsigned i = 0; i < 4; i++)
		bo_bulk_set(&bulk, &all[i].bo);
	assert_ok(owner_place(&all[1], &owner_in[BO_GTT], &ctx));
	assert_ok(owner_place(&all[4], &owner_in[BO_GTT], &ctx));
	bo_set_priority(&all[2].bo, 1);
	bo_set_priority(&all[5].bo, 1);
	bo_bulk_touch(&bulk);
	expect_order(owner, BO_VRAM, 0, all, "ad");
	expect_order(owner, BO_VRAM, 1, all, "fc");
	expect_order(owner, BO_GTT, 0, all, "eb");
	/* In one bulk only. */
	bo_bulk_set(&other, &all[0].bo);
	assert_ptr_equal(bulk.runs[BO_VRAM][0].first, &all[3].bo);
	assert_ptr_equal(other.runs[BO_VRAM][0].first, &all[0].bo);
	put_all(all);
}

static void who_is_deleted_has_left(void **state)
{
	struct owner *owner = *state;
	struct owned all[COUNT];
	struct bo_bulk bulk;

	bo_bulk_init(&bulk, &owner->device);
	make_all(owner, all);
	bo_bulk_set(&bulk, &all[0].bo);
	bo_add_fence(&all[0].bo, 1);
	bo_get(&all[0].bo);
	bo_put(&all[0].bo);
	bo_put(&all[0].bo);
	assert_false(all[0].is_destroyed);
	assert_null(all[0].bo.bulk);
	assert_null(bulk.runs[BO_VRAM][0].first);
	bo_bulk_set(&bulk, &all[0].bo);
	assert_null(all[0].bo.bulk);
	owner_finish(owner, 1);
	assert_false(bo_reap(&owner->device));
	for (unsigned i = 1; i < COUNT; i++)
		bo_put(&all[i].bo);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, owner_setup, owner_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_bulk_stands_together),
		TEST(the_first_and_all_of_a_list),
		TEST(a_bulk_has_a_run_in_each_list),
		TEST(who_is_deleted_has_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
