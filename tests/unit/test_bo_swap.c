/*
 * Objects that change places while all stands still: what is moved together, what stays, and what
 * is left when something fails.
 */
#include "core/bo_swap.h"

#include "check.h"
#include "core/bo_device.h"
#include "fake_owner.h"

#include <errno.h>
#include <string.h>

#define MIB(n) ((uint64_t)(n) << 20)

enum { COUNT = 6 };

/* COUNT that go, which fill the place, and COUNT that come. */
struct scene {
	struct owner *owner;
	struct owned near[COUNT], far[COUNT];
	struct bo_swap goes[COUNT], comes[COUNT];
};

static void begin_sized(struct scene *s, struct owner *owner, uint64_t near_bytes,
			uint64_t far_bytes)
{
	*s = (struct scene){ .owner = owner };
	owner->room[BO_VRAM] = COUNT * near_bytes;
	for (unsigned i = 0; i < COUNT; i++) {
		owner_make_in(owner, &s->near[i], near_bytes, BO_VRAM);
		owner_make_in(owner, &s->far[i], far_bytes, BO_GTT);
		s->goes[i].bo = &s->near[i].bo;
		s->comes[i].bo = &s->far[i].bo;
	}
}

/* All of one size. */
static void begin(struct scene *s, struct owner *owner, uint64_t bytes)
{
	begin_sized(s, owner, bytes, bytes);
}

static int swap(struct scene *s, unsigned goes, unsigned comes)
{
	return bo_swap(&s->owner->device, s->goes, goes, s->comes, comes, NULL);
}

static void expect_places(struct scene *s, const char *near, const char *far)
{
	char is[2 * COUNT + 2] = "";

	for (unsigned i = 0; i < COUNT; i++) {
		is[i] = "nvgs"[s->near[i].bo.place];
		is[COUNT + 1 + i] = "nvgs"[s->far[i].bo.place];
		owner_look(s->owner, &s->near[i]);
		owner_look(s->owner, &s->far[i]);
	}
	is[COUNT] = '\0';
	assert_string_equal(is, near);
	assert_string_equal(is + COUNT + 1, far);
	assert_false(s->owner->is_still);
}

static void end(struct scene *s)
{
	for (unsigned i = 0; i < COUNT; i++) {
		/* Nobody has them any more. */
		assert_ok(bo_reserve(&s->near[i].bo, &(struct bo_ctx){ .no_wait = true }));
		assert_ok(bo_reserve(&s->far[i].bo, &(struct bo_ctx){ .no_wait = true }));
		bo_unreserve(&s->near[i].bo);
		bo_unreserve(&s->far[i].bo);
		bo_put(&s->near[i].bo);
		bo_put(&s->far[i].bo);
	}
}

static void all_change_places_while_all_stands_still_once(void **state)
{
	struct scene s;

	begin(&s, *state, MIB(2));
	assert_ok(swap(&s, COUNT, COUNT));
	expect_places(&s, "gggggg", "vvvvvv");
	for (unsigned i = 0; i < COUNT; i++) {
		assert_ok(s.goes[i].rc);
		assert_ok(s.comes[i].rc);
	}
	assert_int_equal(s.owner->begun, 1);
	end(&s);
}

/* Of another size: of each kind two parts stand alone, at the ends. */
static void they_go_and_come_in_parts(void **state)
{
	struct scene s;
	unsigned moves;

	begin_sized(&s, *state, MIB(128), MIB(126));
	moves = s.owner->moves;
	assert_ok(swap(&s, COUNT, COUNT));
	expect_places(&s, "gggggg", "vvvvvv");
	assert_int_equal(s.owner->moves - moves, 4);
	assert_int_equal(s.owner->begun, 1);
	end(&s);
}

/* In one move, and nothing of the place is given back or asked for. */
static void who_is_as_large_has_what_the_other_leaves(void **state)
{
	uint64_t left[COUNT];
	unsigned moves, takes;
	struct scene s;

	begin(&s, *state, MIB(128));
	for (unsigned i = 0; i < COUNT; i++)
		left[i] = s.near[i].bo.memory.handle;
	moves = s.owner->moves;
	takes = s.owner->takes[BO_VRAM];
	assert_ok(swap(&s, COUNT, COUNT));
	expect_places(&s, "gggggg", "vvvvvv");
	for (unsigned i = 0; i < COUNT; i++)
		assert_int_equal(s.far[i].bo.memory.handle, left[i]);
	assert_int_equal(s.owner->moves - moves, 1);
	assert_int_equal(s.owner->takes[BO_VRAM], takes);
	end(&s);
}

/* Some find one of their size, in another order, and some do not. */
static void sizes_are_matched(void **state)
{
	static const unsigned near_mib[COUNT] = { 2, 4, 6, 2, 4, 8 };
	static const unsigned far_mib[COUNT] = { 4, 2, 4, 10, 6, 4 };
	struct owner *owner = *state;
	struct scene s = { .owner = owner };
	unsigned takes;

	owner->room[BO_VRAM] = MIB(26);
	for (unsigned i = 0; i < COUNT; i++) {
		owner_make_in(owner, &s.near[i], MIB(near_mib[i]), BO_VRAM);
		owner_make_in(owner, &s.far[i], MIB(far_mib[i]), BO_GTT);
		s.goes[i].bo = &s.near[i].bo;
		s.comes[i].bo = &s.far[i].bo;
	}
	takes = owner->takes[BO_VRAM];
	assert_ok(swap(&s, COUNT, COUNT));
	/* Of 2 and 8 MiB that nobody has taken over, one of 10 is made. */
	expect_places(&s, "gggggg", "vvvvvg");
	assert_int_equal(owner->takes[BO_VRAM] - takes, 1);
	assert_int_equal(s.comes[5].rc, -ENOMEM);
	end(&s);
}

static void what_has_room_comes_at_once(void **state)
{
	struct scene s;
	unsigned moves;

	begin(&s, *state, MIB(2));
	s.owner->room[BO_VRAM] += MIB(2) * 2;
	moves = s.owner->moves;
	assert_ok(swap(&s, 0, 3));
	expect_places(&s, "vvvvvv", "vvgggg");
	assert_int_equal(s.comes[2].rc, -ENOMEM);
	assert_int_equal(s.owner->moves - moves, 1);
	assert_int_equal(s.owner->begun, 1);
	end(&s);
}

static void without_room_nothing_stands_still(void **state)
{
	struct scene s;

	begin(&s, *state, MIB(2));
	assert_int_equal(swap(&s, 0, 2), -ENOMEM);
	s.owner->alloc_rc[BO_GTT] = -ENOSPC;
	for (unsigned i = 0; i < COUNT; i++)
		s.far[i].is_kept = true;
	assert_int_equal(swap(&s, 2, 2), -ENOMEM);
	assert_int_equal(s.goes[0].rc, -ENOMEM);
	assert_int_equal(s.comes[0].rc, -ENOMEM);
	expect_places(&s, "vvvvvv", "gggggg");
	assert_int_equal(s.owner->begun, 0);
	s.owner->alloc_rc[BO_GTT] = 0;
	end(&s);
}

static void where_nothing_stands_still_all_is_as_before(void **state)
{
	struct scene s;
	uint64_t taken;

	begin(&s, *state, MIB(128));
	s.owner->room[BO_VRAM] += MIB(128);
	s.owner->begin_rc = -EBUSY;
	taken = s.owner->taken[BO_GTT];
	assert_int_equal(swap(&s, COUNT, COUNT), -EBUSY);
	expect_places(&s, "vvvvvv", "gggggg");
	for (unsigned i = 0; i < COUNT; i++)
		assert_int_equal(s.goes[i].rc, -EBUSY);
	assert_int_equal(s.comes[0].rc, -EBUSY);
	assert_int_equal(s.owner->taken[BO_GTT], taken);
	s.owner->begin_rc = -EAGAIN;
	assert_int_equal(swap(&s, COUNT, COUNT), -EAGAIN);
	s.owner->begin_rc = 0;
	assert_ok(swap(&s, COUNT, COUNT));
	end(&s);
}

static void who_does_not_go_keeps_one_from_coming(void **state)
{
	struct scene s;

	begin(&s, *state, MIB(2));
	s.near[1].move_rc = -EPERM;
	s.far[2].move_rc = -ENOMEM;
	assert_ok(swap(&s, COUNT, COUNT));
	/* Whose place stays taken has that of one who does not come. */
	expect_places(&s, "gvgggg", "vvgvvv");
	assert_int_equal(s.goes[1].rc, -EPERM);
	assert_int_equal(s.comes[2].rc, -ENOMEM);
	assert_ok(s.comes[1].rc);
	end(&s);

	begin_sized(&s, *state, MIB(4), MIB(2) + 4096);
	s.owner->room[BO_VRAM] = s.owner->taken[BO_VRAM];
	s.near[1].move_rc = -EPERM;
	assert_ok(swap(&s, 2, 2));
	expect_places(&s, "gvvvvv", "vggggg");
	assert_int_equal(s.goes[1].rc, -EPERM);
	assert_int_equal(s.comes[1].rc, -ENOMEM);
	end(&s);
}

/* A goer that is lost leaves nothing to who was to follow. */
static void who_is_lost_leaves_nothing(void **state)
{
	struct scene s;

	begin(&s, *state, MIB(2));
	s.near[1].move_rc = -EIO;
	s.far[3].move_rc = -EIO;
	assert_ok(swap(&s, 4, 4));
	expect_places(&s, "gnggvv", "vvvngg");
	assert_int_equal(s.goes[1].rc, -EIO);
	assert_int_equal(s.comes[3].rc, -EIO);
	assert_ok(s.comes[1].rc);
	assert_int_equal(s.owner->taken[BO_VRAM], 5 * MIB(2));
	end(&s);
}

static void who_is_pinned_or_in_use_stays(void **state)
{
	struct scene s;

	begin(&s, *state, MIB(2));
	bo_pin(&s.near[0].bo);
	assert_ok(bo_reserve(&s.near[1].bo, NULL));
	bo_add_fence(&s.near[2].bo, 1);
	bo_pin(&s.far[0].bo);
	assert_ok(bo_reserve(&s.far[1].bo, NULL));
	assert_ok(swap(&s, COUNT, COUNT));
	bo_unreserve(&s.near[1].bo);
	bo_unreserve(&s.far[1].bo);
	expect_places(&s, "vvvggg", "ggvvvg");
	assert_int_equal(s.goes[0].rc, -EINVAL);
	assert_int_equal(s.goes[1].rc, -EBUSY);
	assert_int_equal(s.goes[2].rc, -EBUSY);
	assert_int_equal(s.comes[0].rc, -EINVAL);
	assert_int_equal(s.comes[1].rc, -EBUSY);
	assert_int_equal(s.comes[5].rc, -ENOMEM);
	bo_unpin(&s.near[0].bo);
	bo_unpin(&s.far[0].bo);
	owner_finish(s.owner, 1);
	end(&s);
}

/* What lies already where it is to lie is there. */
static void who_has_moved_meanwhile_is_no_error(void **state)
{
	struct scene s;
	struct bo_ctx ctx = { .ticket = NULL };

	begin(&s, *state, MIB(2));
	assert_ok(owner_place(&s.near[0], &owner_in[BO_GTT], &ctx));
	assert_ok(owner_place(&s.far[0], &owner_in[BO_VRAM], &ctx));
	assert_ok(owner_place(&s.near[2], &owner_in[BO_SYSTEM], &ctx));
	assert_ok(swap(&s, 3, 3));
	expect_places(&s, "ggsvvv", "vvvggg");
	for (unsigned i = 0; i < 3; i++) {
		assert_ok(s.goes[i].rc);
		assert_ok(s.comes[i].rc);
	}
	end(&s);
}

/* Asked so often, it is over. */
struct clerk {
	unsigned asked, last;
};

static bool asks(void *arg)
{
	struct clerk *clerk = arg;

	return ++clerk->asked >= clerk->last;
}

/* What has gone until it is over makes room for as many. */
static void asked(struct owner *owner, uint64_t far_bytes, const char *const *near,
		  const char *const *far)
{
	for (unsigned k = 0; k < 4; k++) {
		/* Before each that goes is given memory, then before a part but the first. */
		struct clerk clerk = { .last = COUNT + k };
		struct bo_patience patience = { .is_over = asks, .arg = &clerk };
		struct scene s;
		int rc;

		begin_sized(&s, owner, MIB(128), far_bytes);
		rc = bo_swap(&s.owner->device, s.goes, COUNT, s.comes, COUNT, &patience);
		assert_int_equal(rc, k ? 0 : -EBUSY);
		expect_places(&s, near[k], far[k]);
		for (unsigned i = 0; i < COUNT; i++)
			if (s.near[i].bo.place == BO_VRAM && k)
				assert_int_equal(s.goes[i].rc, -ECANCELED);
		end(&s);
	}
}

static void whoever_asks_ends_it(void **state)
{
	static const char *const parts_near[] = { "vvvvvv", "ggvvvv", "ggggvv", "gggggg" };
	static const char *const parts_far[] = { "gggggg", "vvgggg", "vvvvgg", "vvvvvv" };
	/* The fake owner asks before each. */
	static const char *const near[] = { "vvvvvv", "gvvvvv", "ggvvvv", "gggvvv" };
	static const char *const far[] = { "gggggg", "vggggg", "vvgggg", "vvvggg" };

	asked(*state, MIB(126), parts_near, parts_far);
	asked(*state, MIB(128), near, far);
}

/* Each step fails once: what says that it lies where it should does, and the others as before. */
static void fail_each(struct owner *owner, uint64_t far_bytes)
{
	unsigned steps = 1;

	for (unsigned fail_at = 1; fail_at <= steps; fail_at++) {
		struct scene s;
		unsigned near = 0;

		begin_sized(&s, owner, MIB(128), far_bytes);
		owner->steps = 0;
		owner->fail_at = fail_at;
		owner->fail_rc = -EBUSY;
		swap(&s, COUNT, COUNT);
		owner->fail_at = 0;
		steps = owner->steps > steps ? owner->steps : steps;
		assert_false(owner->is_still);
		for (unsigned i = 0; i < COUNT; i++) {
			assert_int_equal(s.goes[i].rc == 0, s.near[i].bo.place == BO_GTT);
			assert_int_equal(s.comes[i].rc == 0, s.far[i].bo.place == BO_VRAM);
			assert_true(s.goes[i].rc <= 0 && s.comes[i].rc <= 0);
			owner_look(owner, &s.near[i]);
			owner_look(owner, &s.far[i]);
			near += s.near[i].bo.place == BO_VRAM;
			near += s.far[i].bo.place == BO_VRAM;
		}
		assert_true(near <= COUNT);
		end(&s);
	}
	/* Memory where they go, and a move of each; the pairs need no other. */
	assert_true(steps > (far_bytes == MIB(128) ? 3 : 4) * COUNT);
}

static void whatever_fails_nothing_is_lost(void **state)
{
	fail_each(*state, MIB(126));
	fail_each(*state, MIB(128));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, owner_setup, owner_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(all_change_places_while_all_stands_still_once),
		TEST(they_go_and_come_in_parts),
		TEST(who_is_as_large_has_what_the_other_leaves),
		TEST(sizes_are_matched),
		TEST(what_has_room_comes_at_once),
		TEST(without_room_nothing_stands_still),
		TEST(where_nothing_stands_still_all_is_as_before),
		TEST(who_does_not_go_keeps_one_from_coming),
		TEST(who_is_lost_leaves_nothing),
		TEST(who_is_pinned_or_in_use_stays),
		TEST(who_has_moved_meanwhile_is_no_error),
		TEST(whoever_asks_ends_it),
		TEST(whatever_fails_nothing_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
