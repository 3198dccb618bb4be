/*
 * A process is killed after every single machine instruction of the account's operations; whoever
 * comes next must find every byte.
 */
#include "shm/account.h"

#include "child.h"

#include <sys/mman.h>
#include <sys/ptrace.h>

#define LIMIT UINT64_C(1000)

static struct ration_region *region;
static bool *is_over; /* shared: the script is */

/* Stops the traced process here, with nothing left to return from. */
static inline void breakpoint(void)
{
#if defined __x86_64__
	__asm__ volatile("int3");
#endif
}

static int make_region(void **state)
{
	(void)state;
	region = mmap(NULL, sizeof(*region), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	is_over = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return region == MAP_FAILED || (void *)is_over == MAP_FAILED ? -1 : 0;
}

static int drop_region(void **state)
{
	(void)state;
	munmap(is_over, 1);
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

/* Runs `script`, killed after `steps` instructions. False when it was over by then. */
static bool run_killed(void (*script)(void), long steps)
{
	pid_t pid;
	int status;

	*is_over = false;
	pid = fork();
	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		breakpoint();
		script();
		*is_over = true;
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSTOPPED(status));
	for (long i = 0; i < steps && !*is_over; i++) {
		if (ptrace(PTRACE_SINGLESTEP, pid, 0, 0) < 0)
			fail_msg("step: %s", strerror(errno));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSTOPPED(status));
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return !*is_over;
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

static void kill_everywhere(void (*prepare)(void), void (*script)(void), bool with_other)
{
	bool killed = true;
	long steps = 0;

	for (; killed; steps++) {
		struct account_holder other;

		memset(&region->accounts[0], 0, sizeof(region->accounts[0]));
		memset(region->slots, 0, 4 * sizeof(*region->slots));
		if (prepare)
			prepare();
		killed = run_killed(script, steps);
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
	assert_true(steps > 40);
}

static bool can_step(void)
{
#if defined __x86_64__
	return !BUILD_SANITIZED;
#else
	return false;
#endif
}

#define REASON "single steps are taken on x86-64 only, and without a sanitizer"

static void test_owner_killed(void **state)
{
	(void)state;
	if (!can_step())
		SKIP(REASON);
	kill_everywhere(NULL, own, false);
}

static void test_owner_killed_others_go_on(void **state)
{
	(void)state;
	if (!can_step())
		SKIP(REASON);
	kill_everywhere(NULL, own, true);
}

static void test_reaper_killed(void **state)
{
	(void)state;
	if (!can_step())
		SKIP(REASON);
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
