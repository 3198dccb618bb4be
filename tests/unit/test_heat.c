/* Programs in numbers: what is used when, what comes near, and what all of it costs. */
#include "core/heat.h"

#include "check.h"

#include <stdlib.h>

#define MIB (UINT64_C(1) << 20)

enum { MOST = 64 };

/* Things, some of them near, and what was moved. */
struct world {
	struct heat heats[MOST];
	struct heat_item items[MOST];
	unsigned goes[MOST];
	unsigned count;
	uint64_t near_bytes, room_bytes; /* that may be near; what of it is free */
	uint64_t far_use_bytes;          /* that uses have brought over the link */
	uint64_t moved_bytes;            /* that moves have */
	unsigned moves;
};

static struct world world;

/* `count` things of so many bytes; the first are near, as many as have room. */
static void begin(unsigned count, uint64_t bytes, uint64_t near_bytes)
{
	world = (struct world){ .count = count, .near_bytes = near_bytes };
	world.room_bytes = near_bytes;
	for (unsigned i = 0; i < count; i++) {
		bool is_near = world.room_bytes >= bytes;

		world.items[i] = (struct heat_item){ .heat = &world.heats[i],
						     .bytes = bytes,
						     .is_near = is_near };
		if (is_near)
			world.room_bytes -= bytes;
	}
}

static void move(unsigned i, bool to_near)
{
	assert_true(world.items[i].is_near != to_near);
	world.items[i].is_near = to_near;
	world.moved_bytes += world.items[i].bytes;
	world.moves++;
	heat_moved(&world.heats[i]);
	if (to_near) {
		assert_true(world.room_bytes >= world.items[i].bytes);
		world.room_bytes -= world.items[i].bytes;
	} else {
		world.room_bytes += world.items[i].bytes;
	}
}

/* One round in which thing i is used uses[i] times. */
static void round_of(const uint32_t *uses)
{
	struct heat_plan plan = { .goes = world.goes };

	for (unsigned i = 0; i < world.count; i++) {
		heat_tick(&world.heats[i], uses[i]);
		if (!world.items[i].is_near)
			world.far_use_bytes += uses[i] * world.items[i].bytes;
	}
	heat_plan(world.items, world.count, world.room_bytes, 4096 * MIB, &plan);
	if (!plan.is_any)
		return;
	for (unsigned k = 0; k < plan.goes_count; k++)
		move(plan.goes[k], false);
	move(plan.comes, true);
}

static void idle(unsigned rounds)
{
	const uint32_t none[MOST] = { 0 };

	while (rounds--)
		round_of(none);
}

/* All are used in turn, `burst` times each, so that a pass takes `rounds`. */
static void scan(unsigned passes, unsigned rounds, uint32_t burst)
{
	for (unsigned p = 0; p < passes; p++)
		for (unsigned r = 0; r < rounds; r++) {
			uint32_t uses[MOST] = { 0 };

			for (unsigned i = 0; i < world.count; i++)
				if (i * rounds / world.count == r)
					uses[i] = burst;
			round_of(uses);
		}
}

static void nothing_moves_while_nothing_is_used(void **state)
{
	(void)state;
	begin(24, 1024 * MIB, 16 * 1024 * MIB);
	idle(500);
	assert_int_equal(world.moves, 0);
}

/* 24 GiB in turn, 16 of them near: whatever moved would be wanted back. */
static void a_cyclic_scan_moves_nothing(void **state)
{
	static const struct {
		unsigned rounds;
		uint32_t burst;
	} scans[] = { { 1, 1 },  { 1, 30 }, { 2, 5 },   { 5, 1 },
		      { 5, 20 }, { 30, 1 }, { 30, 20 }, { 60, 3 } };

	(void)state;
	for (unsigned i = 0; i < sizeof(scans) / sizeof(*scans); i++) {
		begin(24, 1024 * MIB, 16 * 1024 * MIB);
		scan(20, scans[i].rounds, scans[i].burst);
		if (world.moves > 0)
			fail_msg("%u moves, a pass of %u rounds, %u uses each", world.moves,
				 scans[i].rounds, scans[i].burst);
	}
}

/* One that is far is used all the time, most that are near never. */
static void what_is_hot_comes_and_stays(void **state)
{
	uint32_t uses[MOST] = { 0 };

	(void)state;
	begin(24, 256 * MIB, 16 * 256 * MIB);
	uses[3] = uses[20] = 5;
	for (int r = 0; r < 400; r++)
		round_of(uses);
	assert_true(world.items[20].is_near && world.items[3].is_near);
	assert_int_equal(world.moves, 2);
	/* Soon: it was worth 5 times its bytes in each round. */
	assert_true(world.far_use_bytes < UINT64_C(5) * 60 * 256 * MIB);
}

static void what_is_free_is_used_first(void **state)
{
	uint32_t uses[MOST] = { 0 };

	(void)state;
	begin(8, 256 * MIB, 8 * 256 * MIB);
	world.items[7].is_near = false;
	world.room_bytes = 256 * MIB;
	uses[7] = 1;
	for (int r = 0; r < 300; r++)
		round_of(uses);
	assert_true(world.items[7].is_near);
	assert_int_equal(world.moves, 1);
}

/* A burst is over before anything could come of it. */
static void a_burst_is_no_reason(void **state)
{
	uint32_t uses[MOST] = { 0 };

	(void)state;
	begin(24, 256 * MIB, 16 * 256 * MIB);
	for (unsigned i = 0; i < 16; i++)
		uses[i] = 1;
	for (int r = 0; r < 300; r++) {
		uses[20] = r % 100 == 50 ? 10 : 0;
		round_of(uses);
	}
	assert_int_equal(world.moves, 0);
}

/*
 * Two sets that do not fit together, each used for a long time: they change places once each
 * time.
 */
static void phases_change_places(void **state)
{
	enum { PHASE = 600, SET = 8 };

	(void)state;
	begin(2 * SET, 256 * MIB, SET * 256 * MIB);
	for (unsigned p = 0; p < 6; p++) {
		uint32_t uses[MOST] = { 0 };

		for (unsigned i = 0; i < SET; i++)
			uses[p % 2 * SET + i] = 4;
		for (int r = 0; r < PHASE; r++)
			round_of(uses);
		for (unsigned i = 0; i < SET; i++)
			assert_true(world.items[p % 2 * SET + i].is_near);
	}
	assert_int_equal(world.moves, 5 * 2 * SET);
}

/* Whatever is used how: moves never cost more than a part of what uses cost over the link. */
static void moves_are_paid_for(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 40; seed++) {
		unsigned weights[MOST];

		srand(seed);
		begin(32, 64 * MIB, 20 * 64 * MIB);
		for (unsigned i = 0; i < world.count; i++) {
			world.items[i].bytes = (uint64_t)(1 + rand() % 64) * 2 * MIB;
			weights[i] = (unsigned)rand() % 8;
		}
		for (unsigned i = 0; i < world.count; i++)
			if (world.items[i].is_near && world.room_bytes < 64 * MIB)
				world.room_bytes = 64 * MIB;
		for (int r = 0; r < 3000; r++) {
			uint32_t uses[MOST];

			if (rand() % 400 == 0)
				weights[(unsigned)rand() % world.count] = (unsigned)rand() % 8;
			for (unsigned i = 0; i < world.count; i++)
				uses[i] = (unsigned)rand() % 16 < weights[i];
			round_of(uses);
		}
		assert_true(world.moved_bytes < world.far_use_bytes / 4);
	}
}

/* A large one makes room for itself of several small ones, if they are cold enough together. */
static void several_go_for_one(void **state)
{
	uint32_t uses[MOST] = { 0 };

	(void)state;
	begin(9, 64 * MIB, 8 * 64 * MIB);
	world.items[8].bytes = 200 * MIB;
	uses[8] = 3;
	for (int r = 0; r < 200; r++)
		round_of(uses);
	assert_true(world.items[8].is_near);
	assert_int_equal(world.moves, 5);
	begin(9, 64 * MIB, 8 * 64 * MIB);
	world.items[8].bytes = 200 * MIB;
	for (unsigned i = 0; i < 8; i++)
		uses[i] = 3;
	for (int r = 0; r < 200; r++)
		round_of(uses);
	assert_int_equal(world.moves, 0);
}

/* What is larger than may be moved at once stays. */
static void too_much_stays(void **state)
{
	uint32_t uses[MOST] = { 0 };

	(void)state;
	begin(2, 4096 * MIB, 4096 * MIB);
	uses[1] = 9;
	for (int r = 0; r < 200; r++)
		round_of(uses);
	assert_int_equal(world.moves, 0);
}

static void means_get_there(void **state)
{
	struct heat heat = { 0 };

	(void)state;
	for (int r = 0; r < 100000; r++)
		heat_tick(&heat, 3);
	assert_int_equal(heat.quick, 3 * HEAT_ONE);
	assert_int_equal(heat.slow, 3 * HEAT_ONE);
	for (int r = 0; r < 100000; r++)
		heat_tick(&heat, 0);
	assert_int_equal(heat.quick, 0);
	assert_int_equal(heat.slow, 0);
	heat_tick(&heat, UINT32_MAX);
	assert_true(heat.quick > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_moves_while_nothing_is_used),
		cmocka_unit_test(a_cyclic_scan_moves_nothing),
		cmocka_unit_test(what_is_hot_comes_and_stays),
		cmocka_unit_test(what_is_free_is_used_first),
		cmocka_unit_test(a_burst_is_no_reason),
		cmocka_unit_test(phases_change_places),
		cmocka_unit_test(moves_are_paid_for),
		cmocka_unit_test(several_go_for_one),
		cmocka_unit_test(too_much_stays),
		cmocka_unit_test(means_get_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
