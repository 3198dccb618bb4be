/*
 * Memory that a process exported and died with stays charged to it until all members that import
 * have looked what they hold.
 */
#include "shm/heir.h"

#include "shm/account.h"
#include "shm/residency.h"
#include "tenant.h"

static char path[512];

static int make(void **state)
{
	if (scratch_make(state) < 0)
		return -1;
	snprintf(path, sizeof(path), "%s", scratch_path("region"));
	return 0;
}

enum { EXPORTS = 1, IMPORTS = 2, BYTES = 500 };

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
	if (what & EXPORTS)
		heir_note_export(r.own, slot.index);
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

#define heir_test(f) cmocka_unit_test_setup_teardown(f, make, scratch_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		heir_test(test_it_waits_for_those_who_import),
		heir_test(test_one_after_the_other),
		heir_test(test_the_dead_inherit_nothing),
		heir_test(test_where_nobody_imports_it_goes_at_once),
		heir_test(test_its_slot_is_not_given_away),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
