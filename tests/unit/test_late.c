/* What kernels take that wait for kernels elsewhere, and when it is paid. */
#include "core/late.h"

#include "base/clock.h"

#include <string.h>

#include "check.h"

#define MS NSEC_PER_MSEC

static struct pace_device device;
static struct pace pace = { .device = &device, .slot = 3 };

static int setup(void **state)
{
	(void)state;
	memset(&device, 0, sizeof(device));
	return 0;
}

static void only_what_may_wait_is_late(void **state)
{
	(void)state;
	assert_int_equal(late_settle(&pace, 100 * MS, MS, false), 0);
	assert_int_equal(pace_late_ns(&pace), 0);
	/* A sixteenth more than usual is usual. */
	assert_int_equal(late_settle(&pace, 17 * MS, 16 * MS, true), 0);
	assert_int_equal(pace_late_ns(&pace), 0);
	assert_int_equal(late_settle(&pace, 20 * MS, 16 * MS, true), 0);
	assert_int_equal(pace_late_ns(&pace), 3 * MS);
}

static void it_is_paid_by_a_part_of_what_comes(void **state)
{
	(void)state;
	device.late_ns = NSEC_PER_SEC / 2;
	/* An eighth, and half as much for half a second. */
	late_settle(&pace, 8 * MS, 8 * MS, false);
	assert_int_equal(pace_late_ns(&pace), NSEC_PER_SEC / 2 - 5 * MS);
	device.late_ns = MS;
	late_settle(&pace, 100 * MS, 100 * MS, false);
	assert_int_equal(pace_late_ns(&pace), 0);
}

static void there_is_never_more_than_some_seconds(void **state)
{
	(void)state;
	assert_int_equal(late_settle(&pace, LATE_MOST_NS + 20 * MS, 16 * MS, true), 3 * MS);
	assert_int_equal(pace_late_ns(&pace), LATE_MOST_NS);
	assert_int_equal(late_settle(&pace, NSEC_PER_SEC, 16 * MS, true), NSEC_PER_SEC - 17 * MS);
	assert_in_range(pace_late_ns(&pace), 1, LATE_MOST_NS);
	/* A word of another age is none. */
	device.late_ns = UINT64_MAX;
	late_settle(&pace, 20 * MS, 16 * MS, true);
	assert_in_range(pace_late_ns(&pace), 0, LATE_MOST_NS);
}

/* What it takes others hold up, for its sake; nothing is paid before that is over. */
static void while_it_is_awaited_all_is_late(void **state)
{
	(void)state;
	pace_await(&pace, true);
	assert_int_equal(late_settle(&pace, 20 * MS, 16 * MS, true), 0);
	assert_int_equal(pace_late_ns(&pace), 20 * MS);
	assert_int_equal(late_settle(&pace, 8 * MS, 8 * MS, false), 0);
	assert_int_equal(pace_late_ns(&pace), 20 * MS);
	pace_await(&pace, false);
	late_settle(&pace, 8 * MS, 8 * MS, false);
	assert_in_range(pace_late_ns(&pace), 18 * MS, 19 * MS);
}

/* Who is asked to leave again and again pays for its work, if not for its waits. */
static void while_it_is_awaited_work_is_not_free(void **state)
{
	(void)state;
	device.late_ns = (uint64_t)LATE_MOST_NS;
	pace_await(&pace, true);
	assert_int_equal(late_settle(&pace, 16 * MS, 16 * MS, true), 0);
	assert_int_equal(late_settle(&pace, 20 * MS, 16 * MS, true), 3 * MS);
	device.late_ns = (uint64_t)LATE_MOST_NS - 2 * MS;
	assert_int_equal(late_settle(&pace, 20 * MS, 16 * MS, true), 3 * MS);
	assert_int_equal(pace_late_ns(&pace), LATE_MOST_NS);
	pace_await(&pace, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(only_what_may_wait_is_late, setup),
		cmocka_unit_test_setup(it_is_paid_by_a_part_of_what_comes, setup),
		cmocka_unit_test_setup(there_is_never_more_than_some_seconds, setup),
		cmocka_unit_test_setup(while_it_is_awaited_all_is_late, setup),
		cmocka_unit_test_setup(while_it_is_awaited_work_is_not_free, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
