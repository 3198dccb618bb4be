/*
 * A process that is killed after any single machine instruction of what it does to the bucket
 * leaves nothing stuck: once its slot is cleared, the others go on. The child is stepped; after
 * each step the region as it stands is what a kill would leave.
 */
#include "core/pace.h"

#include "base/clock.h"
#include "shm/pace_slot.h"

#include "step.h"

#define NOW_NS (1000 * NSEC_PER_SEC)
#define MSEC NSEC_PER_MSEC

static struct pace_device *device, *left;

/* All that a process does: asks, submits, is debited while it runs, ends, is held. */
static void body(void)
{
	struct pace mine = { .device = device, .slot = 1 };
	struct pace_terms terms = { .share_pct = 50 };
	struct pace_hold hold = { .reason = PACE_GO };
	struct pace_answer answer;

	step_from_here();
	pace_ask(&mine, &terms, &hold, 30 * MSEC, NOW_NS, &answer);
	pace_unfinished(&mine, 2 * MSEC);
	pace_debit(&mine, 50, 2 * MSEC, NOW_NS);
	pace_debit(&mine, 50, MSEC, NOW_NS);
	pace_settle(&mine, answer.grant_ns);
	pace_unfinished(&mine, -2 * MSEC);
	pace_overlap(&mine, 3 * MSEC, 3 * MSEC);
	pace_progress(&mine, NOW_NS);
	pace_ask(&mine, &terms, &hold, 3 * MSEC, NOW_NS + MSEC, &answer);
}

static void check_left(long steps)
{
	struct pace dead = { .device = left, .slot = 1 }, other = { .device = left, .slot = 2 };
	struct pace_terms terms = { .share_pct = 50 };
	struct pace_hold hold = { .reason = PACE_GO };
	struct pace_answer answer;

	memcpy(left, device, sizeof(*left));
	pace_slot_clear(dead.device, dead.slot);
	/* No more was taken than it used, and nothing was made. */
	if (left->level_pct_ns > 2 * MSEC * 100 || left->level_pct_ns < -2 * MSEC * 100)
		fail_msg("killed after %ld instructions: level %ld", steps,
			 (long)left->level_pct_ns);
	pace_ask(&other, &terms, &hold, 1000, NOW_NS + 6 * MSEC, &answer);
	if (answer.reason != PACE_GO)
		fail_msg("killed after %ld instructions: held for reason %d", steps, answer.reason);
}

static void nothing_is_stuck_after_any_instruction(void **state)
{
	long steps = 0;
	pid_t pid;

	(void)state;
	if (!step_is_possible())
		SKIP(STEP_REASON);
	device = mmap(NULL, sizeof(*device), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	left = mmap(NULL, sizeof(*left), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	assert_true(device != MAP_FAILED && left != MAP_FAILED);
	device->level_pct_ns = 1 * MSEC * 100;
	device->filled_ns = NOW_NS;
	pid = step_start(body);
	do {
		check_left(steps);
	} while (step_one(pid) && ++steps);
	assert_false(step_kill(pid));
	/* It was stepped through, and not something beside it. */
	assert_true(steps > 500);
	munmap(device, sizeof(*device));
	munmap(left, sizeof(*left));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_stuck_after_any_instruction),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
