/*
 * What the card holds is charged also while other threads of the process are in the midst of
 * changes.
 */
#include "core/charge.h"

#include "member.h"

#include <errno.h>

#define MIB MIB_BYTES(1)

static struct member member;
static uint64_t card; /* what the driver says this process holds */

static int card_bytes(const char *uuid, uint64_t *out_bytes)
{
	(void)uuid;
	*out_bytes = card;
	return 0;
}

static const struct gpu_ops ops = { .process_bytes = card_bytes };

/* A context, and a thread that is in the midst of a change from now on. */
static void start(void)
{
	member_join(&member, scratch_path("region"), "256m", 0, 1);
	charge_init(&ops);
	card = 64 * MIB;
	CHECK_EQ(charge_reconcile(dev0, QUOTA_CONTEXT), 0);
	charge_begin();
}

static uint64_t overhead(void)
{
	return quota_held(dev0, QUOTA_CONTEXT) + quota_held(dev0, QUOTA_MODULE);
}

static void modules_are_charged(void)
{
	start();
	for (uint64_t i = 1; i <= 4; i++) {
		card += 32 * MIB;
		CHECK((int)charge_reconcile(dev0, QUOTA_MODULE) == -EAGAIN);
		CHECK_EQ(overhead(), (64 + i * 32) * MIB);
	}
	CHECK((int)quota_reserve(dev0, QUOTA_DATA, 65 * MIB) == -EDQUOT);
	/* One that was unloaded shows when the change is over. */
	card -= 32 * MIB;
	CHECK((int)charge_watch(dev0) == -EAGAIN);
	CHECK_EQ(overhead(), 192 * MIB);
	charge_over();
	CHECK_EQ(overhead(), 160 * MIB);
}

/* What is reserved may be there or not: it is not taken for a module. */
static void data_is_not_taken_for_overhead(void)
{
	struct charge linear, managed;

	start();
	CHECK_EQ(charge_reserve_linear(&linear, dev0, NULL, 10 * MIB), 0);
	card += 10 * MIB;
	CHECK((int)charge_reconcile(dev0, QUOTA_MODULE) == -EAGAIN);
	CHECK_EQ(overhead(), 64 * MIB);
	/* The driver's figure does not hold managed memory. */
	CHECK_EQ(charge_reserve_managed(&managed, dev0, NULL, 20 * MIB, CHARGE_MAY_WAIT), 0);
	CHECK_EQ(charge_commit(&managed, 0x7f8000000000, 20 * MIB), 0);
	card += 4 * MIB;
	CHECK((int)charge_reconcile(dev0, QUOTA_MODULE) == -EAGAIN);
	CHECK_EQ(overhead(), 68 * MIB);
	CHECK_EQ(charge_commit(&linear, 0x7f0000000000, 10 * MIB), 0);
	charge_over();
	CHECK_EQ(overhead(), 68 * MIB);
	CHECK_EQ(quota_used(dev0), 98 * MIB);
}

/*
 * No call tells what an array takes: where the card cannot be asked before it, it is asked after.
 */
static void an_object_that_is_more_than_its_estimate(void)
{
	struct track_node *node;
	struct charge c;
	struct dev dev;

	start();
	CHECK_EQ(charge_reserve_object(&c, dev0, NULL, 2 * MIB), 0);
	card += 12 * MIB;
	CHECK_EQ(charge_commit_object(&c, (const void *)0x1000), 0);
	CHECK_EQ(quota_used(dev0), 76 * MIB);
	CHECK_EQ(charge_reserve_object(&c, dev0, NULL, 2 * MIB), 0);
	card += 200 * MIB;
	CHECK((int)charge_commit_object(&c, (const void *)0x2000) == -EOVERFLOW);
	/* It is an object like any other until it is destroyed. */
	CHECK_EQ(quota_used(dev0), 276 * MIB);
	node = charge_take(0x2000, &dev);
	CHECK(node);
	card -= 200 * MIB;
	charge_look_later(dev);
	charge_end(node, dev);
	charge_over();
	CHECK_EQ(quota_used(dev0), 76 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(modules_are_charged),
		fresh_test(data_is_not_taken_for_overhead),
		fresh_test(an_object_that_is_more_than_its_estimate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
