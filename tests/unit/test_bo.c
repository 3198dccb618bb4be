/*
 * The kernel's cases for a buffer object, by their names, for ours. Those about reservations are in
 * test_bo_reserve.c.
 */
#include "core/bo.h"

#include "check.h"
#include "core/bo_bulk.h"
#include "fake_owner.h"

#include <errno.h>

#define MIB(n) (UINT64_C(n) << 20)

static struct bo *last_of(struct owner *owner, enum bo_place place, unsigned priority)
{
	return TAILQ_LAST(&owner->device.managers[place].lru[priority], bo_list);
}

static void an_object_begins_nowhere(void **state)
{
	struct owner *owner = *state;
	struct owned a;

	owner_make(owner, &a, MIB(2));
	assert_int_equal(a.bo.place, BO_NONE);
	assert_ptr_equal(a.bo.list, &owner->device.unplaced);
	assert_int_equal(bo_device_fini(&owner->device), -EBUSY);
	bo_put(&a.bo);
	assert_true(a.is_destroyed);
	assert_int_equal(owner->moves, 0);
}

static void ttm_bo_unreserve_basic(void **state)
{
	struct owner *owner = *state;
	struct owned a, b, other;

	owner_make_in(owner, &a, MIB(2), BO_VRAM);
	owner_make_in(owner, &b, MIB(2), BO_VRAM);
	owner_make_in(owner, &other, MIB(2), BO_VRAM);
	bo_set_priority(&other.bo, 1);
	assert_ptr_equal(last_of(owner, BO_VRAM, 0), &b.bo);
	assert_ok(bo_reserve(&a.bo, NULL));
	bo_unreserve(&a.bo);
	assert_ptr_equal(last_of(owner, BO_VRAM, 0), &a.bo);
	assert_ptr_equal(last_of(owner, BO_VRAM, 1), &other.bo);
	bo_touch(&b.bo);
	assert_ptr_equal(last_of(owner, BO_VRAM, 0), &b.bo);
	bo_put(&a.bo);
	bo_put(&b.bo);
	bo_put(&other.bo);
}

static void ttm_bo_unreserve_pinned(void **state)
{
	struct owner *owner = *state;
	struct owned a, b;

	owner_make_in(owner, &a, MIB(2), BO_VRAM);
	owner_make_in(owner, &b, MIB(2), BO_GTT);
	assert_ok(bo_reserve(&a.bo, NULL));
	bo_pin(&a.bo);
	bo_unreserve(&a.bo);
	assert_ptr_equal(a.bo.list, &owner->device.pinned);
	assert_ok(bo_reserve(&b.bo, NULL));
	bo_pin(&b.bo);
	bo_unreserve(&b.bo);
	assert_ptr_equal(TAILQ_LAST(&owner->device.pinned, bo_list), &b.bo);
	bo_put(&a.bo);
	bo_put(&b.bo);
}

static void ttm_bo_unreserve_bulk(void **state)
{
	struct owner *owner = *state;
	struct bo_bulk bulk;
	struct owned a, b;

	bo_bulk_init(&bulk, &owner->device);
	owner_make_in(owner, &a, MIB(2), BO_VRAM);
	owner_make_in(owner, &b, MIB(2), BO_VRAM);
	bo_bulk_set(&bulk, &a.bo);
	bo_bulk_set(&bulk, &b.bo);
	assert_ptr_equal(bulk.runs[BO_VRAM][0].last, &b.bo);
	assert_ok(bo_reserve(&a.bo, NULL));
	bo_unreserve(&a.bo);
	assert_ptr_equal(bulk.runs[BO_VRAM][0].first, &b.bo);
	assert_ptr_equal(bulk.runs[BO_VRAM][0].last, &a.bo);
	bo_put(&a.bo);
	bo_put(&b.bo);
	assert_null(bulk.runs[BO_VRAM][0].first);
}

static void ttm_bo_put_basic(void **state)
{
	struct owner *owner = *state;
	struct owned a;

	owner_make_in(owner, &a, MIB(4), BO_VRAM);
	assert_ptr_equal(bo_get(&a.bo), &a.bo);
	bo_put(&a.bo);
	assert_false(a.is_destroyed);
	assert_int_equal(bo_device_used(&owner->device, BO_VRAM), MIB(4));
	bo_put(&a.bo);
	assert_true(a.is_destroyed);
	assert_int_equal(bo_device_used(&owner->device, BO_VRAM), 0);
}

/* What is shared here is the fence alone: each object has a reservation of its own. */
static void ttm_bo_put_shared_resv(void **state)
{
	struct owner *owner = *state;
	struct owned a, b;

	owner_make_in(owner, &a, MIB(4), BO_VRAM);
	owner_make_in(owner, &b, MIB(4), BO_VRAM);
	bo_add_fence(&a.bo, 1);
	bo_add_fence(&b.bo, 1);
	owner_finish(owner, 1);
	bo_put(&a.bo);
	assert_true(a.is_destroyed);
	assert_false(b.is_destroyed);
	bo_put(&b.bo);
	assert_true(b.is_destroyed);
	assert_int_equal(owner->waits, 0);
}

static void what_work_uses_outlives_its_last_reference(void **state)
{
	struct owner *owner = *state;
	struct owned a;

	owner_make_in(owner, &a, MIB(4), BO_VRAM);
	bo_add_fence(&a.bo, 3);
	bo_add_fence(&a.bo, 2);
	bo_put(&a.bo);
	assert_false(a.is_destroyed);
	assert_int_equal(bo_device_used(&owner->device, BO_VRAM), MIB(4));
	owner_finish(owner, 2);
	assert_true(bo_reap(&owner->device));
	assert_false(a.is_destroyed);
	owner_finish(owner, 3);
	assert_false(bo_reap(&owner->device));
	assert_true(a.is_destroyed);
	assert_int_equal(bo_device_used(&owner->device, BO_VRAM), 0);
}

static void what_cannot_be_unmapped_is_tried_again(void **state)
{
	struct owner *owner = *state;
	struct owned a;

	owner_make_in(owner, &a, MIB(4), BO_VRAM);
	a.move_rc = -EBUSY;
	bo_put(&a.bo);
	assert_false(a.is_destroyed);
	assert_int_equal(bo_device_used(&owner->device, BO_VRAM), MIB(4));
	assert_false(bo_reap(&owner->device));
	assert_true(a.is_destroyed);
}

/* Nobody should; the end comes later then. */
static void the_last_reference_to_what_is_reserved(void **state)
{
	struct owner *owner = *state;
	struct owned a;

	owner_make_in(owner, &a, MIB(4), BO_VRAM);
	assert_ok(bo_reserve(&a.bo, NULL));
	bo_put(&a.bo);
	assert_false(a.is_destroyed);
	assert_true(bo_reap(&owner->device));
	bo_unreserve(&a.bo);
	assert_false(bo_reap(&owner->device));
	assert_true(a.is_destroyed);
}

/* Freeing works in each state. */
static void put_works_in_every_state(void **state)
{
	struct owner *owner = *state;
	struct owned all[BO_PLACES][3];

	for (unsigned place = BO_VRAM; place < BO_PLACES; place++)
		for (unsigned i = 0; i < 3; i++)
			owner_make_in(owner, &all[place][i], MIB(2), (enum bo_place)place);
	for (unsigned place = BO_VRAM; place < BO_PLACES; place++) {
		assert_ok(bo_reserve(&all[place][0].bo, NULL));
		bo_pin(&all[place][0].bo);
		bo_unreserve(&all[place][0].bo);
		bo_add_fence(&all[place][1].bo, 1);
		for (unsigned i = 0; i < 3; i++)
			bo_put(&all[place][i].bo);
		assert_true(all[place][0].is_destroyed);
		assert_false(all[place][1].is_destroyed);
		assert_true(all[place][2].is_destroyed);
	}
	owner_finish(owner, 1);
	assert_false(bo_reap(&owner->device));
	assert_int_equal(owner->destroyed, 9);
}

static void ttm_bo_pin_basic(void **state)
{
	struct owner *owner = *state;
	struct owned a;

	owner_make_in(owner, &a, MIB(2), BO_VRAM);
	assert_ok(bo_reserve(&a.bo, NULL));
	for (unsigned i = 0; i < 3; i++)
		bo_pin(&a.bo);
	bo_unreserve(&a.bo);
	assert_int_equal(a.bo.pins, 3);
	bo_put(&a.bo);
}

static void ttm_bo_pin_unpin_resource(void **state)
{
	struct owner *owner = *state;
	struct bo_bulk bulk;
	struct owned a;

	bo_bulk_init(&bulk, &owner->device);
	owner_make_in(owner, &a, MIB(2), BO_VRAM);
	bo_bulk_set(&bulk, &a.bo);
	assert_ptr_equal(bulk.runs[BO_VRAM][0].first, &a.bo);
	assert_ok(bo_reserve(&a.bo, NULL));
	bo_pin(&a.bo);
	bo_unreserve(&a.bo);
	assert_null(bulk.runs[BO_VRAM][0].first);
	assert_ptr_equal(a.bo.list, &owner->device.pinned);
	assert_ok(bo_reserve(&a.bo, NULL));
	bo_unpin(&a.bo);
	bo_unreserve(&a.bo);
	assert_ptr_equal(bulk.runs[BO_VRAM][0].first, &a.bo);
	assert_ptr_equal(last_of(owner, BO_VRAM, 0), &a.bo);
	bo_put(&a.bo);
}

static void ttm_bo_multiple_pin_one_unpin(void **state)
{
	struct owner *owner = *state;
	struct bo_bulk bulk;
	struct owned a;

	bo_bulk_init(&bulk, &owner->device);
	owner_make_in(owner, &a, MIB(2), BO_VRAM);
	bo_bulk_set(&bulk, &a.bo);
	assert_ok(bo_reserve(&a.bo, NULL));
	bo_pin(&a.bo);
	bo_pin(&a.bo);
	bo_unpin(&a.bo);
	bo_unreserve(&a.bo);
	assert_int_equal(a.bo.pins, 1);
	assert_ptr_equal(a.bo.list, &owner->device.pinned);
	assert_null(bulk.runs[BO_VRAM][0].first);
	bo_unpin(&a.bo);
	assert_ptr_equal(last_of(owner, BO_VRAM, 0), &a.bo);
	bo_unpin(&a.bo);
	assert_int_equal(a.bo.pins, 0);
	bo_put(&a.bo);
}

static void a_wait_is_for_what_was_noted(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .no_wait = true };
	struct owned a;

	owner_make_in(owner, &a, MIB(2), BO_VRAM);
	assert_ok(bo_wait(&a.bo, &ctx));
	bo_add_fence(&a.bo, 5);
	assert_int_equal(bo_wait(&a.bo, &ctx), -EBUSY);
	owner->wait_rc = -EBUSY;
	assert_int_equal(bo_wait(&a.bo, NULL), -EBUSY);
	owner->wait_rc = 0;
	assert_ok(bo_wait(&a.bo, NULL));
	assert_ok(bo_wait(&a.bo, &ctx));
	bo_put(&a.bo);
}

static void a_priority_is_one_of_few(void **state)
{
	struct owner *owner = *state;
	struct owned a;

	owner_make_in(owner, &a, MIB(2), BO_VRAM);
	bo_set_priority(&a.bo, 7);
	assert_ptr_equal(last_of(owner, BO_VRAM, BO_PRIORITIES - 1), &a.bo);
	bo_set_priority(&a.bo, 0);
	assert_ptr_equal(last_of(owner, BO_VRAM, 0), &a.bo);
	bo_pin(&a.bo);
	bo_set_priority(&a.bo, 2);
	assert_ptr_equal(a.bo.list, &owner->device.pinned);
	bo_unpin(&a.bo);
	assert_ptr_equal(last_of(owner, BO_VRAM, 2), &a.bo);
	bo_put(&a.bo);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, owner_setup, owner_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_object_begins_nowhere),
		TEST(ttm_bo_unreserve_basic),
		TEST(ttm_bo_unreserve_pinned),
		TEST(ttm_bo_unreserve_bulk),
		TEST(ttm_bo_put_basic),
		TEST(ttm_bo_put_shared_resv),
		TEST(what_work_uses_outlives_its_last_reference),
		TEST(what_cannot_be_unmapped_is_tried_again),
		TEST(the_last_reference_to_what_is_reserved),
		TEST(put_works_in_every_state),
		TEST(ttm_bo_pin_basic),
		TEST(ttm_bo_pin_unpin_resource),
		TEST(ttm_bo_multiple_pin_one_unpin),
		TEST(a_wait_is_for_what_was_noted),
		TEST(a_priority_is_one_of_few),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
