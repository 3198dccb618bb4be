#include "shm/busy_ring.h"

#include "base/clock.h"

#include "check.h"

#define BEGIN_NS (1000 * NSEC_PER_SEC)

static struct pace_ring ring;

static int setup(void **state)
{
	(void)state;
	memset(&ring, 0, sizeof(ring));
	return 0;
}

static void a_time_is_new_once(void **state)
{
	int64_t end_ns = BEGIN_NS + 100 * NSEC_PER_MSEC;

	(void)state;
	assert_int_equal(busy_ring_set(&ring, BEGIN_NS, end_ns), 100 * NSEC_PER_MSEC);
	assert_int_equal(busy_ring_set(&ring, BEGIN_NS, end_ns), 0);
	/* Another half beside it. */
	assert_int_equal(busy_ring_set(&ring, BEGIN_NS + 50 * NSEC_PER_MSEC,
				       end_ns + 50 * NSEC_PER_MSEC),
			 50 * NSEC_PER_MSEC);
	assert_int_equal(busy_ring_busy_ns(&ring, BEGIN_NS, BEGIN_NS + NSEC_PER_SEC),
			 150 * NSEC_PER_MSEC);
}

/* Short intervals far below a bin come out right in sum, whatever their rhythm. */
static void short_times_are_sampled_without_bias(void **state)
{
	static const int64_t every_ns[] = { 5000, 7000, 20000, 40000, 61803 };

	(void)state;
	for (unsigned i = 0; i < sizeof(every_ns) / sizeof(*every_ns); i++) {
		int64_t sum_ns = 0, true_ns = 0;

		setup(NULL);
		for (int64_t at_ns = BEGIN_NS; at_ns < BEGIN_NS + NSEC_PER_SEC;
		     at_ns += every_ns[i]) {
			sum_ns += busy_ring_set(&ring, at_ns, at_ns + 2000);
			true_ns += 2000;
		}
		assert_in_range(sum_ns, true_ns - true_ns / 25, true_ns + true_ns / 25);
	}
}

/* The union, not the sum: two that overlap by half. */
static void overlapping_times_count_once(void **state)
{
	int64_t sum_ns = 0;

	(void)state;
	for (int64_t at_ns = BEGIN_NS; at_ns < BEGIN_NS + NSEC_PER_SEC; at_ns += 100000) {
		sum_ns += busy_ring_set(&ring, at_ns, at_ns + 10000);
		sum_ns += busy_ring_set(&ring, at_ns + 5000, at_ns + 15000);
	}
	assert_in_range(sum_ns, 145 * NSEC_PER_MSEC, 155 * NSEC_PER_MSEC);
}

static void what_is_older_than_the_ring_is_new_each_time(void **state)
{
	int64_t old_ns = BEGIN_NS - 2 * NSEC_PER_SEC - 100 * NSEC_PER_MSEC;

	(void)state;
	busy_ring_set(&ring, old_ns, old_ns + NSEC_PER_MSEC);
	busy_ring_set(&ring, BEGIN_NS - 80 * NSEC_PER_MSEC, BEGIN_NS);
	assert_int_equal(busy_ring_set(&ring, old_ns, old_ns + NSEC_PER_MSEC), NSEC_PER_MSEC);
	/* And it does not disturb what is there now. */
	assert_int_equal(busy_ring_busy_ns(&ring, BEGIN_NS - 80 * NSEC_PER_MSEC, BEGIN_NS),
			 80 * NSEC_PER_MSEC);
}

/* A ring full of anything: whatever was in it is taken for old. */
static void garbage_is_overwritten(void **state)
{
	(void)state;
	memset(&ring, 0xa5, sizeof(ring));
	assert_int_equal(busy_ring_set(&ring, BEGIN_NS, BEGIN_NS + NSEC_PER_SEC), NSEC_PER_SEC);
	assert_int_equal(busy_ring_busy_ns(&ring, BEGIN_NS, BEGIN_NS + NSEC_PER_SEC), NSEC_PER_SEC);
}

static void odd_intervals_are_nothing(void **state)
{
	(void)state;
	assert_int_equal(busy_ring_set(&ring, BEGIN_NS, BEGIN_NS), 0);
	assert_int_equal(busy_ring_set(&ring, BEGIN_NS, BEGIN_NS - 1), 0);
	assert_int_equal(busy_ring_set(&ring, -5, 5 * NSEC_PER_SEC), 0);
	assert_int_equal(busy_ring_busy_ns(&ring, BEGIN_NS, BEGIN_NS - 1), 0);
	/* A very long one enters what the ring holds. */
	assert_in_range(busy_ring_set(&ring, 0, BEGIN_NS), 2 * NSEC_PER_SEC, 3 * NSEC_PER_SEC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_time_is_new_once, setup),
		cmocka_unit_test_setup(short_times_are_sampled_without_bias, setup),
		cmocka_unit_test_setup(overlapping_times_count_once, setup),
		cmocka_unit_test_setup(what_is_older_than_the_ring_is_new_each_time, setup),
		cmocka_unit_test_setup(garbage_is_overwritten, setup),
		cmocka_unit_test_setup(odd_intervals_are_nothing, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
