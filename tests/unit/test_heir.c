/*
 * Memory that a process exported and died with stays charged to it until all members that import
 * have looked what they hold.
 */
#include "shm/heir.h"

#include "shm/account.h"
#include "shm/exported.h"
#include "shm/residency.h"
#include "tenant.h"

#include <sys/mman.h>
#include <sys/resource.h>

static char path[512];

static int make(void **state)
{
	if (scratch_make(state) < 0)
		return -1;
	snprintf(path, sizeof(path), "%s", scratch_path("region"));
	return 0;
}

enum { EXPORTS = 1, IMPORTS = 2, GIVES = 4, BYTES = 500 };
#define MIB (UINT64_C(1) << 20)

/* What those who give a descriptor give away: the test has it too. */
static int given = -1;

/* Looks at each word until it is killed. */
static void body(void *arg)
{
	unsigned what = *(unsigned *)arg;
	struct account_holder h;
	struct region r;
	struct slot slot;

	tenant_join(&r, &slot, path);
	account_settle(&h, r.own, slot.index, 0);
	CHECK(account_add(&h, BYTES, 0) == 0);
	r.own->slots[slot.index].used_bytes[0] = h.bytes;
	if (what & (EXPORTS | GIVES))
		heir_note_export(r.own, slot.index);
	if (what & GIVES) {
		const struct exported memory = { .memory = 1, .bytes = 2 * MIB };

		CHECK(account_add(&h, 10 * MIB, 0) == 0);
		CHECK(exported_mark(given, exported_owner(&r.own->slots[slot.index], slot.index),
				    &memory) == 0);
	}
	if (what & IMPORTS)
		residency_note_import(r.own, slot.index);
	child_say('k');
	while (child_hear()) {
		residency_note_look(r.own, slot.index);
		child_say('l');
	}
}

static struct child begin(unsigned what)
{
	return child_begin(body, &what);
}

static void look(struct child *c)
{
	child_tell(c, 'l');
	assert_int_equal(child_word(c), 'l');
}

static uint64_t charged(const struct region *r)
{
	return r->own->accounts[0].total_bytes;
}

static void test_it_waits_for_those_who_import(void **state)
{
	struct child idle = begin(0), heir = begin(IMPORTS), dead = begin(EXPORTS);
	struct region r;

	(void)state;
	tenant_open(&r, path, NULL);
	child_kill(&dead);
	for (int i = 0; i < 3; i++)
		assert_int_equal(slot_reap(&r, -1), 0);
	look(&heir);
	assert_int_equal(slot_reap(&r, -1), 0);
	assert_int_equal(charged(&r), 3 * BYTES);
	look(&heir);
	assert_int_equal(slot_reap(&r, -1), 1);
	assert_int_equal(charged(&r), 2 * BYTES);
	child_kill(&heir);
	child_kill(&idle);
	region_close(&r);
}

/* The second waits for looks that began after it was seen dead. */
static void test_one_after_the_other(void **state)
{
	struct child heir = begin(IMPORTS), first = begin(EXPORTS), second = begin(EXPORTS);
	struct region r;

	(void)state;
	tenant_open(&r, path, NULL);
	child_kill(&first);
	assert_int_equal(slot_reap(&r, -1), 0);
	look(&heir);
	child_kill(&second);
	assert_int_equal(slot_reap(&r, -1), 0);
	look(&heir);
	assert_int_equal(slot_reap(&r, -1), 1);
	look(&heir);
	assert_int_equal(slot_reap(&r, -1), 0);
	look(&heir);
	assert_int_equal(slot_reap(&r, -1), 1);
	assert_int_equal(charged(&r), BYTES);
	child_kill(&heir);
	region_close(&r);
}

/* The dead hold nothing, though they had imported: neither of each other nor for ever. */
static void test_the_dead_inherit_nothing(void **state)
{
	struct child keeper = begin(0), a = begin(EXPORTS | IMPORTS), b = begin(EXPORTS | IMPORTS);
	struct region r;

	(void)state;
	tenant_open(&r, path, NULL);
	child_kill(&a);
	child_kill(&b);
	for (int i = 0; i < 3; i++)
		slot_reap(&r, -1);
	assert_int_equal(charged(&r), BYTES);
	child_kill(&keeper);
	region_close(&r);
}

static void test_where_nobody_imports_it_goes_at_once(void **state)
{
	struct child keeper = begin(0), dead = begin(EXPORTS);
	struct region r;

	(void)state;
	tenant_open(&r, path, NULL);
	child_kill(&dead);
	assert_int_equal(slot_reap(&r, -1), 1);
	assert_int_equal(charged(&r), BYTES);
	/* Nor does who has exported nothing leave anything to who imports. */
	dead = begin(0);
	struct child heir = begin(IMPORTS);

	child_kill(&dead);
	assert_int_equal(slot_reap(&r, -1), 1);
	child_kill(&heir);
	child_kill(&keeper);
	region_close(&r);
}

/* Whoever comes finds another slot, and the region is not made anew. */
static void test_its_slot_is_not_given_away(void **state)
{
	struct child heir = begin(IMPORTS), dead = begin(EXPORTS), next;
	struct region r;

	(void)state;
	tenant_open(&r, path, NULL);
	child_kill(&dead);
	next = begin(0);
	assert_int_equal(charged(&r), 3 * BYTES);
	child_kill(&next);
	child_kill(&heir);
	region_close(&r);
}

static struct child begin_giver(void)
{
	given = memfd_create("exported", MFD_CLOEXEC);
	assert_true(given >= 0);
	return begin(GIVES);
}

/* It is what a descriptor holds of a dead process's that stays charged, and no more. */
static void test_a_descriptor_outlives_its_maker(void **state)
{
	struct child keeper = begin(0), dead = begin_giver(), next;
	uint64_t keep_bytes[RATION_DEVICES];
	struct region r;

	(void)state;
	tenant_open(&r, path, NULL);
	assert_int_equal(charged(&r), 2 * BYTES + 10 * MIB);
	child_kill(&dead);
	for (int i = 0; i < 3; i++)
		assert_int_equal(slot_reap(&r, -1), 0);
	assert_int_equal(charged(&r), BYTES + 2 * MIB);
	assert_int_equal(r.hami->procs[1].used[0].total_bytes, 2 * MIB);
	assert_int_equal(r.hami->procs[1].status, HAMI_RUNNING);
	assert_true(heir_keeps(r.own, 1, keep_bytes));
	assert_int_equal(keep_bytes[0], 2 * MIB);
	/* Its slot is nobody else's meanwhile. */
	next = begin(0);
	assert_int_equal(charged(&r), 2 * BYTES + 2 * MIB);
	/* It has a copy too. */
	close(given);
	assert_int_equal(slot_reap(&r, -1), 0);
	child_kill(&next);
	assert_int_equal(slot_reap(&r, -1), 2);
	assert_int_equal(charged(&r), BYTES);
	assert_int_equal(r.hami->procs[1].used[0].total_bytes, 0);
	child_kill(&keeper);
	region_close(&r);
}

/* Nobody of the tenant lives: who comes next begins with what is left, and not anew. */
static void test_a_descriptor_outlives_them_all(void **state)
{
	struct child dead = begin_giver(), next;
	struct region r;

	(void)state;
	child_kill(&dead);
	next = begin(0);
	tenant_open(&r, path, NULL);
	slot_reap(&r, -1);
	assert_int_equal(charged(&r), BYTES + 2 * MIB);
	child_kill(&next);
	close(given);
	region_close(&r);
	next = begin(0);
	tenant_open(&r, path, NULL);
	slot_reap(&r, -1);
	assert_int_equal(charged(&r), BYTES);
	child_kill(&next);
	region_close(&r);
}

/* Who reaps has no descriptor left: nobody can say for the moment what is held. */
static void test_who_cannot_look_takes_nothing_off(void **state)
{
	struct child keeper = begin(0), dead = begin_giver();
	struct rlimit before, none = { 0 };
	uint64_t keep_bytes[RATION_DEVICES];
	struct region r;
	bool is_kept;

	(void)state;
	tenant_open(&r, path, NULL);
	child_kill(&dead);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	slot_reap(&r, -1);
	is_kept = heir_keeps(r.own, 1, keep_bytes);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_true(is_kept);
	assert_int_equal(keep_bytes[0], UINT64_MAX);
	assert_in_range(charged(&r), BYTES + 2 * MIB, 2 * BYTES + 10 * MIB);
	slot_reap(&r, -1);
	assert_int_equal(charged(&r), BYTES + 2 * MIB);
	close(given);
	assert_int_equal(slot_reap(&r, -1), 1);
	child_kill(&keeper);
	region_close(&r);
}

#define heir_test(f) cmocka_unit_test_setup_teardown(f, make, scratch_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		heir_test(test_it_waits_for_those_who_import),
		heir_test(test_one_after_the_other),
		heir_test(test_the_dead_inherit_nothing),
		heir_test(test_where_nobody_imports_it_goes_at_once),
		heir_test(test_its_slot_is_not_given_away),
		heir_test(test_a_descriptor_outlives_its_maker),
		heir_test(test_a_descriptor_outlives_them_all),
		heir_test(test_who_cannot_look_takes_nothing_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
