/* Streams that end with work in them: it is measured to its end, and their places are had again. */
#include "core/ended.h"

#include "base/clock.h"

#include "check.h"
#include "mark.h"

#include <stdlib.h>

#define NOW_NS (1000 * NSEC_PER_SEC)
#define USEC NSEC_PER_USEC
#define MSEC NSEC_PER_MSEC

static struct meter *meter;
static struct pace_device device;
static struct meter_thread thread;
static struct means_entry *work;

/* The GPU's clock stands at the CPU's. A launch takes 200 us by prediction; slot 2 is ours. */
static int setup(void **state)
{
	(void)state;
	meter = calloc(1, sizeof(*meter));
	assert_non_null(meter);
	memset(&device, 0, sizeof(device));
	meter->pace = (struct pace){ .device = &device, .slot = 2 };
	pthread_mutex_init(&meter->lock, NULL);
	thread = (struct meter_thread){ .id = 1 };
	work = means_find(&meter->means, 5);
	means_learn(work, 200 * USEC);
	meter_lane(meter, &thread, 1, 1);
	probe_at(meter, 1, NOW_NS - MSEC, NOW_NS - MSEC);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(meter);
	return 0;
}

static struct lane *launch(uint64_t stream, int64_t now_ns)
{
	struct pace_terms terms = { .share_pct = 100 };
	struct lane *lane = meter_lane(meter, &thread, stream, 1);
	int64_t until_ns;

	assert_non_null(lane);
	if (!meter_admit_fast(&thread, work))
		assert_int_equal(meter_admit(meter, &thread, lane, work, &terms, now_ns, &until_ns),
				 PACE_GO);
	meter_launched(meter, &thread, lane, now_ns);
	return lane;
}

/* Ends it with a marker behind what has none. */
static void end(uint64_t stream, uint64_t handle, int64_t now_ns)
{
	uint64_t context, newest;
	struct lane *lane = ended_lane(meter, stream, &context, &newest);

	assert_non_null(lane);
	assert_int_equal(context, 1);
	assert_int_equal(newest, 0);
	assert_int_not_equal(mark_at(meter, lane, METER_TAIL, handle, NULL, now_ns), 0);
	ended_begin(meter, stream, now_ns);
}

static void answer(uint64_t handle, int64_t ran_ns)
{
	struct marker_query query;

	assert_int_equal(marker_pending(meter, &query, 1), 1);
	assert_int_equal(query.handle, handle);
	assert_true(marker_ended(meter, &query, ran_ns, ran_ns + USEC));
}

static int64_t busy_ns(void)
{
	return (int64_t)device.slots[2].busy_ns;
}

static void work_counts_for_what_it_takes(void **state)
{
	struct lane *lane;

	(void)state;
	lane = launch(11, NOW_NS);
	end(11, 7, NOW_NS + USEC);
	/* Its handle comes again while it runs, as another stream. */
	assert_ptr_not_equal(launch(11, NOW_NS + 10 * USEC), lane);
	assert_null(meter_lane_known(&(struct meter_thread){ .id = 1, .lanes = { lane } }, 11));
	answer(7, NOW_NS + 50 * MSEC);
	assert_in_range(busy_ns(), 49900 * USEC, 50000 * USEC);
	assert_int_equal(meter->streams[1].key, 0);
	end(11, 8, NOW_NS + 50 * MSEC + USEC);
	answer(8, NOW_NS + 60 * MSEC);
	assert_in_range(busy_ns(), 59800 * USEC, 60000 * USEC);
}

/* What has no marker ends as predicted; also where the only marker cannot be read. */
static void without_a_marker_it_is_over(void **state)
{
	struct marker_query query;

	(void)state;
	launch(11, NOW_NS);
	ended_begin(meter, 11, NOW_NS + MSEC);
	assert_in_range(busy_ns(), 190 * USEC, 200 * USEC);
	assert_int_equal(meter->streams[1].key, 0);
	ended_begin(meter, 11, NOW_NS + MSEC);
	launch(12, NOW_NS + 2 * MSEC);
	end(12, 7, NOW_NS + 3 * MSEC);
	assert_int_equal(marker_pending(meter, &query, 1), 1);
	assert_true(marker_lost(meter, &query));
	assert_in_range(busy_ns(), 390 * USEC, 400 * USEC);
	assert_int_equal(meter->streams[1].key, 0);
	assert_int_equal(device.slots[2].unmeasured_ns, thread.grant_ns);
}

/* Who has all the markers that a stream may have gets one behind its last launch all the same. */
static void there_is_room_for_the_last_marker(void **state)
{
	uint64_t context, newest;
	struct lane *lane;

	(void)state;
	for (uint64_t i = 1; i <= METER_MARKERS; i++) {
		lane = launch(11, NOW_NS + (int64_t)i * USEC);
		assert_int_not_equal(mark_at(meter, lane, METER_TAIL, i, NULL,
					     NOW_NS + (int64_t)i * USEC),
				     0);
	}
	assert_null(ended_lane(meter, 11, &context, &newest));
	lane = launch(11, NOW_NS + 20 * USEC);
	assert_int_equal(mark_at(meter, lane, METER_TAIL, 99, NULL, NOW_NS + 21 * USEC), 0);
	assert_ptr_equal(ended_lane(meter, 11, &context, &newest), lane);
	assert_int_equal(newest, METER_MARKERS);
	assert_int_not_equal(mark_at(meter, lane, METER_TAIL, 99, NULL, NOW_NS + 21 * USEC), 0);
	ended_begin(meter, 11, NOW_NS + 22 * USEC);
	for (uint64_t i = 1; i < METER_MARKERS; i++)
		answer(i, NOW_NS + (int64_t)i * 200 * USEC);
	answer(99, NOW_NS + 90 * MSEC);
	assert_in_range(busy_ns(), 89 * MSEC, 90 * MSEC);
	assert_int_equal(meter->streams[1].key, 0);
}

/* The context ends first, or the program waits for all of it. */
static void it_goes_with_its_context(void **state)
{
	struct marker_query query;

	(void)state;
	launch(11, NOW_NS);
	end(11, 7, NOW_NS + USEC);
	launch(12, NOW_NS + 10 * USEC);
	end(12, 8, NOW_NS + 11 * USEC);
	marker_waited(meter, 0, 1, NOW_NS + 20 * USEC, NOW_NS + 20 * MSEC);
	assert_in_range(busy_ns(), 19900 * USEC, 20000 * USEC);
	meter_drop(meter, 1, NOW_NS + 21 * MSEC);
	assert_int_equal(marker_pending(meter, &query, 1), 0);
	for (unsigned i = 0; i < meter->used; i++)
		assert_int_equal(meter->streams[i].key, 0);
}

/* More than there are places for, one after the other. */
static void places_are_had_again(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 2 * METER_STREAMS; i++) {
		int64_t at_ns = NOW_NS + (int64_t)i * MSEC;

		launch(11 + i, at_ns);
		end(11 + i, 7, at_ns + USEC);
		answer(7, at_ns + 300 * USEC);
	}
	assert_int_equal(meter->used, 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(work_counts_for_what_it_takes),
		TEST(without_a_marker_it_is_over),
		TEST(there_is_room_for_the_last_marker),
		TEST(it_goes_with_its_context),
		TEST(places_are_had_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
