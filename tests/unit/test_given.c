/*
 * Pieces of pools that processes give to each other: what the card may hold of them stays charged.
 * The second slot of the region stands for another process.
 */
#include "core/given.h"
#include "core/taken.h"

#include "core/pool.h"
#include "core/quota.h"
#include "shm/shared_pools.h"

#include "member.h"

#define MIB MIB_BYTES(1)
#define STEP POOL_STEP_BYTES
#define BASE (UINT64_C(0x300) * STEP)

static struct member member;
static const char pool, second, theirs;

static void start(void)
{
	member_join(&member, scratch_path("region"), "1g", RATION_FLAG_CONTEXT_FREE, 2);
	pool_init();
	given_init(&member.region, member.slot.index);
	taken_init(&member.region, member.slot.index);
}

static unsigned other(void)
{
	return member.slot.index + 1;
}

static void others_have(uint64_t bytes)
{
	shared_pools_set_taken(member.region.own, other(), bytes);
}

static void others_gave(uint64_t bytes)
{
	shared_pools_set_given(member.region.own, other(), bytes);
}

static uint64_t given(void)
{
	return shared_pools_given(member.region.own, member.slot.index);
}

static uint64_t taken(void)
{
	return shared_pools_all_taken(member.region.own);
}

static int give(const void *of, uint64_t addr, uint64_t bytes)
{
	struct given_piece *piece = given_prepare(addr, bytes);

	CHECK(piece);
	return given_enter(piece, of, dev0);
}

static void what_was_not_given(void **state)
{
	(void)state;
	start();
	given_freed(BASE);
	CHECK_EQ(given_keep(&pool, dev0, STEP), 0);
	CHECK_EQ(give(&pool, BASE, STEP), 1);
	/* It lives: what the pool lets go of is something else. */
	CHECK_EQ(given_keep(&pool, dev0, STEP), 0);
	given_freed(BASE + STEP);
	CHECK_EQ(given_keep(&pool, dev0, STEP), 0);
	given_freed(BASE);
	CHECK_EQ(given_keep(&second, dev0, STEP), 0);
	CHECK_EQ(given_keep(&pool, dev0, 3 * STEP), STEP);
	CHECK_EQ(given_keep(&pool, dev0, STEP), 0);
}

/* Units are counted once, whatever lies in them, and have ended with the last piece. */
static void pieces_in_a_unit(void **state)
{
	(void)state;
	start();
	CHECK_EQ(give(&pool, BASE, MIB), 1);
	CHECK_EQ(give(&pool, BASE + MIB, STEP), 1);
	CHECK_EQ(give(&pool, BASE, MIB), 0);
	CHECK_EQ(given(), 2 * STEP);
	given_freed(BASE);
	CHECK_EQ(given_keep(&pool, dev0, STEP), 0);
	given_freed(BASE + MIB);
	CHECK_EQ(given_keep(&pool, dev0, 2 * STEP), 2 * STEP);
}

static void what_the_driver_refuses(void **state)
{
	(void)state;
	start();
	CHECK_EQ(give(&pool, BASE, STEP), 1);
	given_undo(BASE);
	given_freed(BASE);
	CHECK_EQ(given_keep(&pool, dev0, STEP), 0);
	CHECK(!given_prepare(BASE, 0));
	CHECK(!given_prepare(UINT64_MAX - MIB, 2 * MIB));
}

/* As often as a piece is given: one generation for the pool and one for each that was taken. */
static void at_most_what_may_be_held(void **state)
{
	uint64_t kept = 0;

	(void)state;
	start();
	others_have(STEP);
	for (int i = 0; i < 10; i++) {
		CHECK_EQ(give(&pool, BASE, STEP), 1);
		given_freed(BASE);
		kept += given_keep(&pool, dev0, STEP);
	}
	CHECK_EQ(kept, 2 * STEP);
	CHECK_EQ(given_settle(dev0), 0);
	others_have(0);
	CHECK_EQ(given_settle(dev0), STEP);
	CHECK_EQ(given_settle(dev0), 0);
	given_pool_end(&pool);
	CHECK_EQ(given_settle(dev0), STEP);
	CHECK_EQ(given(), 0);
}

/* Those under way may have all. */
static void while_one_is_being_taken(void **state)
{
	(void)state;
	start();
	CHECK_EQ(give(&pool, BASE, STEP), 1);
	given_freed(BASE);
	taken_begin();
	CHECK_EQ(given_keep(&pool, dev0, STEP), STEP);
	given_pool_end(&pool);
	CHECK_EQ(given_settle(dev0), 0);
	taken_over();
	CHECK_EQ(given_settle(dev0), STEP);
}

/* What a destroyed pool still has goes later. */
static void a_destroyed_pool(void **state)
{
	(void)state;
	start();
	others_have(3 * STEP);
	CHECK_EQ(give(&pool, BASE, STEP), 1);
	CHECK_EQ(give(&pool, BASE + STEP, STEP), 1);
	CHECK_EQ(give(&second, BASE + 2 * STEP, STEP), 1);
	given_freed(BASE);
	given_pool_end(&pool);
	CHECK_EQ(given_keep(NULL, dev0, 5 * STEP), 2 * STEP);
	given_freed(BASE + STEP);
	CHECK_EQ(given_keep(NULL, dev0, 5 * STEP), 0);
	given_freed(BASE + 2 * STEP);
	CHECK_EQ(given_keep(&second, dev0, STEP), STEP);
	CHECK_EQ(given(), 4 * STEP);
	others_have(0);
	CHECK_EQ(given_settle(dev0), 2 * STEP);
}

static void what_the_tenant_gave_is_not_charged(void **state)
{
	(void)state;
	start();
	others_gave(2 * STEP);
	taken_begin();
	CHECK_EQ(taken_enter(&theirs, dev0, BASE, STEP), 0);
	CHECK_EQ(taken(), UINT64_MAX);
	taken_over();
	CHECK_EQ(taken(), STEP);
	taken_begin();
	CHECK_EQ(taken_enter(&theirs, dev0, BASE, STEP), 0);
	CHECK_EQ(taken_enter(&theirs, dev0, BASE + STEP, STEP), 0);
	taken_over();
	CHECK_EQ(taken(), 2 * STEP);
	CHECK_EQ(quota_used(dev0), 0);
	taken_pool_end(&second);
	CHECK_EQ(taken(), 2 * STEP);
	taken_pool_end(&theirs);
	CHECK_EQ(taken(), 0);
}

/* Another tenant's is: nobody here is charged for it. */
static void what_nobody_gave_is_charged(void **state)
{
	(void)state;
	start();
	others_gave(STEP);
	taken_begin();
	CHECK_EQ(taken_enter(&theirs, dev0, BASE, 3 * STEP), 0);
	CHECK_EQ(quota_used(dev0), 2 * STEP);
	CHECK_EQ(taken_enter(&theirs, dev0, BASE + 3 * STEP, MIB_BYTES(1024)), -EDQUOT);
	CHECK_EQ(quota_used(dev0), 2 * STEP + MIB_BYTES(1024));
	taken_over();
	taken_pool_end(&theirs);
	CHECK_EQ(quota_used(dev0), 0);
}

/* Two pools that were taken may have the same addresses. */
static void pools_at_one_address(void **state)
{
	(void)state;
	start();
	others_gave(8 * STEP);
	taken_begin();
	CHECK_EQ(taken_enter(&theirs, dev0, BASE, STEP), 0);
	CHECK_EQ(taken_enter(&second, dev0, BASE, STEP), 0);
	taken_over();
	CHECK_EQ(taken(), 2 * STEP);
	taken_pool_end(&theirs);
	CHECK_EQ(taken(), STEP);
}

/* Where the driver does not say which pool a piece is of any may let go of it. */
static void of_an_unknown_pool(void **state)
{
	(void)state;
	start();
	CHECK_EQ(give(NULL, BASE, STEP), 1);
	CHECK_EQ(given_keep(&pool, dev0, STEP), 0);
	given_freed(BASE);
	CHECK_EQ(given_keep(&pool, dev0, 2 * STEP), STEP);
	given_pool_end(NULL);
	CHECK_EQ(given_settle(dev0), 0);
}

static void of_unknown_size(void **state)
{
	(void)state;
	start();
	taken_begin();
	CHECK_EQ(taken_enter(&theirs, dev0, BASE, 0), 0);
	taken_over();
	CHECK_EQ(taken(), UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(what_was_not_given),
		fresh_test(pieces_in_a_unit),
		fresh_test(what_the_driver_refuses),
		fresh_test(at_most_what_may_be_held),
		fresh_test(while_one_is_being_taken),
		fresh_test(a_destroyed_pool),
		fresh_test(what_the_tenant_gave_is_not_charged),
		fresh_test(what_nobody_gave_is_charged),
		fresh_test(pools_at_one_address),
		fresh_test(of_an_unknown_pool),
		fresh_test(of_unknown_size),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
