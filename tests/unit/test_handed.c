#include "core/handed.h"

#include "core/handle.h"
#include "shm/heir.h"
#include "shm/residency.h"

#include "member.h"

#define MIB MIB_BYTES(1)

static struct member member;

/* Another member. It imports, and looks at each word until it is killed. */
static void be_another(void *arg)
{
	struct member m;

	member_join(&m, scratch_path("region"), "1g", 0, 1);
	handed_init(&m.region, m.slot.index);
	if (arg)
		handed_import();
	child_say('c');
	while (child_hear()) {
		handed_looked();
		child_say('l');
	}
}

static struct child start_another(bool imports)
{
	struct child other = child_start(be_another, imports ? &member : NULL);

	CHECK_EQ(child_word(&other), 'c');
	return other;
}

static void look(struct child *other)
{
	child_tell(other, 'l');
	CHECK_EQ(child_word(other), 'l');
}

static void start(void)
{
	member_join(&member, scratch_path("region"), "1g", 0, 1);
	handed_init(&member.region, member.slot.index);
}

/* True where it stays charged. */
static bool hand_on(uint64_t bytes)
{
	uint64_t left;

	CHECK_EQ(quota_charge(dev0, QUOTA_DATA, bytes), 0);
	handed_note(dev0, bytes);
	left = handed_keep(dev0, bytes);
	CHECK(left == 0 || left == bytes);
	quota_release(dev0, QUOTA_DATA, left);
	return left == 0;
}

static void it_stays_charged_until_all_have_looked(void)
{
	struct child other, third, idle;

	start();
	other = start_another(true);
	third = start_another(true);
	idle = start_another(false);
	/* What was not exported goes at once. */
	CHECK_EQ(handed_keep(dev0, 3 * MIB), 3 * MIB);
	CHECK(hand_on(4 * MIB));
	CHECK_EQ(handed_keep(dev0, MIB), MIB);
	handed_settle(dev0);
	CHECK_EQ(quota_used(dev0), 4 * MIB);
	/* The first may have been under way. */
	look(&other);
	look(&other);
	look(&third);
	handed_settle(dev0);
	CHECK_EQ(quota_used(dev0), 4 * MIB);
	look(&third);
	handed_settle(dev0);
	CHECK_EQ(quota_used(dev0), 0);
	/* Nobody is waited for who is stopped for long; who has died holds nothing. */
	CHECK(hand_on(2 * MIB));
	CHECK(!handed_await(dev0));
	CHECK_EQ(quota_used(dev0), 2 * MIB);
	look(&other);
	look(&other);
	child_kill(&third);
	CHECK(handed_await(dev0));
	CHECK_EQ(quota_used(dev0), 0);
	CHECK(!handed_await(dev0));
	child_kill(&other);
	child_kill(&idle);
}

static void where_nobody_imports_it_goes_at_once(void)
{
	struct child idle;

	start();
	CHECK(!hand_on(MIB));
	idle = start_another(false);
	CHECK(!hand_on(MIB));
	/* Its own imports it knows of. */
	handed_import();
	handed_looked();
	CHECK(!hand_on(MIB));
	CHECK_EQ(quota_used(dev0), 0);
	child_kill(&idle);
}

/* Who reaped it was mistaken, and it has its slot again. */
static void it_is_said_anew_where_the_slot_was_lost(void)
{
	struct ration_region *own;
	unsigned slot;

	start();
	own = member.region.own;
	slot = member.slot.index;
	handed_hold();
	CHECK_EQ(residency_import_looks(own, slot), 0);
	CHECK_EQ(own->exporters[slot / 64], 0);
	handed_import();
	handed_export();
	residency_clear(own, slot);
	heir_clear(own, slot);
	handed_hold();
	CHECK_EQ(residency_import_looks(own, slot), 1);
	CHECK_EQ(own->exporters[slot / 64], UINT64_C(1) << slot % 64);
	handed_looked();
	handed_hold();
	CHECK_EQ(residency_import_looks(own, slot), 2);
}

/* It has imported memory, and a sparse array holds that until the second word. */
static void map_and_look(void *arg)
{
	struct handle_node *import = handle_prepare(), *tile = handle_prepare();
	struct member m;

	(void)arg;
	member_join(&m, scratch_path("region"), "1g", 0, 1);
	handed_init(&m.region, m.slot.index);
	handle_init();
	handed_import();
	handle_import(import, 0x100, dev0);
	handle_use_unseen(tile, 0x100);
	handle_released(handle_release(0x100));
	child_say('c');
	for (int words = 1; child_hear(); words++) {
		if (words == 3)
			handle_unuse(tile);
		handed_looked();
		child_say('l');
	}
}

/* No figure shows what sparse arrays hold, whoever looks: it stays its maker's. */
static void what_is_in_no_figure_is_not_looked_for(void)
{
	struct child other;

	start();
	other = child_start(map_and_look, NULL);
	CHECK_EQ(child_word(&other), 'c');
	CHECK(hand_on(4 * MIB));
	for (int i = 0; i < 4; i++) {
		CHECK_EQ(quota_used(dev0), 4 * MIB);
		look(&other);
		handed_settle(dev0);
	}
	CHECK_EQ(quota_used(dev0), 0);
	child_kill(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(it_stays_charged_until_all_have_looked),
		fresh_test(where_nobody_imports_it_goes_at_once),
		fresh_test(what_is_in_no_figure_is_not_looked_for),
		fresh_test(it_is_said_anew_where_the_slot_was_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
