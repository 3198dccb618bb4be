/*
 * One process reaps or takes a dead one's slot and is held up after any of its machine
 * instructions; another reaps meanwhile. What the dead held is given back once.
 */
#include "shm/account.h"

#include "step_way.h"
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

/* Behind so many system calls. False when the body was over before. */
static bool start_behind(void (*body)(void), int calls, pid_t *out_pid)
{
	memcpy(region.own, found, sizeof(*found));
	*out_pid = step_start(body);
	for (int i = 0; i < calls; i++)
		if (!run_to_call(*out_pid))
			return false;
	return true;
}

/* It has the dead one's bytes behind it. */
static bool is_over(void)
{
	return region.own->slots[1].pid != found->slots[1].pid;
}

/* Reaps, lets it go on and looks at the books. */
static void go_on(pid_t pid, int calls, long n, uint64_t want)
{
	int status;

	assert_true(slot_reap(&region, (int)own.index) >= 0);
	/* It may have ended. */
	ptrace(PTRACE_DETACH, pid, 0, 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	audit(want, calls, n);
	assert_true(slot_reap(&region, (int)own.index) >= 0);
	audit(OWN, calls, n);
}

/* The way from there to the next call, or to where it is over: then false. */
static bool walk(struct step_way *way, void (*body)(void), int calls, uint64_t want)
{
	pid_t pid;
	bool goes_on = start_behind(body, calls, &pid);

	step_way_begin(way);
	while (goes_on && !is_over()) {
		step_way_note(way, pid);
		if (way->count == STEPS_MAX || is_at_call(pid))
			break;
		goes_on = step_one(pid);
	}
	goes_on = goes_on && !is_over();
	go_on(pid, calls, way->count, want);
	return goes_on;
}

/* Holds the body up at the place. False where it did not come to it, and was over. */
static bool hold_up(void (*body)(void), int calls, const struct step_way *way, long n,
		    uint64_t want)
{
	pid_t pid;
	bool held = start_behind(body, calls, &pid) && step_way_go(way, pid, n) && !is_over();

	go_on(pid, calls, n, want);
	return held;
}

static void hold_up_everywhere(void (*body)(void), long stride, uint64_t want)
{
	static struct step_way way;
	long places = 0, missed = 0;
	bool goes_on = true;
	int calls = 0;

	for (; goes_on; calls++) {
		goes_on = walk(&way, body, calls, want);
		for (long n = 0; n < way.count; n += stride, places++)
			missed += !hold_up(body, calls, &way, n, want);
	}
	print_message("%ld places behind %d calls, %ld not come to\n", places, calls, missed);
	assert_true(calls > 3 && places > 50 && missed < places / 10);
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
