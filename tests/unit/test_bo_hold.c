#include "core/bo_hold.h"

#include "check.h"
#include "fake_owner.h"

#include <errno.h>
#include <stdlib.h>

#define MIB(n) (UINT64_C(n) << 20)
enum { OBJECTS = 100 };

static struct owner owner;
static struct owned objects[OBJECTS];

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

static void make_in(struct owned *owned, uint64_t bytes, enum bo_place place)
{
	struct bo_ctx ctx = { .ticket = NULL };

	owner_make(&owner, owned, bytes);
	assert_ok(bo_reserve(&owned->bo, &ctx));
	assert_ok(bo_validate(&owned->bo, &owner_in[place], &ctx));
	bo_unreserve(&owned->bo);
	owner_fill(&owner, owned, (uintptr_t)owned | 1);
}

static void make_all(void)
{
	for (unsigned i = 0; i < OBJECTS; i++)
		make_in(&objects[i], MIB(2), i % 4 ? BO_VRAM : BO_GTT);
}

/* All are whole, and work reaches them. */
static void put_all(void)
{
	for (unsigned i = 0; i < OBJECTS; i++) {
		assert_true(objects[i].bo.place == BO_VRAM || objects[i].bo.place == BO_GTT);
		owner_look(&owner, &objects[i]);
		bo_put(&objects[i].bo);
	}
	assert_null(owner_wrong(&owner));
}

static void all_leaves_and_comes_back(void **state)
{
	struct bo_ctx ctx = { .ticket = NULL };

	(void)state;
	make_all();
	assert_int_equal(bo_hold_bytes(&owner.device), OBJECTS / 4 * 3 * MIB(2));
	assert_ok(bo_hold(&owner.device, &ctx));
	assert_int_equal(bo_hold_bytes(&owner.device), 0);
	assert_int_equal(bo_device_used(&owner.device, BO_VRAM), 0);
	assert_int_equal(bo_device_used(&owner.device, BO_SYSTEM), OBJECTS / 4 * 3 * MIB(2));
	assert_int_equal(bo_device_used(&owner.device, BO_GTT), OBJECTS / 4 * MIB(2));
	assert_ok(bo_unhold(&owner.device, &ctx));
	assert_int_equal(bo_device_used(&owner.device, BO_SYSTEM), 0);
	assert_int_equal(bo_device_used(&owner.device, BO_VRAM), OBJECTS / 4 * 3 * MIB(2));
	put_all();
}

/* So much as is said moves at once. */
static void as_much_moves_at_a_time_as_is_said(void **state)
{
	static const uint64_t batch_bytes[] = { 0, UINT64_MAX };
	static const unsigned parts[] = { 3, 1 };
	enum { LARGE = 5 };

	(void)state;
	for (unsigned i = 0; i < LARGE; i++)
		make_in(&objects[i], MIB(2048), BO_VRAM);
	for (unsigned k = 0; k < 2; k++) {
		struct bo_ctx ctx = { .batch_bytes = batch_bytes[k] };
		unsigned moves = owner.moves;

		assert_ok(bo_hold(&owner.device, &ctx));
		assert_int_equal(owner.moves - moves, parts[k]);
		moves = owner.moves;
		assert_ok(bo_unhold(&owner.device, &ctx));
		assert_int_equal(owner.moves - moves, parts[k]);
	}
	for (unsigned i = 0; i < LARGE; i++) {
		owner_look(&owner, &objects[i]);
		bo_put(&objects[i].bo);
	}
}

/* Nothing is left that work reaches. */
static void all_leaves_from_everywhere(void **state)
{
	struct bo_ctx ctx = { .ticket = NULL };

	(void)state;
	make_all();
	bo_pin(&objects[0].bo);
	assert_ok(bo_hold_all(&owner.device, &ctx));
	assert_int_equal(bo_device_used(&owner.device, BO_VRAM), 0);
	assert_int_equal(bo_device_used(&owner.device, BO_GTT), MIB(2));
	assert_int_equal(bo_device_used(&owner.device, BO_SYSTEM), (OBJECTS - 1) * MIB(2));
	bo_unpin(&objects[0].bo);
	owner.room[BO_SYSTEM] = (OBJECTS - 1) * MIB(2);
	assert_int_equal(bo_hold_all(&owner.device, &ctx), -ENOMEM);
	assert_ok(bo_unhold(&owner.device, &ctx));
	assert_int_equal(bo_device_used(&owner.device, BO_SYSTEM), 0);
	put_all();
}

static void pinned_ones_stay(void **state)
{
	struct bo_ctx ctx = { .ticket = NULL };

	(void)state;
	make_all();
	bo_pin(&objects[1].bo);
	assert_ok(bo_hold(&owner.device, &ctx));
	assert_int_equal(bo_device_used(&owner.device, BO_VRAM), MIB(2));
	assert_int_equal(objects[1].bo.place, BO_VRAM);
	assert_ok(bo_unhold(&owner.device, &ctx));
	bo_unpin(&objects[1].bo);
	put_all();
}

static void without_room_in_the_host_it_stays(void **state)
{
	struct bo_ctx ctx = { .ticket = NULL };

	(void)state;
	make_all();
	owner.room[BO_SYSTEM] = MIB(20);
	assert_int_equal(bo_hold(&owner.device, &ctx), -ENOMEM);
	assert_int_equal(bo_device_used(&owner.device, BO_SYSTEM), MIB(20));
	assert_ok(bo_unhold(&owner.device, &ctx));
	put_all();
}

/* Another tenant took the room meanwhile. */
static void what_has_no_room_comes_back_over_the_link(void **state)
{
	struct bo_ctx ctx = { .ticket = NULL };

	(void)state;
	make_all();
	assert_ok(bo_hold(&owner.device, &ctx));
	owner.room[BO_VRAM] = MIB(30);
	assert_ok(bo_unhold(&owner.device, &ctx));
	assert_int_equal(bo_device_used(&owner.device, BO_VRAM), MIB(30));
	assert_int_equal(bo_device_used(&owner.device, BO_SYSTEM), 0);
	put_all();
}

static void with_room_nowhere_it_stays_away(void **state)
{
	struct bo_ctx ctx = { .ticket = NULL };

	(void)state;
	make_all();
	assert_ok(bo_hold(&owner.device, &ctx));
	owner.room[BO_VRAM] = MIB(30);
	owner.room[BO_GTT] = OBJECTS / 4 * MIB(2);
	assert_int_equal(bo_unhold(&owner.device, &ctx), -ENOMEM);
	owner.room[BO_VRAM] = MIB(1000);
	assert_ok(bo_unhold(&owner.device, &ctx));
	put_all();
}

/* What nobody has any more is not left on the device, nor overlooked. */
static void what_is_about_to_end_is_waited_for(void **state)
{
	struct bo_ctx ctx = { .no_wait = true };

	(void)state;
	make_all();
	for (unsigned i = 0; i < OBJECTS; i++) {
		bo_add_fence(&objects[i].bo, 5);
		bo_put(&objects[i].bo);
	}
	assert_int_equal(bo_hold(&owner.device, &ctx), -EBUSY);
	owner_finish(&owner, 5);
	assert_ok(bo_hold(&owner.device, &ctx));
	for (unsigned place = BO_VRAM; place < BO_PLACES; place++)
		assert_int_equal(bo_device_used(&owner.device, place), 0);
	assert_null(owner_wrong(&owner));
}

static void one_that_is_in_use_is_said(void **state)
{
	struct bo_ctx ctx = { .no_wait = true };

	(void)state;
	make_all();
	assert_ok(bo_reserve(&objects[1].bo, NULL));
	assert_int_equal(bo_hold(&owner.device, &ctx), -EBUSY);
	assert_int_equal(bo_device_used(&owner.device, BO_VRAM), MIB(2));
	bo_unreserve(&objects[1].bo);
	assert_ok(bo_hold(&owner.device, &ctx));
	assert_ok(bo_reserve(&objects[1].bo, NULL));
	assert_int_equal(bo_unhold(&owner.device, &ctx), -EBUSY);
	bo_unreserve(&objects[1].bo);
	assert_ok(bo_unhold(&owner.device, &ctx));
	put_all();
}

/* Each step fails once; it is tried again, as whoever holds a program does. */
static void every_failure_leaves_all_whole(void **state)
{
	struct bo_ctx ctx = { .ticket = NULL };
	unsigned first, steps;

	(void)state;
	make_all();
	first = owner.steps;
	assert_ok(bo_hold(&owner.device, &ctx));
	assert_ok(bo_unhold(&owner.device, &ctx));
	steps = owner.steps - first;
	assert_true(steps > OBJECTS);
	owner.fail_rc = -ENOMEM;
	for (unsigned i = 1; i <= steps; i++) {
		owner.fail_at = owner.steps + i;
		for (int tries = 0; bo_hold(&owner.device, &ctx) < 0; tries++)
			assert_true(tries < 2);
		for (int tries = 0; bo_unhold(&owner.device, &ctx) < 0; tries++)
			assert_true(tries < 2);
		for (unsigned o = 0; o < OBJECTS; o++)
			owner_look(&owner, &objects[o]);
	}
	owner.fail_at = 0;
	put_all();
}

static void what_is_deleted_goes_at_once(void **state)
{
	struct bo_ctx ctx = { .ticket = NULL };

	(void)state;
	make_all();
	bo_add_fence(&objects[1].bo, 5);
	bo_put(&objects[1].bo);
	assert_false(objects[1].is_destroyed);
	owner_finish(&owner, 5);
	assert_ok(bo_hold(&owner.device, &ctx));
	assert_true(objects[1].is_destroyed);
	assert_int_equal(bo_device_used(&owner.device, BO_VRAM), 0);
	assert_ok(bo_unhold(&owner.device, &ctx));
	make_in(&objects[1], MIB(2), BO_VRAM);
	put_all();
}

static void what_another_device_reaches_lies_on_its_own(void **state)
{
	struct bo_ctx ctx = { .ticket = NULL };
	struct bo_span *spans;
	unsigned count;
	uint64_t bytes = 0;

	(void)state;
	assert_ok(bo_spans(&owner.device, &spans, &count));
	assert_int_equal(count, 0);
	free(spans);
	make_all();
	bo_pin(&objects[1].bo);
	assert_ok(bo_gather(&owner.device, &ctx));
	assert_int_equal(bo_device_used(&owner.device, BO_GTT), 0);
	assert_ok(bo_spans(&owner.device, &spans, &count));
	assert_int_equal(count, OBJECTS);
	for (unsigned i = 0; i < count; i++)
		bytes += spans[i].bytes;
	assert_int_equal(bytes, OBJECTS * MIB(2));
	free(spans);
	bo_unpin(&objects[1].bo);
	put_all();
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(all_leaves_and_comes_back),
		TEST(as_much_moves_at_a_time_as_is_said),
		TEST(all_leaves_from_everywhere),
		TEST(pinned_ones_stay),
		TEST(without_room_in_the_host_it_stays),
		TEST(what_has_no_room_comes_back_over_the_link),
		TEST(with_room_nowhere_it_stays_away),
		TEST(what_is_about_to_end_is_waited_for),
		TEST(one_that_is_in_use_is_said),
		TEST(every_failure_leaves_all_whole),
		TEST(what_is_deleted_goes_at_once),
		TEST(what_another_device_reaches_lies_on_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
