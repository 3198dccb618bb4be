/*
 * A process is killed after every single machine instruction of the account's operations; whoever
 * comes next must find every byte.
 */
#include "shm/account.h"

#include "step_way.h"

#define LIMIT UINT64_C(1000)

static struct ration_region *region;
static int make_region(void **state)
{
	(void)state;
	region = mmap(NULL, sizeof(*region), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	return region == MAP_FAILED ? -1 : 0;
}

static int drop_region(void **state)
{
	(void)state;
	return munmap(region, sizeof(*region));
}

/* All operations of an owner: settle, add, one that is refused, sub. */
static void own(void)
{
	struct account_holder h;

	account_settle(&h, region, 1, 0);
	account_add(&h, 300, LIMIT);
	account_add(&h, 5000, LIMIT);
	account_sub(&h, 100);
}

static void reap(unsigned slot)
{
	struct account_holder h;

	account_settle(&h, region, slot, 0);
	account_sub(&h, h.bytes);
}

static void reap_1(void)
{
	reap(1);
}

/* What the reaper finds: an owner died after its last operation, and another has gone on since. */
static void leave_behind(void)
{
	struct account_holder other;

	own();
	account_settle(&other, region, 2, 0);
	account_add(&other, 10, LIMIT);
}

static void (*script)(void);

static void body(void)
{
	step_from_here();
	script();
}

static struct step_way way;

static void prepare_region(void (*prepare)(void))
{
	memset(&region->accounts[0], 0, sizeof(region->accounts[0]));
	memset(region->slots, 0, 4 * sizeof(*region->slots));
	if (prepare)
		prepare();
}

static void walk(void)
{
	pid_t pid = step_start(body);

	step_way_begin(&way);
	do
		step_way_note(&way, pid);
	while (step_one(pid));
	step_kill(pid);
}

/* Runs the script, killed after `steps` instructions. False when it was over by then. */
static bool run_killed(long steps)
{
	pid_t pid = step_start(body);

	step_way_go(&way, pid, steps);
	return step_kill(pid);
}

static uint64_t held(unsigned slot)
{
	struct account_holder h;

	account_settle(&h, region, slot, 0);
	return h.bytes;
}

static void check_books(long steps)
{
	uint64_t total = region->accounts[0].total_bytes;

	if (total > LIMIT || total != held(1) + held(2))
		fail_msg("killed after %ld instructions: total %lu, slots %lu and %lu", steps,
			 (unsigned long)total, (unsigned long)held(1), (unsigned long)held(2));
}

static void kill_everywhere(void (*prepare)(void), void (*run)(void), bool with_other)
{
	long killed = 0;

	script = run;
	prepare_region(prepare);
	walk();
	for (long steps = 0; steps < way.count; steps++) {
		struct account_holder other;

		prepare_region(prepare);
		killed += run_killed(steps);
		check_books(steps);
		if (with_other) {
			account_settle(&other, region, 2, 0);
			assert_int_equal(account_add(&other, 50, LIMIT), 0);
			assert_int_equal(account_add(&other, 1, LIMIT), 0);
			check_books(steps);
		}
		reap(1);
		check_books(steps);
		assert_int_equal(held(1), 0);
		reap(2);
		assert_int_equal(region->accounts[0].total_bytes, 0);
	}
	/* The script itself was stepped through, not something beside it. */
	print_message("%ld instructions, %ld kills\n", way.count, killed);
	assert_true(killed > 40 && killed >= way.count - 2);
}

static void test_owner_killed(void **state)
{
	(void)state;
	if (!step_is_possible())
		SKIP(STEP_REASON);
	kill_everywhere(NULL, own, false);
}

static void test_owner_killed_others_go_on(void **state)
{
	(void)state;
	if (!step_is_possible())
		SKIP(STEP_REASON);
	kill_everywhere(NULL, own, true);
}

static void test_reaper_killed(void **state)
{
	(void)state;
	if (!step_is_possible())
		SKIP(STEP_REASON);
	kill_everywhere(leave_behind, reap_1, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_owner_killed, make_region, drop_region),
		cmocka_unit_test_setup_teardown(test_owner_killed_others_go_on, make_region,
						drop_region),
		cmocka_unit_test_setup_teardown(test_reaper_killed, make_region, drop_region),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
