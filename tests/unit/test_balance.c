/*
 * What is hot comes to the device, on a driver of the test's own: in how many times of standing
 * still, who is left alone, and what ends the wait for such a time.
 */
#include "core/balance.h"

#include "base/clock.h"
#include "core/backing_use.h"
#include "core/bo_device.h"
#include "core/charge.h"
#include "member.h"
#include "shm/residency.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#define BASE UINT64_C(0x200000000000)
#define BYTES MIB_BYTES(16)

enum { PIECES = 12, NEAR = 6 };

static struct member member;
static struct backing_device device;
static struct backing *pieces[PIECES];
static struct balance balance;
static struct balance_round now;

/* The driver. */
static struct {
	uint64_t taken[BO_PLACES];
	unsigned begun; /* times of standing still */
	int begin_rc;
	/* Instead of that: begin() waits until it is over, and calls this first. */
	void (*meanwhile)(void);
	bool is_still;
	unsigned asked[PIECES]; /* to move, of each */
	bool refuses[PIECES];
} gpu;

static struct bo *bo_of(unsigned i)
{
	return &pieces[i]->objects[0].bo;
}

static unsigned number_of(const struct bo *bo)
{
	return (unsigned)((bo->addr - BASE) / BYTES);
}

static int alloc(void *owner, const struct bo *bo, enum bo_place place, struct bo_memory *out)
{
	(void)owner;
	gpu.taken[place] += bo->bytes;
	CHECK(gpu.taken[BO_VRAM] <= NEAR * BYTES);
	*out = (struct bo_memory){ 1, bo->bytes };
	return 0;
}

static void free_memory(void *owner, enum bo_place place, struct bo_memory memory)
{
	(void)owner;
	CHECK(gpu.taken[place] >= memory.bytes);
	gpu.taken[place] -= memory.bytes;
}

static void move(void *owner, struct bo_move *moves, unsigned count)
{
	(void)owner;
	for (unsigned i = 0; i < count; i++) {
		unsigned n = number_of(moves[i].bo);

		moves[i].rc = 0;
		if (moves[i].from_place == BO_NONE || moves[i].to_place == BO_NONE)
			continue;
		CHECK(gpu.is_still);
		if (moves[i].giver && moves[i].giver->rc < 0) {
			moves[i].rc = -ECANCELED;
			continue;
		}
		gpu.asked[n]++;
		if (gpu.refuses[n])
			moves[i].rc = -EPERM;
	}
}

static int begin(void *owner, const struct bo_patience *patience)
{
	(void)owner;
	CHECK(!gpu.is_still);
	gpu.begun++;
	if (gpu.meanwhile) {
		CHECK(!patience->is_over(patience->arg));
		gpu.meanwhile();
		while (!patience->is_over(patience->arg))
			clock_sleep_ns(NSEC_PER_USEC);
		return -EBUSY;
	}
	gpu.is_still = gpu.begin_rc == 0;
	return gpu.begin_rc;
}

static void end(void *owner)
{
	(void)owner;
	CHECK(gpu.is_still);
	gpu.is_still = false;
}

static bool is_done(void *owner, uint64_t fence)
{
	(void)owner, (void)fence;
	return true;
}

static const struct bo_want in_gtt[] = { { .place = BO_GTT } };
static const struct bo_placement gtt = { in_gtt, 1 };

static const struct bo_placement *evict_to(void *owner, const struct bo *bo, enum bo_place place)
{
	(void)owner, (void)bo, (void)place;
	return &gtt;
}

static const struct bo_ops ops = {
	.alloc = alloc,
	.free = free_memory,
	.move = move,
	.begin = begin,
	.end = end,
	.is_done = is_done,
	.evict_to = evict_to,
};

static int no_figure(const char *uuid, uint64_t *out_bytes)
{
	(void)uuid, (void)out_bytes;
	return -ENOTSUP;
}
static const struct gpu_ops no_ops = { .process_bytes = no_figure };

/* The first NEAR lie on the device, and no more may. */
static void start(void)
{
	struct backing_bounds bounds;

	member_join(&member, scratch_path("region"), "1g", RATION_FLAG_OVERSUBSCRIBE, 1);
	charge_init(&no_ops);
	member.region.own->resident_bytes = NEAR * BYTES;
	bounds = (struct backing_bounds){ member.region.own, member.slot.index, true };
	backing_init(&device, dev0, &bounds, &ops, NULL);
	for (unsigned i = 0; i < PIECES; i++) {
		CHECK_EQ(backing_open(&device, BASE + i * BYTES, BYTES, NULL, NULL, &pieces[i]), 0);
		CHECK_EQ(bo_of(i)->place, i < NEAR ? BO_VRAM : BO_GTT);
	}
}

/* A round in which those [first, last] are used so often. */
static void round_of(unsigned first, unsigned last, unsigned uses)
{
	struct backing_uses once = { .weight = HEAT_USE };

	for (unsigned i = first; i <= last; i++)
		for (unsigned k = 0; k < uses; k++)
			backing_use(pieces[i], BASE + i * BYTES, BYTES, &once);
	CHECK(balance_tick(&balance, &device, &now));
	CHECK(!gpu.is_still);
}

static unsigned near_of(unsigned first, unsigned last)
{
	unsigned count = 0;

	for (unsigned i = first; i <= last; i++)
		count += bo_of(i)->place == BO_VRAM;
	return count;
}

static void all_that_is_hot_comes_at_once(void)
{
	start();
	for (int r = 0; r < 40; r++)
		round_of(NEAR, PIECES - 1, 10);
	CHECK_EQ(near_of(NEAR, PIECES - 1), PIECES - NEAR);
	CHECK_EQ(gpu.begun, 1);
	for (unsigned i = 0; i < PIECES; i++)
		CHECK_EQ(gpu.asked[i], 1);
	CHECK_EQ(residency_sum(member.region.own, 0), NEAR * BYTES);
}

static void who_does_not_go_is_left_alone(void)
{
	start();
	gpu.refuses[0] = gpu.refuses[PIECES - 1] = true;
	bo_pin(bo_of(1));
	for (int r = 0; r < 600; r++)
		round_of(NEAR, PIECES - 1, 10);
	CHECK_EQ(near_of(2, NEAR - 1), 0);
	CHECK_EQ(near_of(NEAR, PIECES - 2), 4);
	CHECK(gpu.asked[0] > 1 && gpu.asked[0] < 10);
	CHECK(gpu.asked[PIECES - 1] < 10);
	CHECK_EQ(gpu.asked[1], 0);
	CHECK(gpu.begun < 20);
	/* What was pinned is known when it is not any more, and may go. */
	bo_unpin(bo_of(1));
	gpu.refuses[PIECES - 1] = false;
	for (int r = 0; r < 1200; r++)
		round_of(NEAR, PIECES - 1, 10);
	CHECK_EQ(near_of(1, 1), 0);
	CHECK_EQ(near_of(NEAR, PIECES - 1), 5);
}

/* Less and less often, but in the end again and again. */
static void what_does_not_get_its_moment_is_tried_again(void)
{
	unsigned begun;

	start();
	gpu.begin_rc = -EBUSY;
	for (int r = 0; r < 200; r++)
		round_of(NEAR, PIECES - 1, 10);
	CHECK(gpu.begun >= 5 && gpu.begun <= 8);
	begun = gpu.begun;
	for (int r = 0; r < 650; r++)
		round_of(NEAR, PIECES - 1, 10);
	CHECK(gpu.begun >= begun + 9 && gpu.begun <= begun + 11);
	CHECK_EQ(near_of(NEAR, PIECES - 1), 0);
	/* Nobody was refused for that. */
	gpu.begin_rc = 0;
	for (int r = 0; r < 65; r++)
		round_of(NEAR, PIECES - 1, 10);
	CHECK_EQ(near_of(NEAR, PIECES - 1), PIECES - NEAR);
}

static _Atomic bool asks;
static pthread_t waiter;

static bool is_asked(void)
{
	return atomic_load(&asks);
}

static void something_else_is_to_do(void)
{
	atomic_store(&asks, true);
}

static void room_is_wanted(void)
{
	__atomic_fetch_add(&member.region.own->room_wanted, 1, __ATOMIC_RELEASE);
}

static void blocks_are_wanted(void)
{
	__atomic_fetch_add(&member.region.own->room_blocks[RATION_DEVICES - 1], 1,
			   __ATOMIC_RELEASE);
}

static void host_memory_is_wanted(void)
{
	__atomic_fetch_add(&member.region.own->host_wanted, 1, __ATOMIC_RELEASE);
}

static void *have_it(void *arg)
{
	CHECK_EQ(bo_reserve(bo_of(PIECES - 1), NULL), 0);
	bo_unreserve(bo_of(PIECES - 1));
	return arg;
}

static void an_object_is_wanted(void)
{
	CHECK_EQ(pthread_create(&waiter, NULL, have_it, NULL), 0);
}

/* One without an end, but for what comes meanwhile. */
static void wait_until(void (*meanwhile)(void))
{
	start();
	now.is_asked = is_asked;
	gpu.meanwhile = meanwhile;
	while (!gpu.begun)
		round_of(NEAR, PIECES - 1, 10);
	CHECK_EQ(near_of(NEAR, PIECES - 1), 0);
}

static void let_time_pass(void)
{
	clock_sleep_ns(2 * NSEC_PER_SEC);
	atomic_store(&asks, true);
}

/* The rounds of rest after the first wait, which was in vain. */
static unsigned rest_after(unsigned uses)
{
	unsigned rounds = 0;

	start();
	now.is_asked = is_asked;
	gpu.meanwhile = let_time_pass;
	while (!gpu.begun)
		round_of(NEAR, PIECES - 1, uses);
	gpu.meanwhile = NULL;
	gpu.begin_rc = -EBUSY;
	atomic_store(&asks, false);
	for (; gpu.begun == 1; rounds++)
		round_of(NEAR, PIECES - 1, uses);
	return rounds - 1;
}

/* What is waited for may wait for what is held. */
static void after_a_wait_in_vain_there_is_a_long_rest(void)
{
	CHECK_EQ(rest_after(10), 16);
}

static void where_little_is_to_be_had_it_is_longer(void)
{
	CHECK_EQ(rest_after(1), 32);
}

static void a_wait_ends_for_what_else_is_to_do(void)
{
	wait_until(something_else_is_to_do);
}

static void a_wait_ends_for_others_who_want_room(void)
{
	wait_until(room_is_wanted);
}

static void a_wait_ends_for_others_who_want_blocks(void)
{
	wait_until(blocks_are_wanted);
}

static void a_wait_ends_for_others_who_want_host_memory(void)
{
	wait_until(host_memory_is_wanted);
}

static void a_wait_ends_for_a_thread_that_wants_an_object(void)
{
	wait_until(an_object_is_wanted);
	CHECK_EQ(pthread_join(waiter, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(all_that_is_hot_comes_at_once),
		fresh_test(who_does_not_go_is_left_alone),
		fresh_test(what_does_not_get_its_moment_is_tried_again),
		fresh_test(after_a_wait_in_vain_there_is_a_long_rest),
		fresh_test(where_little_is_to_be_had_it_is_longer),
		fresh_test(a_wait_ends_for_what_else_is_to_do),
		fresh_test(a_wait_ends_for_others_who_want_room),
		fresh_test(a_wait_ends_for_others_who_want_blocks),
		fresh_test(a_wait_ends_for_others_who_want_host_memory),
		fresh_test(a_wait_ends_for_a_thread_that_wants_an_object),
	};

	return cmocka_run_group_tests_name("balance", tests, NULL, NULL);
}
