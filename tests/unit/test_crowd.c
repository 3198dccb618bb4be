#include "core/crowd.h"

#include "base/clock.h"

#include "check.h"

#define NOW_NS (100 * NSEC_PER_SEC)
#define USEC NSEC_PER_USEC
#define MSEC NSEC_PER_MSEC

static void probe(struct crowd *crowd, int times, int64_t late_ns)
{
	for (int i = 0; i < times; i++)
		crowd_probe(crowd, late_ns, NOW_NS);
}

static void one_late_probe_is_another_process(void **state)
{
	struct crowd crowd = { 0 };

	(void)state;
	probe(&crowd, 100, 20 * USEC);
	assert_false(crowd_is_there(&crowd, NOW_NS));
	probe(&crowd, 1, 130 * USEC);
	assert_true(crowd_is_there(&crowd, NOW_NS + 900 * MSEC));
	assert_false(crowd_is_there(&crowd, NOW_NS + 1000 * MSEC));
	assert_false(crowd_is_likely(&crowd));
}

/* A few of the last sixteen: also when most are in time, and no longer when those are the last. */
static void some_late_probes_are_a_crowd(void **state)
{
	struct crowd crowd = { 0 };

	(void)state;
	for (int i = 0; i < 4; i++) {
		probe(&crowd, 1, MSEC);
		probe(&crowd, 2, 0);
	}
	assert_false(crowd_is_likely(&crowd));
	probe(&crowd, 1, MSEC);
	assert_true(crowd_is_likely(&crowd));
	probe(&crowd, 3, 0);
	assert_true(crowd_is_likely(&crowd));
	probe(&crowd, 1, 0);
	assert_false(crowd_is_likely(&crowd));
}

static void who_was_seen_otherwise_is_there_too(void **state)
{
	struct crowd crowd = { 0 };

	(void)state;
	crowd_see(&crowd, NOW_NS);
	assert_true(crowd_is_there(&crowd, NOW_NS));
	assert_false(crowd_is_likely(&crowd));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_late_probe_is_another_process),
		cmocka_unit_test(some_late_probes_are_a_crowd),
		cmocka_unit_test(who_was_seen_otherwise_is_there_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
