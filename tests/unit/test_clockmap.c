#include "core/clockmap.h"

#include "base/clock.h"

#include "check.h"

#include <stdlib.h>

#define LATENCY_NS 2500
#define SPREAD_NS 1000

static uint64_t state_of_random;

static int64_t random_below(int64_t most)
{
	state_of_random = state_of_random * 6364136223846793005u + 1442695040888963407u;
	return (int64_t)((state_of_random >> 33) % (uint64_t)most);
}

/* A GPU whose clock runs fast by `drift`, read in steps of 500 ns give or take 400. */
static int64_t gpu_ns(int64_t cpu_ns, double drift)
{
	int64_t ns = 123456789000 + cpu_ns + (int64_t)((double)cpu_ns * drift);

	return (ns + random_below(800) - 400) / 500 * 500;
}

/* Probes each millisecond; of `late` in a hundred something else is in the way. */
static void probe_for(struct clockmap *map, int64_t from_ns, int64_t to_ns, double drift, int late)
{
	for (int64_t at_ns = from_ns; at_ns < to_ns; at_ns += NSEC_PER_MSEC) {
		int64_t ran_ns = at_ns + LATENCY_NS + random_below(SPREAD_NS);

		if (random_below(100) < late)
			ran_ns += random_below(20000);
		clockmap_probe(map, gpu_ns(ran_ns, drift), at_ns, at_ns);
	}
}

/* The mean of where events of known times are put, less the times. */
static double mean_error_ns(const struct clockmap *map, int64_t at_ns, double drift)
{
	double sum = 0;

	for (int i = 0; i < 1000; i++)
		sum += (double)(clockmap_cpu_ns(map, gpu_ns(at_ns + i * 1000, drift)) -
				(at_ns + i * 1000));
	return sum / 1000;
}

/* What ran stands where it was submitted: early by the mean latency. */
static void probes_find_offset_and_drift(void **state)
{
	static const double drifts[] = { 0, 200e-6, -200e-6, 20e-6 };

	(void)state;
	for (unsigned i = 0; i < sizeof(drifts) / sizeof(*drifts); i++) {
		struct clockmap map = { .is_set = false };
		double error_ns;

		probe_for(&map, 0, 2 * NSEC_PER_SEC, drifts[i], 0);
		error_ns = mean_error_ns(&map, 2 * NSEC_PER_SEC, drifts[i]);
		assert_in_range((int64_t)-error_ns, LATENCY_NS + SPREAD_NS / 2 - 400,
				LATENCY_NS + SPREAD_NS / 2 + 400);
	}
}

static void probes_that_had_to_wait_do_not_count(void **state)
{
	struct clockmap map = { .is_set = false };
	double error_ns;

	(void)state;
	probe_for(&map, 0, 4 * NSEC_PER_SEC, 150e-6, 80);
	error_ns = mean_error_ns(&map, 4 * NSEC_PER_SEC, 150e-6);
	assert_in_range((int64_t)-error_ns, LATENCY_NS - 1000, LATENCY_NS + SPREAD_NS + 1500);
}

/*
 * One thread in ten has to wait before it reads the time, and for half of each second others are at
 * it, whom each probe waits for. Neither is drift: the map is right also when the others go.
 */
static void a_late_look_at_the_time_is_no_drift(void **state)
{
	struct clockmap map = { .is_set = false };
	int64_t call_ns, most_ns = 0, error_ns, at_ns;

	(void)state;
	for (at_ns = 0; at_ns < 10 * NSEC_PER_SEC; at_ns += NSEC_PER_MSEC) {
		bool is_crowded = at_ns / (NSEC_PER_SEC / 2) % 2;
		int64_t ran_ns = at_ns + LATENCY_NS + random_below(SPREAD_NS);

		/* As seldom as a worker looks whose program does nothing. */
		if (is_crowded && at_ns % (100 * NSEC_PER_MSEC))
			continue;
		call_ns = 1000 + random_below(2000);
		if (random_below(10) == 0)
			call_ns += random_below(30000);
		ran_ns += call_ns < 3000 ? call_ns : 3000;
		if (is_crowded)
			ran_ns += 130000;
		error_ns = clockmap_cpu_ns(&map, gpu_ns(ran_ns, 3e-6)) - ran_ns;
		if (!is_crowded && at_ns > 2 * NSEC_PER_SEC && labs(error_ns) > most_ns)
			most_ns = labs(error_ns);
		clockmap_probe(&map, gpu_ns(ran_ns, 3e-6), at_ns, at_ns + call_ns);
	}
	assert_in_range(most_ns, 0, 8000);
}

/* The first call of a context takes milliseconds, and who knows when in them its event ran. */
static void a_first_call_may_take_long(void **state)
{
	struct clockmap map = { .is_set = false };

	(void)state;
	clockmap_probe(&map, 1000000000, 1000000, 12000000);
	for (int i = 1; i < 20; i++) {
		int64_t at_ns = 12000000 + i * NSEC_PER_MSEC;

		clockmap_probe(&map, at_ns + 5000 + 999000000, at_ns, at_ns + 3000);
	}
	assert_in_range(clockmap_cpu_ns(&map, 1032005000), 33000000 - 10000, 33000000 + 10000);
}

/* Where in its call a first event ran is no drift, however long the call took. */
static void a_first_call_is_no_drift(void **state)
{
	static const int64_t firsts_ns[] = { 4000, 15000, 500000 };

	(void)state;
	for (unsigned i = 0; i < sizeof(firsts_ns) / sizeof(*firsts_ns); i++) {
		struct clockmap map = { .is_set = false };
		int64_t most_ns = 0;

		clockmap_probe(&map, firsts_ns[i] + 3000, 0, firsts_ns[i]);
		for (int64_t n = 1; n < 200; n++) {
			int64_t at_ns = n * NSEC_PER_MSEC;
			int64_t error_ns = clockmap_cpu_ns(&map, at_ns + 3000) - at_ns;

			if (n > 30 && labs(error_ns) > most_ns)
				most_ns = labs(error_ns);
			clockmap_probe(&map, at_ns + 3000, at_ns - 1000, at_ns);
		}
		assert_in_range(most_ns, 0, 1000);
	}
}

/* What the `n`th record call takes: of one length, of two, ever more and anew, of any. */
static int64_t call_of(int way, int n)
{
	static int64_t grown_ns = 100;

	switch (way) {
	case 0:
		return n / 500 % 2 ? 100 : 30 * NSEC_PER_MSEC;
	case 1:
		return random_below(2) ? 1000 : 10 * NSEC_PER_MSEC;
	case 2:
		grown_ns = grown_ns > 50 * NSEC_PER_MSEC ? 100 : grown_ns * 5 / 4 + 200;
		return grown_ns;
	default:
		return INT64_C(100) << random_below(20);
	}
}

/*
 * However long record calls take, no row of them is left out for ever: each that is, is longer than
 * all that the map takes for usual, which follows. So it finds each clock again.
 */
static void calls_of_any_length_do_not_blind_it(void **state)
{
	(void)state;
	for (int way = 0; way < 4; way++) {
		struct clockmap map = { .is_set = false };
		int64_t behind_ns = 0, now_ns = NSEC_PER_SEC;

		for (int n = 0; n < 20000; n++) {
			int64_t call_ns = call_of(way, n);

			if (n % 5000 == 4999)
				assert_in_range(labs(clockmap_cpu_ns(&map, now_ns - behind_ns) -
						     now_ns),
						0, 4000);
			if (n % 5000 == 0)
				behind_ns = random_below(40 * NSEC_PER_SEC) - 20 * NSEC_PER_SEC;
			now_ns += NSEC_PER_MSEC + call_ns;
			clockmap_probe(&map, now_ns - behind_ns, now_ns - call_ns, now_ns);
		}
	}
}

/* Without probes each event says something: not before its submission, not after it was seen. */
static void other_events_bound_it(void **state)
{
	struct clockmap map = { .is_set = false };

	(void)state;
	clockmap_bound(&map, 1000000, 5000000, 5100000);
	assert_int_equal(clockmap_cpu_ns(&map, 1000000), 5100000);
	clockmap_bound(&map, 2000000, 6010000, 6100000);
	assert_int_equal(clockmap_cpu_ns(&map, 2000000), 6100000);
	clockmap_bound(&map, 3000000, 7000000, 7005000);
	assert_int_equal(clockmap_cpu_ns(&map, 3000000), 7005000);
	clockmap_bound(&map, 4000000, 8050000, 8060000);
	assert_int_equal(clockmap_cpu_ns(&map, 4000000), 8050000);
}

/* A context that was made anew counts from another moment. */
static void a_clock_that_jumped_is_found_again(void **state)
{
	struct clockmap map = { .is_set = false };

	(void)state;
	probe_for(&map, 0, NSEC_PER_SEC, 0, 0);
	for (int i = 0; i < 200; i++) {
		int64_t at_ns = NSEC_PER_SEC + i * NSEC_PER_MSEC;

		clockmap_probe(&map, at_ns + 3000, at_ns, at_ns);
	}
	assert_in_range(clockmap_cpu_ns(&map, 2 * NSEC_PER_SEC) - 2 * NSEC_PER_SEC + 10000, 5000,
			9000);
}

/* The same moment again and again, and moments that go back. */
static void a_clock_that_stands_still_does_no_harm(void **state)
{
	struct clockmap map = { .is_set = false };

	(void)state;
	for (int i = 0; i < 1000; i++)
		clockmap_probe(&map, 5000, 9000, 9000);
	assert_int_equal(clockmap_cpu_ns(&map, 5000), 9000);
	for (int i = 0; i < 1000; i++)
		clockmap_probe(&map, 5000 - i, 9000 - i, 9000 - i);
	assert_in_range(clockmap_cpu_ns(&map, 5000), 8000, 10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(probes_find_offset_and_drift),
		cmocka_unit_test(probes_that_had_to_wait_do_not_count),
		cmocka_unit_test(a_late_look_at_the_time_is_no_drift),
		cmocka_unit_test(a_first_call_may_take_long),
		cmocka_unit_test(a_first_call_is_no_drift),
		cmocka_unit_test(calls_of_any_length_do_not_blind_it),
		cmocka_unit_test(other_events_bound_it),
		cmocka_unit_test(a_clock_that_jumped_is_found_again),
		cmocka_unit_test(a_clock_that_stands_still_does_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
