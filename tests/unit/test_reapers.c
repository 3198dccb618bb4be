/*
 * One process reaps or takes a dead one's slot and is held up after any of its machine
 * instructions; another reaps meanwhile. What the dead held is given back once.
 */
#include "shm/account.h"

#include "step.h"
#include "tenant.h"

enum { OWN = 1000, DEAD = 300, NEW = 77 };

/* Behind each call; what lies farther are walks over all slots, which change nothing. */
enum { STEPS_MAX = 500 };

static char path[512];
static struct region region;
static struct slot own;
static struct ration_region *found; /* as the dead left it */

static void die_with_bytes(void *arg)
{
	struct account_holder h;
	struct region r;
	struct slot slot;

	(void)arg;
	tenant_join(&r, &slot, path);
	CHECK(slot.index == 1);
	account_settle(&h, r.own, 1, 0);
	CHECK(account_add(&h, DEAD, 0) == 0);
	_exit(0);
}

static int make(void **state)
{
	struct account_holder h;
	struct region_error err;
	struct child dead;

	if (scratch_make(state) < 0)
		return -1;
	snprintf(path, sizeof(path), "%s", scratch_path("region"));
	assert_int_equal(region_open(path, &(struct region_setup){ .priority = 1 }, &region, &err),
			 0);
	assert_int_equal(region_add_device(&region, TENANT_UUID, 1), 0);
	assert_ok(slot_claim(&region, &own));
	region_settle(&region);
	account_settle(&h, region.own, own.index, 0);
	assert_int_equal(account_add(&h, OWN, 0), 0);
	dead = child_start(die_with_bytes, NULL);
	child_end(&dead);
	found = malloc(sizeof(*found));
	assert_non_null(found);
	memcpy(found, region.own, sizeof(*found));
	assert_int_equal(found->accounts[0].total_bytes, OWN + DEAD);
	return 0;
}

static int drop(void **state)
{
	free(found);
	region_close(&region);
	return scratch_remove(state);
}

static void reap(void)
{
	struct region r;

	tenant_open(&r, path, NULL);
	step_from_here();
	slot_reap(&r, -1);
}

/* No slot looks free, so the dead one's is taken if nobody reaps it before. */
static void take(void)
{
	struct account_holder h;
	struct region_error err;
	struct region r;
	struct slot slot;

	CHECK(region_open(path, &(struct region_setup){ .priority = 1 }, &r, &err) == 0);
	memset(r.own->hint, 1, sizeof(r.own->hint));
	step_from_here();
	CHECK(slot_claim(&r, &slot) == 0);
	account_settle(&h, r.own, slot.index, 0);
	CHECK(h.bytes == 0 && account_add(&h, NEW, 0) == 0);
}

/* The books of one device, when nobody changes them. */
static void audit(uint64_t want, int calls, long steps)
{
	struct account_holder h;
	uint64_t sum = 0, total = region.own->accounts[0].total_bytes;

	for (unsigned s = 0; s < HAMI_SLOTS; s++) {
		account_settle(&h, region.own, s, 0);
		sum += h.bytes;
	}
	if (sum != want || total != want)
		fail_msg("held up %ld instructions after call %d: slots %lu, total %lu, want %lu",
			 steps, calls, (unsigned long)sum, (unsigned long)total,
			 (unsigned long)want);
}

/* To behind the next system call. False when the body was over before. */
static bool run_to_call(pid_t pid)
{
	for (int stop = 0; stop < 2; stop++) {
		if (*step_over)
			return false;
		assert_int_equal(ptrace(PTRACE_SYSCALL, pid, 0, 0), 0);
		step_wait(pid);
	}
	return !*step_over;
}

static bool is_at_call(pid_t pid)
{
#if defined __x86_64__
	struct user_regs_struct regs;

	assert_int_equal(ptrace(PTRACE_GETREGS, pid, 0, &regs), 0);
	return (ptrace(PTRACE_PEEKTEXT, pid, regs.rip, 0) & 0xffff) == 0x050f;
#else
	(void)pid;
	return true;
#endif
}

enum held { HELD_UP, AT_CALL, WAS_OVER };

/* Holds the body up so far behind its start, reaps, lets it go on and looks at the books. */
static enum held hold_up(void (*body)(void), int calls, long steps, uint64_t want)
{
	enum held held = HELD_UP;
	int status;
	pid_t pid;

	memcpy(region.own, found, sizeof(*found));
	pid = step_start(body);
	for (int i = 0; i < calls && held == HELD_UP; i++)
		if (!run_to_call(pid))
			held = WAS_OVER;
	for (long i = 0; i < steps && held == HELD_UP; i++) {
		if (is_at_call(pid))
			held = AT_CALL;
		else if (!step_one(pid))
			held = WAS_OVER;
	}
	/* It has the dead one's bytes behind it. */
	if (region.own->slots[1].pid != found->slots[1].pid)
		held = WAS_OVER;
	assert_true(slot_reap(&region, (int)own.index) >= 0);
	assert_int_equal(ptrace(PTRACE_DETACH, pid, 0, 0), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	audit(want, calls, steps);
	assert_true(slot_reap(&region, (int)own.index) >= 0);
	audit(OWN, calls, steps);
	return held;
}

static void hold_up_everywhere(void (*body)(void), long stride, uint64_t want)
{
	enum held held = HELD_UP;
	long places = 0;
	int calls = 0;

	for (; held != WAS_OVER; calls++) {
		held = HELD_UP;
		for (long steps = 0; held == HELD_UP && steps < STEPS_MAX;
		     steps += stride, places++)
			held = hold_up(body, calls, steps, want);
	}
	assert_true(calls > 3 && places > 50);
}

static void test_two_reapers(void **state)
{
	(void)state;
	if (!step_is_possible())
		SKIP(STEP_REASON);
	hold_up_everywhere(reap, 1, OWN);
}

static void test_a_slot_is_taken_while_it_is_reaped(void **state)
{
	(void)state;
	if (!step_is_possible())
		SKIP(STEP_REASON);
	hold_up_everywhere(take, 7, OWN + NEW);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_two_reapers, make, drop),
		cmocka_unit_test_setup_teardown(test_a_slot_is_taken_while_it_is_reaped, make,
						drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
