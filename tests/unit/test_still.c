#include "core/still.h"

#include "core/charge.h"
#include "member.h"

#include <pthread.h>
#include <stdatomic.h>

#define BASE UINT64_C(0x7f0000000000)

/* The card: what the driver says that this process holds. */
static struct {
	_Atomic uint64_t bytes;
} card;

static int card_bytes(const char *uuid, uint64_t *out_bytes)
{
	(void)uuid;
	*out_bytes = atomic_load(&card.bytes);
	return 0;
}

static const struct gpu_ops ops = { .process_bytes = card_bytes };
static struct member member;

static void start(const char *limit)
{
	member_join(&member, scratch_path("region"), limit, 0, 1);
	charge_init(&ops);
	card.bytes = 0;
}

static uint64_t overhead(void)
{
	return quota_held(dev0, QUOTA_CONTEXT) + quota_held(dev0, QUOTA_MODULE);
}

static void what_comes_to_rest_is_told_exactly(void)
{
	start("64m");
	card.bytes = MIB_BYTES(10);
	CHECK_EQ(still_reconcile(dev0, QUOTA_MODULE), 0);
	CHECK_EQ(overhead(), MIB_BYTES(10));
	CHECK(!still_is_over(dev0, MIB_BYTES(54)));
	CHECK(still_is_over(dev0, MIB_BYTES(54) + 1));
	CHECK(still_is_over(dev0, UINT64_MAX));
}

/* Another thread's allocation stays in the driver, which has given it or has not. */
static void what_does_not_rest_is_doubted(void)
{
	struct charge c;

	start("64m");
	CHECK_EQ(charge_reserve_linear(&c, dev0, NULL, MIB_BYTES(20)), 0);
	card.bytes = MIB_BYTES(16);
	CHECK_EQ(still_reconcile(dev0, QUOTA_MODULE), MIB_BYTES(16));
	CHECK_EQ(overhead(), 0);
	card.bytes = MIB_BYTES(36);
	CHECK_EQ(still_reconcile(dev0, QUOTA_MODULE) + overhead(), MIB_BYTES(36));
	CHECK_EQ(charge_commit(&c, BASE, MIB_BYTES(20)), 0);
	CHECK_EQ(still_reconcile(dev0, QUOTA_MODULE), 0);
	CHECK_EQ(overhead(), MIB_BYTES(16));
}

static _Atomic bool is_over;

/* Changes without a pause: there is no moment of rest unless it is asked for. */
static void *change(void *arg)
{
	uint64_t addr = BASE + MIB_BYTES(2) * (uint64_t)(uintptr_t)arg;
	struct charge c;
	struct dev dev;

	while (!atomic_load(&is_over)) {
		CHECK_EQ(charge_reserve_linear(&c, dev0, NULL, MIB_BYTES(2)), 0);
		CHECK_EQ(charge_commit(&c, addr, MIB_BYTES(2)), 0);
		charge_end(charge_take(addr, &dev), dev);
	}
	return NULL;
}

static void who_begins_later_waits(void)
{
	pthread_t threads[4];
	int exact = 0;

	start(NULL);
	card.bytes = MIB_BYTES(1000);
	atomic_store(&is_over, false);
	for (uintptr_t i = 0; i < 4; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, change, (void *)i), 0);
	for (int i = 0; i < 100; i++)
		exact += still_reconcile(dev0, QUOTA_MODULE) == 0;
	atomic_store(&is_over, true);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	CHECK(exact > 0);
	CHECK_EQ(quota_held(dev0, QUOTA_DATA), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(what_comes_to_rest_is_told_exactly),
		fresh_test(what_does_not_rest_is_doubted),
		fresh_test(who_begins_later_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
