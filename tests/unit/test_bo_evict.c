/*
 * Who goes when room is needed, who does not, and who is waited for.
 */
#include "core/bo_evict.h"

#include "base/clock.h"
#include "check.h"
#include "core/bo_device.h"
#include "core/bo_exec.h"
#include "core/bo_reserve.h"
#include "fake_owner.h"

#include <errno.h>
#include <pthread.h>

#define MIB(n) (UINT64_C(n) << 20)

enum { COUNT = 6 };

/* Of 2 MiB each, in VRAM, which is full then. */
static void fill(struct owner *owner, struct owned *all)
{
	bo_device_set_limit(&owner->device, BO_VRAM, MIB(2) * COUNT);
	for (unsigned i = 0; i < COUNT; i++)
		owner_make_in(owner, &all[i], MIB(2), BO_VRAM);
}

/* The places of all, by their first letters. */
static void expect_places(struct owner *owner, struct owned *all, const char *expected)
{
	char places[COUNT + 1] = "";

	for (unsigned i = 0; i < COUNT; i++) {
		places[i] = "nvgs"[all[i].bo.place];
		owner_look(owner, &all[i]);
	}
	assert_string_equal(places, expected);
}

static void put_all(struct owned *all)
{
	for (unsigned i = 0; i < COUNT; i++)
		bo_put(&all[i].bo);
}

static void what_was_used_least_makes_room(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned all[COUNT], a;
	unsigned moves;

	fill(owner, all);
	bo_touch(&all[0].bo);
	bo_set_priority(&all[1].bo, 1);
	owner_make(owner, &a, MIB(4));
	moves = owner->moves;
	assert_ok(owner_place(&a, &owner_in[BO_VRAM], &ctx));
	expect_places(owner, all, "vvggvv");
	/* Both in one move. */
	assert_int_equal(owner->moves, moves + 2);
	bo_put(&a.bo);
	put_all(all);
}

static void higher_priority_goes_last(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned all[COUNT];
	uint64_t gone_bytes;

	fill(owner, all);
	for (unsigned i = 0; i < COUNT; i++)
		bo_set_priority(&all[i].bo, COUNT - i);
	for (unsigned i = COUNT; i > 0; i--) {
		assert_ok(bo_evict(&owner->device, BO_VRAM, 1, &ctx, &gone_bytes));
		assert_int_equal(gone_bytes, MIB(2));
		/* Above the highest there is none: those are one behind the other. */
		if (i > 4)
			assert_int_equal(all[i - 1].bo.place, BO_GTT);
	}
	expect_places(owner, all, "gggggg");
	assert_ok(bo_evict(&owner->device, BO_VRAM, 1, &ctx, &gone_bytes));
	assert_int_equal(gone_bytes, 0);
	put_all(all);
}

static void who_refuses_does_not_keep_the_others(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned all[COUNT], a;

	fill(owner, all);
	all[0].move_rc = -EBUSY;
	all[1].move_rc = -ENOMEM;
	bo_add_fence(&all[2].bo, 1);
	owner->wait_rc = -EBUSY;
	owner_make(owner, &a, MIB(2));
	assert_ok(owner_place(&a, &owner_in[BO_VRAM], &ctx));
	expect_places(owner, all, "vvvgvv");
	/* They are still the next: they were asked, not used. */
	assert_ptr_equal(TAILQ_FIRST(&owner->device.managers[BO_VRAM].lru[0]), &all[0].bo);
	owner_finish(owner, 1);
	bo_put(&a.bo);
	put_all(all);
}

/* More than an attempt has room for: each is asked once, and the attempt ends. */
static void an_attempt_ends_when_all_refuse(void **state)
{
	enum { MANY = 40 };
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned all[MANY], a;
	unsigned steps;

	bo_device_set_limit(&owner->device, BO_VRAM, MIB(2) * MANY);
	for (unsigned i = 0; i < MANY; i++) {
		owner_make_in(owner, &all[i], MIB(2), BO_VRAM);
		all[i].move_rc = -ENOMEM;
	}
	owner_make(owner, &a, MIB(2));
	steps = owner->moved;
	assert_int_equal(owner_place(&a, &owner_in[BO_VRAM], &ctx), -ENOMEM);
	assert_int_equal(owner->moved, steps + MANY);
	bo_put(&a.bo);
	for (unsigned i = 0; i < MANY; i++) {
		assert_int_equal(all[i].bo.place, BO_VRAM);
		bo_put(&all[i].bo);
	}
}

static void a_part_of_a_batch_may_go(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned all[COUNT];
	uint64_t gone_bytes;

	fill(owner, all);
	owner->room[BO_GTT] = MIB(4);
	owner->evict_to[BO_GTT] = &owner_in[BO_GTT];
	assert_ok(bo_evict(&owner->device, BO_VRAM, UINT64_MAX, &ctx, &gone_bytes));
	assert_int_equal(gone_bytes, MIB(4));
	expect_places(owner, all, "ggvvvv");
	assert_int_equal(bo_evict(&owner->device, BO_VRAM, 1, &ctx, &gone_bytes), -ENOMEM);
	put_all(all);
}

static void all_that_can_goes(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned all[COUNT];
	uint64_t gone_bytes;
	unsigned moves;

	fill(owner, all);
	bo_pin(&all[2].bo);
	moves = owner->moves;
	assert_ok(bo_evict(&owner->device, BO_VRAM, UINT64_MAX, &ctx, &gone_bytes));
	assert_int_equal(gone_bytes, MIB(2) * (COUNT - 1));
	assert_int_equal(ctx.moved_bytes, gone_bytes);
	assert_int_equal(owner->moves, moves + 1);
	expect_places(owner, all, "ggvggg");
	put_all(all);
}

static void without_a_place_to_go_to_nobody_goes(void **state)
{
	struct owner *owner = *state;
	struct bo_ops ops = *owner->device.ops;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned all[COUNT], a;

	ops.evict_to = NULL;
	ops.is_valuable = NULL;
	owner->device.ops = &ops;
	fill(owner, all);
	owner_make(owner, &a, MIB(2));
	assert_int_equal(owner_place(&a, &owner_in[BO_VRAM], &ctx), -ENOMEM);
	bo_put(&a.bo);
	put_all(all);
}

static void a_lost_victim_is_lost_alone(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned all[COUNT], a;

	fill(owner, all);
	all[0].move_rc = -EIO;
	owner_make(owner, &a, MIB(2));
	assert_ok(owner_place(&a, &owner_in[BO_VRAM], &ctx));
	assert_true(all[0].bo.is_lost);
	assert_int_equal(owner_place(&all[0], &owner_in[BO_VRAM], &ctx), -EIO);
	expect_places(owner, all, "nvvvvv");
	bo_put(&a.bo);
	put_all(all);
}

static void put(void *arg)
{
	struct owned *owned = arg;
	struct owner *owner = owned->bo.device->owner;

	owner->during_move = NULL;
	bo_put(&owned->bo);
}

/* Nobody has the victim any more when it has been moved: its new memory goes as well. */
static void a_victim_is_given_back_meanwhile(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned all[COUNT], a;

	fill(owner, all);
	owner->during_move = put;
	owner->during_move_arg = &all[0];
	owner_make(owner, &a, MIB(2));
	assert_ok(owner_place(&a, &owner_in[BO_VRAM], &ctx));
	assert_true(all[0].is_destroyed);
	assert_int_equal(bo_device_used(&owner->device, BO_GTT), 0);
	for (unsigned i = 1; i < COUNT; i++)
		bo_put(&all[i].bo);
	bo_put(&a.bo);
}

/* The same where it could not be moved. */
static void a_victim_that_stays_is_given_back_meanwhile(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned there, a;

	owner->room[BO_VRAM] = MIB(2);
	owner_make_in(owner, &there, MIB(2), BO_VRAM);
	there.move_rc = -EBUSY;
	owner->during_move = put;
	owner->during_move_arg = &there;
	owner_make(owner, &a, MIB(2));
	assert_ok(owner_place(&a, &owner_in[BO_VRAM], &ctx));
	assert_true(there.is_destroyed);
	assert_int_equal(ctx.moved_bytes, 0);
	bo_put(&a.bo);
}

static void who_must_not_wait_takes_who_is_idle(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .no_wait = true };
	struct owned all[COUNT], a;

	fill(owner, all);
	bo_add_fence(&all[0].bo, 1);
	assert_ok(bo_reserve(&all[1].bo, NULL));
	owner_make(owner, &a, MIB(4));
	assert_ok(owner_place(&a, &owner_in[BO_VRAM], &ctx));
	expect_places(owner, all, "vvggvv");
	for (unsigned i = 4; i < COUNT; i++)
		bo_add_fence(&all[i].bo, 1);
	bo_add_fence(&a.bo, 1);
	assert_int_equal(owner_place(&all[2], &owner_in[BO_VRAM], &ctx), -EBUSY);
	assert_int_equal(owner->waits, 0);
	bo_unreserve(&all[1].bo);
	owner_finish(owner, 1);
	bo_put(&a.bo);
	put_all(all);
}

/* Places an object for a ticket, while others have all that could go. */
struct placer {
	pthread_t thread;
	struct owned *owned;
	struct bo_ticket *ticket;
	bool is_back; /* atomic */
	int rc;
};

static void *place_it(void *arg)
{
	struct placer *placer = arg;
	struct bo_ctx ctx = { .ticket = placer->ticket };

	placer->rc = owner_place(placer->owned, &owner_in[BO_VRAM], &ctx);
	__atomic_store_n(&placer->is_back, true, __ATOMIC_RELEASE);
	return NULL;
}

/* Or has given up. */
static void until_it_waits(struct owner *owner, const struct placer *placer)
{
	struct bo_device *device = &owner->device;
	unsigned waiters = 0;

	while (!waiters && !__atomic_load_n(&placer->is_back, __ATOMIC_ACQUIRE)) {
		pthread_mutex_lock(&device->mutex);
		waiters = device->waiters;
		pthread_mutex_unlock(&device->mutex);
		clock_sleep_ns(NSEC_PER_USEC);
	}
}

static void who_is_in_use_is_waited_for(void **state)
{
	struct owner *owner = *state;
	struct bo_ticket ticket;
	struct placer placer = { .ticket = &ticket };
	struct owned there, a;

	owner->room[BO_VRAM] = MIB(2);
	owner_make_in(owner, &there, MIB(2), BO_VRAM);
	owner_make(owner, &a, MIB(2));
	bo_ticket_begin(&ticket);
	placer.owned = &a;
	assert_ok(bo_reserve(&there.bo, NULL));
	assert_int_equal(pthread_create(&placer.thread, NULL, place_it, &placer), 0);
	until_it_waits(owner, &placer);
	bo_unreserve(&there.bo);
	assert_int_equal(pthread_join(placer.thread, NULL), 0);
	assert_ok(placer.rc);
	assert_int_equal(there.bo.place, BO_GTT);
	bo_ticket_end(&ticket);
	bo_put(&there.bo);
	bo_put(&a.bo);
}

/* Waiting for it is no use of it: of two that are given back at once, the first goes. */
/* One of two does not go now, the other is waited for, and pinned: there may be room later. */
static void who_was_busy_may_go_later(void **state)
{
	struct owner *owner = *state;
	struct placer placer = { .ticket = NULL };
	struct owned all[2], a;

	owner->room[BO_VRAM] = MIB(4);
	for (unsigned i = 0; i < 2; i++)
		owner_make_in(owner, &all[i], MIB(2), BO_VRAM);
	owner_make(owner, &a, MIB(2));
	all[0].move_rc = -EBUSY;
	placer.owned = &a;
	assert_ok(bo_reserve(&all[1].bo, NULL));
	assert_int_equal(pthread_create(&placer.thread, NULL, place_it, &placer), 0);
	until_it_waits(owner, &placer);
	bo_pin(&all[1].bo);
	bo_unreserve(&all[1].bo);
	assert_int_equal(pthread_join(placer.thread, NULL), 0);
	assert_int_equal(placer.rc, -EBUSY);
	assert_int_equal(a.bo.place, BO_NONE);
	bo_unpin(&all[1].bo);
	for (unsigned i = 0; i < 2; i++)
		bo_put(&all[i].bo);
	bo_put(&a.bo);
}

static void who_was_waited_for_was_not_used(void **state)
{
	struct owner *owner = *state;
	struct bo_ticket ticket;
	struct placer placer = { .ticket = &ticket };
	struct owned first, second, a;

	owner->room[BO_VRAM] = MIB(4);
	owner_make_in(owner, &first, MIB(2), BO_VRAM);
	owner_make_in(owner, &second, MIB(2), BO_VRAM);
	owner_make(owner, &a, MIB(2));
	bo_ticket_begin(&ticket);
	placer.owned = &a;
	assert_ok(bo_reserve(&first.bo, NULL));
	assert_ok(bo_reserve(&second.bo, NULL));
	assert_int_equal(pthread_create(&placer.thread, NULL, place_it, &placer), 0);
	until_it_waits(owner, &placer);
	bo_device_lock(&owner->device);
	bo_reserve_end(&first.bo);
	bo_reserve_end(&second.bo);
	bo_device_unlock(&owner->device);
	assert_int_equal(pthread_join(placer.thread, NULL), 0);
	assert_ok(placer.rc);
	assert_int_equal(first.bo.place, BO_GTT);
	assert_int_equal(second.bo.place, BO_VRAM);
	bo_ticket_end(&ticket);
	bo_put(&first.bo);
	bo_put(&second.bo);
	bo_put(&a.bo);
}

/* What it would need is its own: there is nobody to wait for. */
static void who_is_placed_is_no_victim(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned in_vram, a;

	bo_device_set_limit(&owner->device, BO_VRAM, MIB(2));
	bo_device_set_limit(&owner->device, BO_GTT, MIB(2));
	owner_make_in(owner, &in_vram, MIB(2), BO_VRAM);
	owner_make_in(owner, &a, MIB(2), BO_GTT);
	assert_int_equal(owner_place(&a, &owner_in[BO_VRAM], &ctx), -ENOMEM);
	owner_look(owner, &in_vram);
	owner_look(owner, &a);
	bo_put(&in_vram.bo);
	bo_put(&a.bo);
}

static void of_what_is_leaving_the_first_is_waited_for(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned later, sooner, in_gtt, a;

	bo_device_set_limit(&owner->device, BO_VRAM, MIB(4));
	owner_make_in(owner, &later, MIB(2), BO_VRAM);
	owner_make_in(owner, &sooner, MIB(2), BO_VRAM);
	owner_make_in(owner, &in_gtt, MIB(2), BO_GTT);
	bo_add_fence(&later.bo, 7);
	bo_add_fence(&sooner.bo, 5);
	bo_add_fence(&in_gtt.bo, 3);
	bo_put(&later.bo);
	bo_put(&sooner.bo);
	bo_put(&in_gtt.bo);
	owner_finish(owner, 3);
	owner_make(owner, &a, MIB(2));
	assert_ok(owner_place(&a, &owner_in[BO_VRAM], &ctx));
	assert_int_equal(owner->done, 5);
	assert_true(sooner.is_destroyed);
	assert_false(later.is_destroyed);
	assert_false(in_gtt.is_destroyed);
	owner_finish(owner, 7);
	assert_false(bo_reap(&owner->device));
	bo_put(&a.bo);
}

/* Memory that was taken and comes back unused. Who waits does so for a tenth of a second. */
static void what_is_pending_is_waited_for(void **state)
{
	struct owner *owner = *state;
	struct placer placer;
	struct bo_memory memory;
	struct owned other, a;
	uint64_t gains;

	bo_device_set_limit(&owner->device, BO_VRAM, MIB(2));
	owner_make(owner, &other, MIB(2));
	owner_make(owner, &a, MIB(2));
	assert_ok(bo_reserve(&other.bo, NULL));
	do {
		placer = (struct placer){ .owned = &a };
		assert_ok(bo_device_take(&other.bo, BO_VRAM, &memory, &gains));
		assert_int_equal(pthread_create(&placer.thread, NULL, place_it, &placer), 0);
		until_it_waits(owner, &placer);
		bo_device_give(&owner->device, BO_VRAM, memory);
		assert_int_equal(pthread_join(placer.thread, NULL), 0);
		/* On a machine with much to do that was too long: again. */
	} while (placer.rc == -EBUSY);
	assert_ok(placer.rc);
	assert_int_equal(a.bo.place, BO_VRAM);
	bo_unreserve(&other.bo);
	bo_put(&other.bo);
	bo_put(&a.bo);
}

/* Without a ticket there is no telling whether it ever comes. */
static void without_a_ticket_not_for_long(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .ticket = NULL };
	struct owned there, a;
	uint64_t gone_bytes;

	owner->room[BO_VRAM] = MIB(2);
	owner_make_in(owner, &there, MIB(2), BO_VRAM);
	owner_make(owner, &a, MIB(2));
	assert_ok(bo_reserve(&there.bo, NULL));
	assert_int_equal(owner_place(&a, &owner_in[BO_VRAM], &ctx), -EBUSY);
	assert_int_equal(bo_evict(&owner->device, BO_VRAM, 1, &ctx, &gone_bytes), -EBUSY);
	bo_unreserve(&there.bo);
	bo_put(&there.bo);
	bo_put(&a.bo);
}

static void what_an_older_ticket_has_ends_the_attempt(void **state)
{
	struct owner *owner = *state;
	struct bo_ticket older;
	struct bo_ctx first = { .ticket = &older };
	struct bo_exec exec;
	struct owned there, a;
	int rc;

	owner->room[BO_VRAM] = MIB(2);
	owner_make_in(owner, &there, MIB(2), BO_VRAM);
	owner_make(owner, &a, MIB(2));
	bo_ticket_begin(&older);
	assert_ok(bo_reserve(&there.bo, &first));
	bo_exec_begin(&exec, false);
	assert_ok(bo_exec_reserve(&exec, &a.bo));
	rc = bo_validate(&a.bo, &owner_in[BO_VRAM], &exec.ctx);
	assert_int_equal(rc, -EDEADLK);
	assert_ptr_equal(exec.ticket.lost, &there.bo);
	assert_true(exec.ticket.is_victim);
	bo_unreserve(&there.bo);
	assert_true(bo_exec_again(&exec, &rc));
	assert_ok(rc);
	/* It was waited for, to be moved away: nobody has it. */
	assert_false(there.bo.is_reserved);
	assert_ok(bo_exec_reserve(&exec, &a.bo));
	assert_ok(bo_validate(&a.bo, &owner_in[BO_VRAM], &exec.ctx));
	assert_int_equal(there.bo.place, BO_GTT);
	bo_exec_end(&exec);
	bo_ticket_end(&older);
	bo_put(&there.bo);
	bo_put(&a.bo);
}

/* Nor is another place taken instead: with the ticket it gets what it wants. */
static void another_place_is_no_way_round_an_older_one(void **state)
{
	static const struct bo_want vram_or_gtt[] = { { BO_VRAM, 0 }, { BO_GTT, BO_FALLBACK } };
	static const struct bo_want gtt_or_vram[] = { { BO_GTT, 0 }, { BO_VRAM, 0 } };
	static const struct bo_placement either = { vram_or_gtt, 2 }, turned = { gtt_or_vram, 2 };
	struct owner *owner = *state;
	struct bo_ticket older;
	struct bo_ctx first = { .ticket = &older };
	struct bo_exec exec;
	struct owned there, a;

	owner->room[BO_VRAM] = MIB(2);
	owner_make_in(owner, &there, MIB(2), BO_VRAM);
	owner_make(owner, &a, MIB(2));
	bo_ticket_begin(&older);
	assert_ok(bo_reserve(&there.bo, &first));
	bo_exec_begin(&exec, false);
	assert_ok(bo_exec_reserve(&exec, &a.bo));
	assert_int_equal(bo_validate(&a.bo, &either, &exec.ctx), -EDEADLK);
	assert_int_equal(a.bo.place, BO_NONE);
	/* Who must not wait does take it. Where it is not to be had, busy says more than full. */
	exec.ctx.no_wait = true;
	owner->alloc_rc[BO_GTT] = -ENOMEM;
	assert_int_equal(bo_validate(&a.bo, &either, &exec.ctx), -EBUSY);
	assert_int_equal(bo_validate(&a.bo, &turned, &exec.ctx), -EBUSY);
	owner->alloc_rc[BO_GTT] = 0;
	assert_ok(bo_validate(&a.bo, &either, &exec.ctx));
	assert_int_equal(a.bo.place, BO_GTT);
	bo_exec_end(&exec);
	bo_unreserve(&there.bo);
	bo_ticket_end(&older);
	bo_put(&there.bo);
	bo_put(&a.bo);
}

/* Its own are not in its way, and do not go. */
static void what_the_ticket_has_stays(void **state)
{
	struct owner *owner = *state;
	struct bo_exec exec;
	struct owned all[COUNT], a;
	int rc;

	fill(owner, all);
	owner_make(owner, &a, MIB(2));
	bo_exec_begin(&exec, false);
	for (unsigned i = 0; i < COUNT - 1; i++)
		assert_ok(bo_exec_reserve(&exec, &all[i].bo));
	assert_ok(bo_exec_reserve(&exec, &a.bo));
	assert_ok(bo_validate(&a.bo, &owner_in[BO_VRAM], &exec.ctx));
	expect_places(owner, all, "vvvvvg");
	assert_ok(bo_exec_reserve(&exec, &all[5].bo));
	rc = bo_validate(&all[5].bo, &owner_in[BO_VRAM], &exec.ctx);
	assert_int_equal(rc, -ENOMEM);
	assert_false(bo_exec_again(&exec, &rc));
	bo_exec_end(&exec);
	bo_put(&a.bo);
	put_all(all);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, owner_setup, owner_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_was_used_least_makes_room),
		TEST(higher_priority_goes_last),
		TEST(who_refuses_does_not_keep_the_others),
		TEST(an_attempt_ends_when_all_refuse),
		TEST(a_part_of_a_batch_may_go),
		TEST(all_that_can_goes),
		TEST(without_a_place_to_go_to_nobody_goes),
		TEST(a_lost_victim_is_lost_alone),
		TEST(a_victim_is_given_back_meanwhile),
		TEST(a_victim_that_stays_is_given_back_meanwhile),
		TEST(who_must_not_wait_takes_who_is_idle),
		TEST(who_is_in_use_is_waited_for),
		TEST(who_was_busy_may_go_later),
		TEST(who_was_waited_for_was_not_used),
		TEST(who_is_placed_is_no_victim),
		TEST(of_what_is_leaving_the_first_is_waited_for),
		TEST(what_is_pending_is_waited_for),
		TEST(without_a_ticket_not_for_long),
		TEST(what_an_older_ticket_has_ends_the_attempt),
		TEST(another_place_is_no_way_round_an_older_one),
		TEST(what_the_ticket_has_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
