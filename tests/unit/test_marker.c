#include "core/marker.h"

#include "base/clock.h"
#include "shm/busy_ring.h"

#include "check.h"
#include "mark.h"

#include <stdlib.h>

#define NOW_NS (1000 * NSEC_PER_SEC)
#define USEC NSEC_PER_USEC
#define MSEC NSEC_PER_MSEC

static struct meter *meter;
static struct pace_device device;
static struct meter_thread thread;
static struct lane *lane;
static struct means_entry *work;

/* The GPU's clock stands at the CPU's. A launch takes 200 us; slot 2 is ours. */
static int setup(void **state)
{
	(void)state;
	meter = calloc(1, sizeof(*meter));
	assert_non_null(meter);
	memset(&device, 0, sizeof(device));
	meter->pace = (struct pace){ .device = &device, .slot = 2 };
	pthread_mutex_init(&meter->lock, NULL);
	thread = (struct meter_thread){ .id = 1 };
	lane = meter_lane(meter, &thread, 11, 1);
	work = means_find(&meter->means, 5);
	means_learn(work, 200 * USEC);
	probe_at(meter, 1, NOW_NS - MSEC, NOW_NS - MSEC);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(meter);
	return 0;
}

static void launch_kind(struct means_entry *kind, int64_t now_ns)
{
	struct pace_terms terms = { .share_pct = 100 };
	int64_t until_ns;

	if (!meter_admit_fast(&thread, kind))
		assert_int_equal(meter_admit(meter, &thread, lane, kind, &terms, now_ns, &until_ns),
				 PACE_GO);
	meter_launched(meter, &thread, lane, now_ns);
}

static void launch(int64_t now_ns)
{
	launch_kind(work, now_ns);
}

static void answer(uint64_t handle, int64_t ran_ns)
{
	struct marker_query query;

	assert_int_equal(marker_pending(meter, &query, 1), 1);
	assert_int_equal(query.handle, handle);
	assert_true(marker_ended(meter, &query, ran_ns, ran_ns + USEC));
}

/* The GPU's clock is `behind_ns` behind. */
static void answer_behind(int64_t ran_ns, int64_t behind_ns)
{
	struct marker_query query;

	assert_int_equal(marker_pending(meter, &query, 1), 1);
	assert_true(marker_ended(meter, &query, ran_ns - behind_ns, ran_ns + USEC));
}

static int64_t busy_ns(void)
{
	return (int64_t)device.slots[2].busy_ns;
}

/* A thread is held at `now_ns`. */
static void hold(int64_t now_ns)
{
	struct pace_terms terms = { .share_pct = 50, .is_blocked = true };
	int64_t until_ns;

	assert_int_equal(meter_admit(meter, &thread, lane, work, &terms, now_ns, &until_ns),
			 PACE_ASKED);
}

/* Another process of the tenant has work. */
static void others_work(void)
{
	device.active_words = 1;
	device.active[0] = 1;
	device.slots[0].unmeasured_ns = 1;
}

/* What a launch waits for the device to turn to its process is not its time. */
static void a_launch_begins_with_its_start(void **state)
{
	(void)state;
	mark_at(meter, lane, METER_START, 1, NULL, NOW_NS);
	launch(NOW_NS + 4 * USEC);
	launch(NOW_NS + 8 * USEC);
	mark_at(meter, lane, METER_TAIL, 2, NULL, NOW_NS + 9 * USEC);
	answer(1, NOW_NS + 3 * MSEC);
	answer(2, NOW_NS + 3 * MSEC + 400 * USEC);
	assert_in_range(busy_ns(), 360 * USEC, 440 * USEC);
}

/* One that ran before the launch was there says nothing against the launch's own time. */
static void a_start_in_an_idle_stream_changes_nothing(void **state)
{
	(void)state;
	mark_at(meter, lane, METER_START, 1, NULL, NOW_NS);
	launch(NOW_NS + 50 * USEC);
	mark_at(meter, lane, METER_TAIL, 2, NULL, NOW_NS + 51 * USEC);
	answer(1, NOW_NS + USEC);
	answer(2, NOW_NS + 250 * USEC);
	assert_in_range(busy_ns(), 160 * USEC, 240 * USEC);
}

/*
 * A start that ran when it was put found the stream dry, though by prediction it was not: others
 * had their turn before the launch came. A start that had to wait says nothing like that.
 */
static void a_turn_is_lost_behind_a_start_in_a_dry_stream(void **state)
{
	struct means_entry *other = means_find(&meter->means, 6);

	(void)state;
	means_learn(other, 400 * USEC);
	for (int64_t i = 0; i < 2; i++) {
		int64_t at_ns = NOW_NS + i * 1000 * MSEC, start_ns = at_ns + (i ? 300 : 251) * USEC;

		crowd_see(&meter->crowd, at_ns);
		launch_kind(other, at_ns);
		mark_at(meter, lane, METER_TAIL, 1, NULL, at_ns + USEC);
		mark_at(meter, lane, METER_START, 2, NULL, at_ns + 250 * USEC);
		launch_kind(other, at_ns + 254 * USEC);
		mark_at(meter, lane, METER_TAIL, 3, NULL, at_ns + 255 * USEC);
		answer(1, at_ns + 240 * USEC);
		answer(2, start_ns);
		answer(3, start_ns + 2500 * USEC);
		assert_in_range(busy_ns(), (600 + i * 2650) * USEC, (680 + i * 2760) * USEC);
	}
}

/*
 * What looks like a turn of others is told of the tenant once in a while, in whichever stream: else
 * kernels that take longer at times would take turns in them.
 */
static void a_turn_is_lost_seldom_in_all_streams_together(void **state)
{
	(void)state;
	/* Of before the machine was started anew. */
	device.lost_ns = (uint64_t)(NOW_NS + 500 * NSEC_PER_SEC);
	for (int64_t i = 0; i < 8; i++) {
		int64_t at_ns = NOW_NS + i * 10 * MSEC, was_ns = busy_ns();

		lane = meter_lane(meter, &thread, 11 + (uint64_t)i, 1);
		crowd_see(&meter->crowd, at_ns);
		mark_at(meter, lane, METER_START, 1, NULL, at_ns);
		launch(at_ns + 4 * USEC);
		mark_at(meter, lane, METER_TAIL, 2, NULL, at_ns + 5 * USEC);
		answer(1, at_ns + USEC);
		answer(2, at_ns + 3000 * USEC);
		assert_in_range(busy_ns() - was_ns, i ? 2900 * USEC : 160 * USEC,
				i ? 3000 * USEC : 300 * USEC);
	}
}

/* A start is no end: what was launched before and has none is laid out as predicted. */
static void a_start_is_no_end(void **state)
{
	(void)state;
	launch(NOW_NS);
	mark_at(meter, lane, METER_START, 1, NULL, NOW_NS + 10 * USEC);
	answer(1, NOW_NS + 5 * MSEC);
	assert_in_range(busy_ns(), 160 * USEC, 240 * USEC);
}

/* With a launch behind it, a start is the first of a pair. */
static void a_start_begins_a_pair(void **state)
{
	struct means_entry *other = means_find(&meter->means, 6);

	(void)state;
	mark_at(meter, lane, METER_START, 1, NULL, NOW_NS);
	launch(NOW_NS + 4 * USEC);
	mark_at(meter, lane, METER_AFTER, 2, other, NOW_NS + 5 * USEC);
	answer(1, NOW_NS + 3 * MSEC);
	answer(2, NOW_NS + 3 * MSEC + 70 * USEC);
	assert_in_range(means_cost_ns(other), 69 * USEC, 71 * USEC);
}

/*
 * The times of a clock that is not known yet are no sample: the launch would be thought to take
 * nothing.
 */
static void an_end_before_the_launch_is_no_sample(void **state)
{
	struct means_entry *other = means_find(&meter->means, 6);

	(void)state;
	mark_at(meter, lane, METER_BEFORE, 1, NULL, NOW_NS);
	launch(NOW_NS + MSEC);
	mark_at(meter, lane, METER_AFTER, 2, other, NOW_NS + MSEC + USEC);
	answer(1, NOW_NS - 5 * MSEC);
	answer(2, NOW_NS - 4 * MSEC);
	assert_false(means_is_known(other));
}

/*
 * A thread that was put off between its launch and the marker behind it: when that ran all had
 * ended, who knows how long before.
 */
static void an_end_that_was_asked_for_late(void **state)
{
	struct means_entry *other = means_find(&meter->means, 6);

	(void)state;
	mark_at(meter, lane, METER_BEFORE, 1, NULL, NOW_NS);
	launch(NOW_NS + USEC);
	mark_at(meter, lane, METER_AFTER, 2, work, NOW_NS + 50 * MSEC);
	answer(1, NOW_NS);
	answer(2, NOW_NS + 50 * MSEC + USEC);
	assert_in_range(means_cost_ns(work), 199 * USEC, 201 * USEC);
	assert_in_range(busy_ns(), 160 * USEC, 240 * USEC);
	/* One that ran on is as long as it was, and what is not known is no more than that. */
	mark_at(meter, lane, METER_BEFORE, 3, NULL, NOW_NS + 100 * MSEC);
	launch(NOW_NS + 100 * MSEC + USEC);
	mark_at(meter, lane, METER_AFTER, 4, other, NOW_NS + 150 * MSEC);
	answer(3, NOW_NS + 100 * MSEC);
	answer(4, NOW_NS + 160 * MSEC);
	assert_in_range(means_cost_ns(other), 59 * MSEC, 61 * MSEC);
	assert_in_range(busy_ns(), 60 * MSEC, 61 * MSEC);
}

static bool is_wanted_after_a_tail(int64_t now_ns)
{
	launch(now_ns);
	mark_at(meter, lane, METER_TAIL, 1, NULL, now_ns + USEC);
	answer(1, now_ns + 200 * USEC);
	return lane_wants_start(lane);
}

static void a_start_is_wanted_where_others_are_and_launches_are_held(void **state)
{
	(void)state;
	assert_false(is_wanted_after_a_tail(NOW_NS));
	others_work();
	assert_false(is_wanted_after_a_tail(NOW_NS + MSEC));
	hold(NOW_NS + 2 * MSEC);
	assert_true(is_wanted_after_a_tail(NOW_NS + 3 * MSEC));
	/* Once. */
	assert_false(lane_wants_start(lane));
	/* And no longer when that is over for a second. */
	device.slots[0].unmeasured_ns = 0;
	hold(NOW_NS + 900 * MSEC);
	assert_true(is_wanted_after_a_tail(NOW_NS + 900 * MSEC));
	assert_false(lane_wants_start(lane));
	hold(NOW_NS + 1500 * MSEC);
	assert_false(is_wanted_after_a_tail(NOW_NS + 1500 * MSEC));
}

static void a_start_is_wanted_after_a_wait(void **state)
{
	(void)state;
	others_work();
	hold(NOW_NS);
	launch(NOW_NS + USEC);
	marker_waited(meter, 11, 1, NOW_NS + 2 * USEC, NOW_NS + 210 * USEC);
	launch(NOW_NS + 220 * USEC);
	marker_waited(meter, 11, 1, NOW_NS + 221 * USEC, NOW_NS + 430 * USEC);
	assert_true(lane_wants_start(lane));
}

/* A stranger is known by the probes of the clock, which wait for its turn. */
static void a_late_probe_tells_of_others(void **state)
{
	(void)state;
	hold(NOW_NS);
	assert_false(is_wanted_after_a_tail(NOW_NS));
	probe_at(meter, 1, NOW_NS + MSEC, NOW_NS + MSEC + 80 * USEC);
	assert_false(is_wanted_after_a_tail(NOW_NS + 2 * MSEC));
	probe_at(meter, 1, NOW_NS + 3 * MSEC, NOW_NS + 4 * MSEC);
	assert_true(is_wanted_after_a_tail(NOW_NS + 5 * MSEC));
}

/* Each costs the device a turn, so that they are seldom where others use it. */
static void probes_are_seldom_where_others_are(void **state)
{
	(void)state;
	assert_int_equal(marker_probe_apart_ns(meter, NOW_NS), 0);
	probe_at(meter, 1, NOW_NS + MSEC, NOW_NS + 2 * MSEC);
	assert_true(marker_probe_apart_ns(meter, NOW_NS + 3 * MSEC) > 10 * MSEC);
	assert_int_equal(marker_probe_apart_ns(meter, NOW_NS + 1100 * MSEC), 0);
}

/*
 * The GPU's clock falls behind by 50 ppm. How far the map is off after a second in which every
 * 10 ms a launch came into a stream that was idle, or behind another launch.
 */
static int64_t off_ns(bool is_idle)
{
	int64_t now_ns = NOW_NS, behind_ns = 0;

	for (int i = 0; i < 100; i++) {
		now_ns += 10 * MSEC;
		behind_ns += 500;
		if (!is_idle) {
			launch(now_ns - 10 * USEC);
			mark_at(meter, lane, METER_TAIL, 1, NULL, now_ns - 9 * USEC);
		}
		mark_at(meter, lane, METER_START, 1, NULL, now_ns);
		if (!is_idle)
			answer_behind(now_ns + 190 * USEC, behind_ns);
		answer_behind(now_ns + (is_idle ? 0 : 190 * USEC), behind_ns);
	}
	return clockmap_cpu_ns(&meter_context(meter, 1, false)->clock, now_ns - behind_ns) - now_ns;
}

/* A start in a stream without work is as good as a probe of the clock, and costs nothing more. */
static void a_start_in_an_idle_stream_is_a_probe(void **state)
{
	(void)state;
	assert_true(llabs(off_ns(true)) < 4 * USEC);
}

/* Nor is one behind what is no work, and may take a second. */
static void a_start_that_waited_is_no_probe(void **state)
{
	int64_t now_ns = NOW_NS;

	(void)state;
	for (int i = 0; i < 100; i++) {
		now_ns += NSEC_PER_SEC;
		mark_at(meter, lane, METER_START, 1, NULL, now_ns - NSEC_PER_SEC);
		answer_behind(now_ns, 0);
	}
	assert_true(llabs(clockmap_cpu_ns(&meter_context(meter, 1, false)->clock, now_ns) -
			  now_ns) < USEC);
}

/* One behind work is late, and says nothing: the map is where it was. */
static void a_start_behind_work_is_no_probe(void **state)
{
	(void)state;
	assert_true(llabs(off_ns(false) + 50 * USEC) < USEC);
}

/* Beside others an event of the context behind nothing new may have the time of one before. */
static void the_context_is_asked_behind_new_work_where_others_are(void **state)
{
	struct lane *other = meter_lane(meter, &thread, 12, 1);

	(void)state;
	assert_true(meter_is_single(meter, lane, NOW_NS));
	meter->crowd.seen_ns = NOW_NS;
	assert_false(meter_is_single(meter, lane, NOW_NS));
	launch(NOW_NS);
	assert_true(meter_is_single(meter, lane, NOW_NS));
	mark_at(meter, lane, METER_AFTER, 1, NULL, NOW_NS + USEC);
	assert_false(meter_is_single(meter, lane, NOW_NS));
	mark_at(meter, lane, METER_START, 2, NULL, NOW_NS + 2 * USEC);
	assert_false(meter_is_single(meter, lane, NOW_NS));
	assert_true(meter_is_single(meter, lane, NOW_NS + 2 * NSEC_PER_SEC));
	launch(NOW_NS + 3 * USEC);
	assert_true(meter_is_single(meter, lane, NOW_NS));
	/* Nor where another stream of the context has work. */
	assert_int_equal(meter_admit(meter, &thread, other, work,
				     &(struct pace_terms){ .share_pct = 100 }, NOW_NS,
				     &(int64_t){ 0 }),
			 PACE_GO);
	meter_launched(meter, &thread, other, NOW_NS + 4 * USEC);
	assert_false(meter_is_single(meter, lane, NOW_NS));
}

/* One launch, of whose time all is busy already. */
static void launch_beside(int64_t now_ns)
{
	busy_ring_set(&device.ring, now_ns, now_ns + MSEC);
	launch(now_ns);
	mark_at(meter, lane, METER_AFTER, 1, NULL, now_ns + USEC);
	answer(1, now_ns + 200 * USEC);
}

/* What another process made busy does not make room for more of this one's in flight. */
static void the_time_of_others_is_no_overlap(void **state)
{
	(void)state;
	others_work();
	launch_beside(NOW_NS);
	assert_int_equal(device.slots[2].overlap, 0);
	device.slots[0].unmeasured_ns = 0;
	launch_beside(NOW_NS + 10 * MSEC);
	assert_int_not_equal(device.slots[2].overlap, 0);
}

/* What is not counted comes into the stream: work before it is marked, and that behind it too. */
static void a_fence_asks_for_a_start(void **state)
{
	(void)state;
	/* Also in a stream that is new. */
	assert_null(marker_fence(meter, 77, 1));
	assert_true(lane_wants_start(meter_lane(meter, &thread, 77, 1)));
	launch(NOW_NS);
	assert_ptr_equal(marker_fence(meter, 11, 1), lane);
	mark_at(meter, lane, METER_TAIL, 1, NULL, NOW_NS + USEC);
	assert_null(marker_fence(meter, 11, 1));
	assert_true(lane_wants_start(lane));
	mark_at(meter, lane, METER_START, 2, NULL, NOW_NS + 300 * USEC);
	launch(NOW_NS + 302 * USEC);
	mark_at(meter, lane, METER_TAIL, 3, NULL, NOW_NS + 303 * USEC);
	answer(1, NOW_NS + 200 * USEC);
	answer(2, NOW_NS + 900 * MSEC);
	answer(3, NOW_NS + 900 * MSEC + 200 * USEC);
	assert_in_range(busy_ns(), 340 * USEC, 460 * USEC);
}

static void a_point_is_of_a_stream_with_launches(void **state)
{
	struct marker_point point;

	(void)state;
	assert_false(marker_point(meter, 12, 1, &point));
	assert_true(marker_point(meter, 11, 1, &point));
	assert_ptr_equal(point.stream, &meter->streams[0]);
}

/* A query that says "done" just after one that said "not yet" tells the end; alone it bounds it. */
static void a_polling_loop_tells_the_end(void **state)
{
	struct marker_point point;

	(void)state;
	for (int i = 0; i < 2; i++) {
		int64_t at_ns = NOW_NS + i * 10 * MSEC, done_ns = at_ns + 700 * USEC;

		launch(at_ns);
		assert_true(marker_point(meter, 11, 1, &point));
		if (i == 1)
			marker_point_unready(meter, &point, done_ns - 5 * USEC);
		marker_reached(meter, &point, done_ns, done_ns);
		/* By prediction 200 us, by the loop 700. */
		assert_in_range(busy_ns(), (160 + i * 700) * USEC, (240 + i * 700) * USEC);
	}
	launch(NOW_NS + 30 * MSEC);
	marker_unready(meter, 11, 1, NOW_NS + 30 * MSEC + 395 * USEC);
	marker_waited(meter, 11, 1, NOW_NS + 30 * MSEC + 400 * USEC,
		      NOW_NS + 30 * MSEC + 400 * USEC);
	assert_in_range(busy_ns(), 1240 * USEC, 1360 * USEC);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_launch_begins_with_its_start),
		TEST(a_start_in_an_idle_stream_changes_nothing),
		TEST(a_turn_is_lost_behind_a_start_in_a_dry_stream),
		TEST(a_turn_is_lost_seldom_in_all_streams_together),
		TEST(a_start_is_no_end),
		TEST(a_start_begins_a_pair),
		TEST(an_end_before_the_launch_is_no_sample),
		TEST(an_end_that_was_asked_for_late),
		TEST(a_start_is_wanted_where_others_are_and_launches_are_held),
		TEST(a_start_is_wanted_after_a_wait),
		TEST(a_late_probe_tells_of_others),
		TEST(probes_are_seldom_where_others_are),
		TEST(a_start_in_an_idle_stream_is_a_probe),
		TEST(a_start_that_waited_is_no_probe),
		TEST(a_start_behind_work_is_no_probe),
		TEST(the_time_of_others_is_no_overlap),
		TEST(the_context_is_asked_behind_new_work_where_others_are),
		TEST(a_fence_asks_for_a_start),
		TEST(a_point_is_of_a_stream_with_launches),
		TEST(a_polling_loop_tells_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
