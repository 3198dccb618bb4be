/* What is laid out of a stream, beside another process whose turns are not its time. */
#include "core/replay.h"

#include "base/clock.h"

#include "check.h"

#define US NSEC_PER_USEC
#define COST_NS (1500 * US)

static struct lane lanes[REPLAY_LANES];
static struct pace_ring ring;

/*
 * A second and a half of kernels that take 1.4 ms less and more than their mean, by turns, each
 * launched when the one before was waited for: they look as if others had their turns.
 */
static void longer_ones_are_no_turns_of_others(void **state)
{
	int64_t now_ns = NSEC_PER_SEC, busy_ns = 0, took_ns = 0, balance_ns = 0;
	struct replay replay = { .lanes = lanes,
				 .ring = &ring,
				 .from_ns = now_ns,
				 .is_alone = true,
				 .is_crowded = true };

	(void)state;
	for (uint32_t n = 1; n <= 1000; n++) {
		int64_t span_ns = n % 2 ? 100 * US : 2900 * US, submit_ns = now_ns + 20 * US;
		struct replay_point point = { .last_ns = submit_ns, .launches = n };
		struct replay_result done;

		lane_launched(&lanes[0], COST_NS, submit_ns);
		point.cost_ns[0] = lanes[0].cost_ns;
		now_ns = submit_ns + span_ns;
		done = replay_run(&replay, &point, true, now_ns, 1, &balance_ns);
		busy_ns += done.busy_ns;
		took_ns += span_ns;
		replay.from_ns = done.end_ns;
		if (done.has_waited)
			replay.turn_ns = now_ns;
		lanes[0].known_cost_ns = lanes[0].done_ns;
		lanes[0].known_end_ns = done.end_ns;
	}
	assert_in_range(busy_ns, took_ns - took_ns / 40, took_ns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(longer_ones_are_no_turns_of_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
