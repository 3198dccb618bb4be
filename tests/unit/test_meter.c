#include "core/ended.h"
#include "core/marker.h"

#include "base/clock.h"
#include "shm/busy_ring.h"

#include "check.h"
#include "mark.h"

#include <stdatomic.h>
#include <stdlib.h>

#define NOW_NS (1000 * NSEC_PER_SEC)
#define USEC NSEC_PER_USEC
#define MSEC NSEC_PER_MSEC

static struct meter *meter;
static struct pace_device device;
static struct meter_thread thread, second;
static struct pace_terms none = { .share_pct = 100 };

/* The GPU's clock stands at the CPU's, and starting takes no time. */
static int setup(void **state)
{
	(void)state;
	meter = calloc(1, sizeof(*meter));
	assert_non_null(meter);
	memset(&device, 0, sizeof(device));
	meter->pace = (struct pace){ .device = &device, .slot = 2 };
	pthread_mutex_init(&meter->lock, NULL);
	thread = (struct meter_thread){ .id = 1 };
	second = (struct meter_thread){ .id = 2 };
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(meter);
	return 0;
}

static struct means_entry *known(uint64_t key, int64_t ns)
{
	struct means_entry *work = means_find(&meter->means, key);

	means_learn(work, ns);
	return work;
}

static bool launch(struct meter_thread *who, struct lane *lane, struct means_entry *work,
		   int64_t now_ns)
{
	int64_t until_ns;

	if (!meter_admit_fast(who, work))
		assert_int_equal(meter_admit(meter, who, lane, work, &none, now_ns, &until_ns),
				 PACE_GO);
	return meter_launched(meter, who, lane, now_ns);
}

/* Answers the oldest marker, which must be `handle`. */
static void answer(uint64_t handle, int64_t ran_ns)
{
	struct marker_query query;

	assert_int_equal(marker_pending(meter, &query, 1), 1);
	assert_int_equal(query.handle, handle);
	assert_true(marker_ended(meter, &query, ran_ns, ran_ns + USEC));
	assert_false(marker_ended(meter, &query, ran_ns, ran_ns + USEC));
}

static int64_t busy_ns(void)
{
	return (int64_t)device.slots[2].busy_ns;
}

/* One launch between two markers is that launch's own time. */
static void a_pair_of_markers_measures_a_launch(void **state)
{
	struct lane *lane = meter_lane(meter, &thread, 11, 1);
	struct means_entry *work = means_find(&meter->means, 5);
	int64_t until_ns;

	(void)state;
	assert_int_equal(meter_admit(meter, &thread, lane, work, &none, NOW_NS, &until_ns),
			 PACE_GO);
	assert_true(lane->wants_pair);
	mark_at(meter, lane, METER_BEFORE, 1, NULL, NOW_NS);
	assert_true(meter_launched(meter, &thread, lane, NOW_NS + 5 * USEC));
	mark_at(meter, lane, METER_AFTER, 2, work, NOW_NS + 6 * USEC);
	answer(1, NOW_NS);
	answer(2, NOW_NS + 305 * USEC);
	assert_true(means_is_known(work));
	assert_in_range(means_cost_ns(work), 299 * USEC, 301 * USEC);
	assert_in_range(busy_ns(), 280 * USEC, 320 * USEC);
}

/* The clock becomes known between the two markers of a pair: both are read by the same. */
static void a_pair_is_read_by_one_clock(void **state)
{
	struct lane *lane = meter_lane(meter, &thread, 11, 1);
	struct means_entry *work = means_find(&meter->means, 5);
	struct marker_query query;
	int64_t until_ns;

	(void)state;
	assert_int_equal(meter_admit(meter, &thread, lane, work, &none, NOW_NS, &until_ns),
			 PACE_GO);
	mark_at(meter, lane, METER_BEFORE, 1, NULL, NOW_NS);
	assert_true(meter_launched(meter, &thread, lane, NOW_NS + 5 * USEC));
	mark_at(meter, lane, METER_AFTER, 2, work, NOW_NS + 6 * USEC);
	assert_int_equal(marker_pending(meter, &query, 1), 1);
	assert_true(marker_ended(meter, &query, NOW_NS, NOW_NS + 290 * USEC));
	probe_at(meter, 1, NOW_NS, NOW_NS);
	answer(2, NOW_NS + 305 * USEC);
	assert_in_range(means_cost_ns(work), 299 * USEC - REPLAY_LEAD_NS,
			301 * USEC - REPLAY_LEAD_NS);
}

/* A queue that never runs dry is busy from its first launch to its end, whatever was predicted. */
/* As a card does it: what finds its stream idle begins a little later than an event would. */
static void an_idle_stream_begins_late(void **state)
{
	static const int64_t spans_ns[] = { USEC, 3 * USEC, 10 * USEC, 100 * USEC };
	int64_t now_ns = NOW_NS, until_ns;

	(void)state;
	for (unsigned i = 0; i < sizeof(spans_ns) / sizeof(spans_ns[0]); i++) {
		struct lane *lane = meter_lane(meter, &thread, 11, 1);
		struct means_entry *work = means_find(&meter->means, 20 + i);
		int64_t lead_ns = clock_least_ns(REPLAY_LEAD_NS, spans_ns[i] / REPLAY_LEAD_PART);

		assert_int_equal(meter_admit(meter, &thread, lane, work, &none, now_ns, &until_ns),
				 PACE_GO);
		probe_at(meter, 1, now_ns, now_ns);
		mark_at(meter, lane, METER_BEFORE, 1, NULL, now_ns);
		answer(1, now_ns);
		assert_true(meter_launched(meter, &thread, lane, now_ns + 5 * USEC));
		mark_at(meter, lane, METER_AFTER, 2, work, now_ns + 6 * USEC);
		answer(2, now_ns + 5 * USEC + spans_ns[i]);
		assert_in_range(means_cost_ns(work), spans_ns[i] - lead_ns - 1,
				spans_ns[i] - lead_ns + 1);
		now_ns += NSEC_PER_MSEC;
	}
}

static void a_wait_soon_after_an_end_is_spare(void **state)
{
	struct lane *lane = meter_lane(meter, &thread, 11, 1);
	int64_t end_ns = NOW_NS + NSEC_PER_MSEC;

	(void)state;
	lane->known_end_ns = end_ns;
	assert_true(meter_wait_is_spare(meter, lane, INT64_MAX, end_ns + 20 * USEC));
	assert_true(meter_wait_is_spare(meter, lane, end_ns, end_ns + 20 * USEC));
	/* It is long ago, it waited long, the limit is near, or others use the device. */
	assert_true(meter_wait_is_spare(meter, lane, INT64_MAX, end_ns + 900 * USEC));
	assert_false(meter_wait_is_spare(meter, lane, INT64_MAX, end_ns + 1100 * USEC));
	assert_false(meter_wait_is_spare(meter, lane, end_ns - 300 * USEC, end_ns + 20 * USEC));
	meter->is_tight = 1;
	assert_false(meter_wait_is_spare(meter, lane, INT64_MAX, end_ns + 20 * USEC));
	meter->is_tight = 0;
	meter->crowd.seen_ns = end_ns;
	assert_false(meter_wait_is_spare(meter, lane, INT64_MAX, end_ns + 20 * USEC));
}

static void a_deep_queue_is_busy_all_the_time(void **state)
{
	static const int64_t predicted_ns[] = { 1000, 100 * USEC, 10 * MSEC };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct lane *lane = meter_lane(meter, &thread, 20 + i, 1);
		struct means_entry *work = known(20 + i, predicted_ns[i]);
		int64_t begin_ns = NOW_NS + i * 100 * MSEC, before_ns = busy_ns();

		for (int n = 0; n < 100; n++)
			launch(&thread, lane, work, begin_ns + n * USEC);
		mark_at(meter, lane, METER_TAIL, 7, NULL, begin_ns + 101 * USEC);
		answer(7, begin_ns + 10 * MSEC);
		assert_in_range(busy_ns() - before_ns, 10 * MSEC - 60 * USEC,
				10 * MSEC + 60 * USEC);
	}
}

/* With pauses between the launches, what was measured of the kind counts. */
static void pauses_are_not_busy(void **state)
{
	struct lane *lane = meter_lane(meter, &thread, 11, 1);
	struct means_entry *work = known(5, 30 * USEC);

	(void)state;
	for (int n = 0; n < 100; n++)
		launch(&thread, lane, work, NOW_NS + n * 100 * USEC);
	mark_at(meter, lane, METER_TAIL, 7, NULL, NOW_NS + 9901 * USEC);
	answer(7, NOW_NS + 9930 * USEC);
	assert_in_range(busy_ns(), 2700 * USEC, 3300 * USEC);
	/* They stand where they were launched. */
	assert_in_range(busy_ring_busy_ns(&device.ring, NOW_NS, NOW_NS + 5 * MSEC), 1200 * USEC,
			1800 * USEC);
}

/* A marker that came late and ran at once: the work ended long before. */
static void a_late_marker_bounds_only(void **state)
{
	struct lane *lane = meter_lane(meter, &thread, 11, 1);
	struct means_entry *work = known(5, 200 * USEC);

	(void)state;
	launch(&thread, lane, work, NOW_NS);
	mark_at(meter, lane, METER_TAIL, 7, NULL, NOW_NS + 49 * MSEC);
	answer(7, NOW_NS + 49 * MSEC);
	assert_in_range(busy_ns(), 160 * USEC, 240 * USEC);
}

static void two_streams_count_once_where_they_overlap(void **state)
{
	struct lane *a = meter_lane(meter, &thread, 11, 1), *b = meter_lane(meter, &thread, 12, 1);
	struct means_entry *work = known(5, MSEC);
	struct marker_query queries[4];

	(void)state;
	launch(&thread, a, work, NOW_NS);
	launch(&thread, b, work, NOW_NS + 500 * USEC);
	mark_at(meter, a, METER_TAIL, 1, NULL, NOW_NS + 510 * USEC);
	mark_at(meter, b, METER_TAIL, 2, NULL, NOW_NS + 511 * USEC);
	assert_int_equal(marker_pending(meter, queries, 4), 2);
	assert_true(marker_ended(meter, &queries[1], NOW_NS + 1500 * USEC, NOW_NS + 1501 * USEC));
	assert_true(marker_ended(meter, &queries[0], NOW_NS + 1000 * USEC, NOW_NS + 1501 * USEC));
	assert_in_range(busy_ns(), 1440 * USEC, 1560 * USEC);
}

/* Two threads in one stream, and two more than there are lanes. */
static void threads_share_a_stream(void **state)
{
	struct lane *a = meter_lane(meter, &thread, 11, 1), *b = meter_lane(meter, &second, 11, 1);
	struct means_entry *work = known(5, 100 * USEC);

	(void)state;
	assert_non_null(a);
	assert_non_null(b);
	assert_ptr_not_equal(a, b);
	launch(&thread, a, work, NOW_NS);
	launch(&second, b, work, NOW_NS + 300 * USEC);
	launch(&thread, a, work, NOW_NS + 600 * USEC);
	mark_at(meter, b, METER_TAIL, 1, NULL, NOW_NS + 601 * USEC);
	answer(1, NOW_NS + 700 * USEC);
	assert_in_range(busy_ns(), 240 * USEC, 360 * USEC);
	assert_int_equal(a->done_ns, a->cost_ns);
	assert_int_equal(b->done_ns, b->cost_ns);
	for (uint64_t id = 3; id < 5; id++)
		assert_non_null(meter_lane(meter, &(struct meter_thread){ .id = id }, 11, 1));
	assert_null(meter_lane(meter, &(struct meter_thread){ .id = 5 }, 11, 1));
	meter_thread_end(meter, &second);
	assert_non_null(meter_lane(meter, &(struct meter_thread){ .id = 5 }, 11, 1));
}

/* A synchronise that returned needs no marker; what was launched meanwhile stays open. */
static void a_wait_is_an_end(void **state)
{
	struct lane *lane = meter_lane(meter, &thread, 11, 1);
	struct means_entry *work = known(5, 400 * USEC);

	(void)state;
	launch(&thread, lane, work, NOW_NS);
	marker_waited(meter, 11, 1, NOW_NS + USEC, NOW_NS + 400 * USEC);
	assert_in_range(busy_ns(), 360 * USEC, 440 * USEC);
	assert_int_equal(lane->done_ns, lane->cost_ns);
	launch(&thread, lane, work, NOW_NS + MSEC);
	marker_waited(meter, 0, 1, NOW_NS + 900 * USEC, NOW_NS + 2 * MSEC);
	assert_int_equal(lane->cost_ns - lane->done_ns, 400 * USEC);
	/* Asked and done already: it ended at some time, as predicted. */
	marker_waited(meter, 0, 1, NOW_NS + 50 * MSEC, NOW_NS + 50 * MSEC);
	assert_in_range(busy_ns(), 760 * USEC, 840 * USEC);
	assert_int_equal(lane->done_ns, lane->cost_ns);
}

/* What took longer than its mean is made up for by what is only predicted. */
static void a_mean_is_kept_over_many(void **state)
{
	struct lane *lane = meter_lane(meter, &thread, 11, 1);
	struct means_entry *work = known(5, 100 * USEC);

	(void)state;
	launch(&thread, lane, work, NOW_NS);
	marker_waited(meter, 11, 1, NOW_NS + USEC, NOW_NS + 172 * USEC);
	launch(&thread, lane, work, NOW_NS + MSEC);
	marker_waited(meter, 11, 1, NOW_NS + 2 * MSEC, NOW_NS + 2 * MSEC);
	assert_in_range(busy_ns(), 160 * USEC, 240 * USEC);
}

/* The program's own event says how far its stream is. */
static void an_event_of_the_program_is_an_end(void **state)
{
	struct lane *lane = meter_lane(meter, &thread, 11, 1);
	struct means_entry *work = known(5, 100 * USEC);
	struct marker_point point;

	(void)state;
	launch(&thread, lane, work, NOW_NS);
	assert_true(marker_point(meter, 11, 1, &point));
	launch(&thread, lane, work, NOW_NS + 5 * USEC);
	marker_reached(meter, &point, NOW_NS + 6 * USEC, NOW_NS + 120 * USEC);
	assert_int_equal(lane->done_ns, 100 * USEC);
	assert_in_range(busy_ns(), 100 * USEC, 140 * USEC);
	/* After the stream is gone and its place another's, the event says nothing. */
	ended_begin(meter, 11, NOW_NS + MSEC);
	lane = meter_lane(meter, &thread, 99, 1);
	launch(&thread, lane, work, NOW_NS + 2 * MSEC);
	marker_reached(meter, &point, NOW_NS + 3 * MSEC, NOW_NS + 4 * MSEC);
	assert_true(lane->done_ns < lane->cost_ns);
}

/* What does not count, a copy say, stands between two markers. */
static void a_fence_is_not_busy(void **state)
{
	struct lane *lane = meter_lane(meter, &thread, 11, 1);
	struct means_entry *work = known(5, 100 * USEC);

	(void)state;
	launch(&thread, lane, work, NOW_NS);
	mark_at(meter, lane, METER_TAIL, 1, NULL, NOW_NS + USEC);
	mark_at(meter, lane, METER_RESUME, 2, NULL, NOW_NS + 2 * USEC);
	launch(&thread, lane, work, NOW_NS + 5 * USEC);
	mark_at(meter, lane, METER_TAIL, 3, NULL, NOW_NS + 6 * USEC);
	answer(1, NOW_NS + 100 * USEC);
	answer(2, NOW_NS + 900 * USEC);
	answer(3, NOW_NS + 1000 * USEC);
	assert_in_range(busy_ns(), 160 * USEC, 240 * USEC);
}

/* Work that runs long is debited while it runs, once. */
static void long_work_is_debited_while_it_runs(void **state)
{
	struct lane *lane = meter_lane(meter, &thread, 11, 1);
	struct means_entry *work = known(5, MSEC);
	struct marker_query query;

	(void)state;
	launch(&thread, lane, work, NOW_NS);
	mark_at(meter, lane, METER_TAIL, 7, NULL, NOW_NS + USEC);
	for (int ms = 1; ms <= 95; ms++) {
		assert_int_equal(marker_pending(meter, &query, 1), 1);
		marker_running(meter, &query, NOW_NS + ms * MSEC);
	}
	assert_in_range(busy_ns(), 89 * MSEC, 91 * MSEC);
	assert_int_equal(device.slots[2].unfinished_ns, busy_ns());
	answer(7, NOW_NS + 95 * MSEC);
	assert_in_range(busy_ns(), 94 * MSEC, 96 * MSEC);
	assert_int_equal(device.slots[2].unfinished_ns, 0);
}

/* A marker that cannot be read: the next one has its work. */
static void a_lost_marker_loses_nothing(void **state)
{
	struct lane *lane = meter_lane(meter, &thread, 11, 1), *lanes[2];
	struct means_entry *work = known(5, 100 * USEC);
	struct marker_query query;

	(void)state;
	launch(&thread, lane, work, NOW_NS);
	mark_at(meter, lane, METER_TAIL, 7, NULL, NOW_NS + USEC);
	assert_int_equal(marker_tails(meter, NULL, NOW_NS + MSEC, lanes, 2), 0);
	assert_int_equal(marker_pending(meter, &query, 1), 1);
	assert_true(marker_lost(meter, &query));
	assert_int_equal(marker_tails(meter, NULL, NOW_NS + MSEC, lanes, 2), 1);
	assert_ptr_equal(lanes[0], lane);
	mark_at(meter, lane, METER_TAIL, 8, NULL, NOW_NS + 2 * USEC);
	answer(8, NOW_NS + 100 * USEC);
	assert_in_range(busy_ns(), 60 * USEC, 140 * USEC);
}

/* More markers than there is room for are refused, and nothing is lost by it. */
static void too_many_markers_are_refused(void **state)
{
	struct lane *lane = meter_lane(meter, &thread, 11, 1);
	struct means_entry *work = known(5, 100 * USEC);

	(void)state;
	for (int i = 0; i < METER_MARKERS + 4; i++) {
		launch(&thread, lane, work, NOW_NS + i * USEC);
		assert_true((mark_at(meter, lane, METER_TAIL, 1 + (uint64_t)i, NULL,
				     NOW_NS + i * USEC) != 0) == (i < METER_MARKERS));
	}
	for (int i = 0; i < METER_MARKERS; i++)
		answer(1 + (uint64_t)i, NOW_NS + (i + 1) * 100 * USEC);
	mark_at(meter, lane, METER_TAIL, 99, NULL, NOW_NS + 30 * USEC);
	answer(99, NOW_NS + (METER_MARKERS + 4) * 100 * USEC);
	assert_int_equal(lane->done_ns, lane->cost_ns);
	assert_in_range(busy_ns(), 1960 * USEC, 2040 * USEC);
}

/* More pauses than a lane can keep: the sum stays right. */
static void a_full_lane_keeps_the_sum(void **state)
{
	struct lane *lane = meter_lane(meter, &thread, 11, 1);
	struct means_entry *work = known(5, 20 * USEC);

	(void)state;
	for (int n = 0; n < 4 * LANE_STARTS; n++)
		launch(&thread, lane, work, NOW_NS + n * 100 * USEC);
	marker_waited(meter, 11, 1, NOW_NS + 4 * LANE_STARTS * 100 * USEC,
		      NOW_NS + 4 * LANE_STARTS * 100 * USEC);
	assert_int_equal(lane->done_ns, lane->cost_ns);
	assert_in_range(busy_ns(), 4 * LANE_STARTS * 19 * USEC, 4 * LANE_STARTS * 21 * USEC);
}

/* A stream's end lays out what was predicted; a handle that comes again is another stream. */
static void streams_and_contexts_come_and_go(void **state)
{
	struct means_entry *work = known(5, 100 * USEC);
	struct marker_query query;

	(void)state;
	for (uint64_t i = 1; i <= 3 * METER_STREAMS; i++) {
		struct lane *lane = meter_lane(meter, &thread, i, 1 + i % 40);

		assert_non_null(lane);
		launch(&thread, lane, work, NOW_NS + (int64_t)i * MSEC);
		mark_at(meter, lane, METER_TAIL, i, NULL, NOW_NS + (int64_t)i * MSEC);
		assert_int_equal(marker_pending(meter, &query, 1), 1);
		if (i % 2)
			ended_begin(meter, i, NOW_NS + (int64_t)i * MSEC + 500 * USEC);
		meter_drop(meter, 1 + i % 40, NOW_NS + (int64_t)i * MSEC + 500 * USEC);
		assert_int_equal(marker_pending(meter, &query, 1), 0);
		assert_false(marker_ended(meter, &query, NOW_NS, NOW_NS));
	}
	assert_in_range(busy_ns(), 3 * METER_STREAMS * 95 * USEC, 3 * METER_STREAMS * 105 * USEC);
	assert_int_equal(meter->used, 1);
}

/* An unknown kind goes alone; a grant covers known ones without asking. */
static void an_unknown_kind_goes_alone(void **state)
{
	struct pace_terms half = { .share_pct = 50 };
	struct lane *lane = meter_lane(meter, &thread, 11, 1);
	struct means_entry *work = means_find(&meter->means, 5);
	int64_t until_ns;

	(void)state;
	assert_false(meter_admit_fast(&thread, work));
	assert_int_equal(meter_admit(meter, &thread, lane, work, &half, NOW_NS, &until_ns),
			 PACE_GO);
	mark_at(meter, lane, METER_BEFORE, 1, NULL, NOW_NS);
	assert_true(meter_launched(meter, &thread, lane, NOW_NS + USEC));
	mark_at(meter, lane, METER_AFTER, 2, work, NOW_NS + USEC);
	assert_int_equal(meter_admit(meter, &thread, lane, work, &half, NOW_NS + 2 * USEC,
				     &until_ns),
			 PACE_INFLIGHT);
	assert_in_range(until_ns, NOW_NS + 3 * USEC, NOW_NS + MSEC);
	answer(1, NOW_NS);
	answer(2, NOW_NS + 11 * USEC);
	assert_int_equal(meter_admit(meter, &thread, lane, work, &half, NOW_NS + 40 * USEC,
				     &until_ns),
			 PACE_GO);
	assert_true(device.slots[2].held_ns > 0);
	assert_true(meter_admit_fast(&thread, work));
	/* Somebody wants it to ask again. */
	thread.attention = 1;
	assert_false(meter_admit_fast(&thread, work));
	meter_thread_end(meter, &thread);
}

/* All that was granted is given back in the end. */
static void nothing_stays_in_flight(void **state)
{
	struct lane *lane = meter_lane(meter, &thread, 11, 1);
	struct means_entry *work = known(5, 10 * USEC);

	(void)state;
	for (int i = 0; i < 1000; i++)
		launch(&thread, lane, work, NOW_NS + i * 20 * USEC);
	assert_true(device.slots[2].unmeasured_ns > 9 * MSEC);
	marker_waited(meter, 11, 1, NOW_NS + 30 * MSEC, NOW_NS + 30 * MSEC);
	meter_thread_end(meter, &thread);
	assert_int_equal(device.slots[2].unmeasured_ns, 0);
}

/* A launch that cannot be measured counts as predicted; one that did not take place not at all. */
static void without_a_lane_the_prediction_counts(void **state)
{
	struct pace_terms half = { .share_pct = 50 };
	struct means_entry *work = known(5, 300 * USEC);
	int64_t until_ns;

	(void)state;
	assert_int_equal(meter_admit(meter, &thread, NULL, work, &half, NOW_NS, &until_ns),
			 PACE_GO);
	meter_cancel(meter, &thread);
	assert_int_equal(busy_ns(), 0);
	assert_int_equal(device.slots[2].unmeasured_ns, thread.grant_ns);
	assert_int_equal(meter_admit(meter, &thread, NULL, work, &half, NOW_NS, &until_ns),
			 PACE_GO);
	meter_unmeasured(meter, &thread, NOW_NS);
	assert_int_equal(busy_ns(), 300 * USEC);
	assert_int_equal(device.slots[2].unmeasured_ns, thread.grant_ns);
}

/* The stream was destroyed by another thread between the launch and its marker. */
static void a_marker_for_a_dropped_stream_is_refused(void **state)
{
	struct lane *lane = meter_lane(meter, &thread, 11, 1);

	(void)state;
	launch(&thread, lane, known(5, USEC), NOW_NS);
	ended_begin(meter, 11, NOW_NS + USEC);
	assert_int_equal(mark_at(meter, lane, METER_TAIL, 7, NULL, NOW_NS + 2 * USEC), 0);
	meter_lane(meter, &second, 12, 1);
	assert_int_equal(mark_at(meter, lane + 1, METER_TAIL, 7, NULL, NOW_NS + 2 * USEC), 0);
}

enum { LAUNCHERS = 3, LAUNCHES = BUILD_SANITIZED ? 5000 : 50000 };
static _Atomic int launching;
static _Atomic int64_t clock_ns; /* of all threads: no end is before a launch that it is said of */

static void *launch_much(void *arg)
{
	struct meter_thread *mine = arg;
	struct means_entry *work = means_find(&meter->means, 5);

	for (int i = 0; i < LAUNCHES; i++)
		launch(mine, meter_lane(meter, mine, 11, 1), work,
		       atomic_fetch_add(&clock_ns, USEC) + USEC);
	meter_thread_end(meter, mine);
	launching--;
	return NULL;
}

/* Threads launch into one stream while another marks it and reads the markers. */
static void launching_and_measuring_go_on_at_once(void **state)
{
	struct meter_thread mine[LAUNCHERS];
	pthread_t threads[LAUNCHERS];
	struct lane *lanes[4];
	struct marker_query query;
	int64_t now_ns;

	(void)state;
	known(5, USEC);
	clock_ns = NOW_NS;
	launching = LAUNCHERS;
	for (int i = 0; i < LAUNCHERS; i++) {
		mine[i] = (struct meter_thread){ .id = 10 + (uint64_t)i };
		assert_int_equal(pthread_create(&threads[i], NULL, launch_much, &mine[i]), 0);
	}
	while (launching) {
		if (marker_tails(meter, NULL, INT64_MAX, lanes, 4))
			mark_at(meter, lanes[0], METER_TAIL, 7, NULL, clock_ns);
		if (!marker_pending(meter, &query, 1))
			continue;
		now_ns = atomic_fetch_add(&clock_ns, USEC) + USEC;
		marker_ended(meter, &query, now_ns, now_ns);
	}
	for (int i = 0; i < LAUNCHERS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	while (marker_pending(meter, &query, 1))
		marker_ended(meter, &query, NOW_NS + NSEC_PER_SEC, NOW_NS + NSEC_PER_SEC);
	marker_waited(meter, 11, 1, NOW_NS + NSEC_PER_SEC, NOW_NS + NSEC_PER_SEC);
	for (int i = 0; i < REPLAY_LANES; i++)
		assert_int_equal(meter->streams[0].lanes[i].done_ns,
				 meter->streams[0].lanes[i].cost_ns);
	assert_int_equal(device.slots[2].unmeasured_ns, 0);
	assert_true(busy_ns() > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_pair_of_markers_measures_a_launch),
		TEST(a_pair_is_read_by_one_clock),
		TEST(an_idle_stream_begins_late),
		TEST(a_wait_soon_after_an_end_is_spare),
		TEST(a_deep_queue_is_busy_all_the_time),
		TEST(pauses_are_not_busy),
		TEST(a_late_marker_bounds_only),
		TEST(two_streams_count_once_where_they_overlap),
		TEST(threads_share_a_stream),
		TEST(a_wait_is_an_end),
		TEST(a_mean_is_kept_over_many),
		TEST(an_event_of_the_program_is_an_end),
		TEST(a_fence_is_not_busy),
		TEST(long_work_is_debited_while_it_runs),
		TEST(a_lost_marker_loses_nothing),
		TEST(too_many_markers_are_refused),
		TEST(a_full_lane_keeps_the_sum),
		TEST(streams_and_contexts_come_and_go),
		TEST(an_unknown_kind_goes_alone),
		TEST(nothing_stays_in_flight),
		TEST(without_a_lane_the_prediction_counts),
		TEST(a_marker_for_a_dropped_stream_is_refused),
		TEST(launching_and_measuring_go_on_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
