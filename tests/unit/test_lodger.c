#include "core/lodger.h"

#include "fresh.h"

#define BLOCK (UINT64_C(2) << 20)

static char modules[3], ctx, other_ctx;
static const struct dev dev0 = { 0 }, dev1 = { 1 };

static void as_much_stays_as_they_may_hold(void)
{
	lodger_init();
	CHECK(!lodger_any(dev0));
	CHECK_EQ(lodger_stay(dev0, BLOCK), 0);
	lodger_enter(&modules[0], &ctx, dev0, 0);
	CHECK(!lodger_any(dev0));
	lodger_enter(&modules[0], &ctx, dev0, 2 * BLOCK);
	lodger_enter(&modules[0], &ctx, dev0, 2 * BLOCK);
	CHECK(lodger_any(dev0) && !lodger_any(dev1));
	CHECK(!lodger_stays(dev0));
	CHECK_EQ(lodger_stay(dev0, BLOCK), BLOCK);
	CHECK(lodger_stays(dev0) && !lodger_stays(dev1));
	CHECK_EQ(lodger_stay(dev0, 3 * BLOCK), BLOCK);
	CHECK_EQ(lodger_stay(dev0, BLOCK), 0);
	CHECK_EQ(lodger_settle(dev0), 2 * BLOCK);
	CHECK_EQ(lodger_settle(dev0), 0);
	CHECK_EQ(lodger_stay(dev0, BLOCK), BLOCK);
}

static void they_count_until_they_are_gone(void)
{
	struct lodger *taken;

	lodger_init();
	lodger_enter(&modules[0], &ctx, dev0, BLOCK);
	lodger_enter(&modules[0], &other_ctx, dev1, BLOCK);
	lodger_enter(&modules[1], &ctx, dev0, UINT64_MAX);
	lodger_enter(&modules[2], &ctx, dev0, UINT64_MAX);
	CHECK(!lodger_take(NULL));
	taken = lodger_take(&modules[0]);
	CHECK(taken && !lodger_take(&modules[0]));
	CHECK(lodger_any(dev1));
	lodger_over(taken, false);
	taken = lodger_take(&modules[0]);
	/* Another has its handle. */
	lodger_enter(&modules[0], &other_ctx, dev1, BLOCK);
	lodger_over(taken, true);
	CHECK_EQ(lodger_stay(dev1, 2 * BLOCK), BLOCK);
	lodger_end_context(&other_ctx, UINT64_MAX);
	CHECK(!lodger_any(dev1));
	/* It is on the card until it is looked at. */
	CHECK(lodger_stays(dev1));
	CHECK_EQ(lodger_stay(dev0, 1000 * BLOCK), 1000 * BLOCK);
	lodger_end_context(&ctx, UINT64_MAX);
	CHECK(!lodger_any(dev0));
	CHECK_EQ(lodger_stay(dev0, BLOCK), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(as_much_stays_as_they_may_hold),
		fresh_test(they_count_until_they_are_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
