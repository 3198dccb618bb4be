/* Utilisation: the part of the last second that was busy, whoever kept it so. */
#include "machine_file.h"
#include "place.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND_NS ((uint64_t)NSEC_PER_SEC)
#define MS_NS ((uint64_t)NSEC_PER_MSEC)
#define NOW_NS (1000 * SECOND_NS + 123456)

static struct machine_ring ring;

static int clear(void **state)
{
	(void)state;
	memset(&ring, 0, sizeof(ring));
	return 0;
}

static unsigned pct(uint64_t now_ns)
{
	return machine_time_busy_pct(&ring, now_ns);
}

/* Marks `busy_ns` of every `period_ns` of the second before NOW_NS, which lasts as long as given. */
static void mark_rhythm(uint64_t busy_ns, uint64_t period_ns, uint64_t lasts_ns)
{
	for (uint64_t at_ns = 0; at_ns < lasts_ns; at_ns += period_ns)
		machine_time_mark(&ring, NOW_NS - SECOND_NS + at_ns,
				  NOW_NS - SECOND_NS + at_ns + busy_ns);
}

static void assert_about(unsigned value, unsigned want)
{
	/* Of 4000 moments: three times the standard deviation is 2.4. */
	assert_in_range(value, want > 3 ? want - 3 : 0, want + 3);
}

static void test_none_and_all(void **state)
{
	(void)state;
	assert_int_equal(pct(NOW_NS), 0);
	machine_time_mark(&ring, NOW_NS - 5 * SECOND_NS, NOW_NS);
	assert_int_equal(pct(NOW_NS), 100);
}

static void test_parts(void **state)
{
	static const struct {
		uint64_t busy_ns, period_ns;
		unsigned want_pct;
	} parts[] = {
		{ 1 * MS_NS, 2 * MS_NS, 50 },
		{ 250000, 500000, 50 }, /* in step with the cells */
		{ 5000, 10000, 50 },
		{ 5000, 50000, 10 },              /* far shorter than a cell */
		{ 100 * MS_NS, 400 * MS_NS, 30 }, /* three times in the second */
		{ 9 * MS_NS, 10 * MS_NS, 90 },
	};

	for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++) {
		clear(state);
		mark_rhythm(parts[k].busy_ns, parts[k].period_ns, SECOND_NS);
		assert_about(pct(NOW_NS), parts[k].want_pct);
	}
}

static void test_overlap_counts_once(void **state)
{
	(void)state;
	machine_time_mark(&ring, NOW_NS - 500 * MS_NS, NOW_NS - 200 * MS_NS);
	machine_time_mark(&ring, NOW_NS - 400 * MS_NS, NOW_NS - 300 * MS_NS);
	machine_time_mark(&ring, NOW_NS - 300 * MS_NS, NOW_NS - 100 * MS_NS);
	assert_about(pct(NOW_NS), 40);
}

static void test_old_work_passes_away(void **state)
{
	(void)state;
	machine_time_mark(&ring, NOW_NS - 1000 * MS_NS, NOW_NS);
	assert_about(pct(NOW_NS + 250 * MS_NS), 75);
	assert_about(pct(NOW_NS + 990 * MS_NS), 1);
	assert_int_equal(pct(NOW_NS + 1000 * MS_NS), 0);
	/* One lap of the ring later its old marks are still there and must not count. */
	for (uint64_t later_ms = 1000; later_ms < 4000; later_ms += 7)
		assert_int_equal(pct(NOW_NS + later_ms * MS_NS), 0);
}

static void test_told_late(void **state)
{
	(void)state;
	machine_time_mark(&ring, NOW_NS - 100 * MS_NS, NOW_NS);
	machine_time_mark(&ring, NOW_NS - 1600 * MS_NS, NOW_NS - 1000 * MS_NS);
	machine_time_mark(&ring, NOW_NS - 9000 * MS_NS, NOW_NS - 8000 * MS_NS);
	assert_about(pct(NOW_NS), 10);
}

static int keep_busy(void *arg)
{
	struct machine_process list[2];
	uint64_t now_ns;

	(void)arg;
	if (machine_open() || machine_util_pct(0) || machine_mem_util_pct(0))
		return 1;
	machine_set_context(0, true);
	if (machine_processes(0, list, 2) != 1 || list[0].sm_util_pct || list[0].last_seen_us)
		return 2;
	/* The second they look at begins later than this one: at most all of it is in it. */
	now_ns = (uint64_t)clock_now_ns();
	machine_busy(0, now_ns - 900 * MS_NS, now_ns);
	machine_memory_busy(0, now_ns - 500 * MS_NS, now_ns);
	if (machine_util_pct(0) > 93 || machine_mem_util_pct(0) > 53)
		return 3;
	if (machine_processes(0, list, 2) != 1 || list[0].sm_util_pct > 93 || !list[0].last_seen_us)
		return 4;
	machine_busy(0, now_ns, now_ns);     /* nothing */
	machine_busy(1, now_ns - 1, now_ns); /* no such device */
	return machine_util_pct(1) ? 5 : 0;
}

static void test_process_and_device(void **state)
{
	(void)state;
	place_make(NULL);
	assert_int_equal(place_run(keep_busy, NULL), 0);
	place_remove();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_none_and_all, clear),
		cmocka_unit_test_setup(test_parts, clear),
		cmocka_unit_test_setup(test_overlap_counts_once, clear),
		cmocka_unit_test_setup(test_old_work_passes_away, clear),
		cmocka_unit_test_setup(test_told_late, clear),
		cmocka_unit_test(test_process_and_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
