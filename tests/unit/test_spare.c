#include "core/spare.h"

#include "base/random.h"

#include "check.h"
#include "mark.h"

#include <stdlib.h>

#define NOW_NS (1000 * NSEC_PER_SEC)
#define USEC NSEC_PER_USEC
#define MSEC NSEC_PER_MSEC

/* A wait returns so long after the launch that it is for has ended. */
#define WAKE_NS (4 * USEC)
/* More launches than have to be steady before some go without markers. */
#define MANY (MEANS_TRUSTED + 20)

static struct meter *meter;
static struct pace_device device;
static struct meter_thread thread;
static struct lane *lane;
static struct means_entry *work;
static int64_t now_ns;

/* What a round does otherwise than usual. */
static struct {
	bool is_polled; /* the wait finds that all is done */
	bool has_event; /* it is for an event, or for the whole context */
	bool has_context;
	bool is_twice;   /* it waits once more */
	int64_t late_ns; /* the wait returns so much later */
} how;

/* The GPU's clock stands at the CPU's; slot 2 is ours. */
static int setup(void **state)
{
	(void)state;
	meter = calloc(1, sizeof(*meter));
	assert_non_null(meter);
	memset(&device, 0, sizeof(device));
	memset(&how, 0, sizeof(how));
	meter->pace = (struct pace){ .device = &device, .slot = 2 };
	pthread_mutex_init(&meter->lock, NULL);
	thread = (struct meter_thread){ .id = 1 };
	lane = meter_lane(meter, &thread, 11, 1);
	work = means_find(&meter->means, 5);
	probe_at(meter, 1, NOW_NS - MSEC, NOW_NS - MSEC);
	now_ns = NOW_NS;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(meter);
	return 0;
}

static void answer(int64_t ran_ns)
{
	struct marker_query query;

	assert_int_equal(marker_pending(meter, &query, 1), 1);
	assert_true(marker_ended(meter, &query, ran_ns, ran_ns + USEC));
}

static void admit(struct means_entry *kind)
{
	struct pace_terms terms = { .share_pct = 90 };
	int64_t until_ns;

	if (!meter_admit_fast(&thread, kind))
		assert_int_equal(meter_admit(meter, &thread, lane, kind, &terms, now_ns, &until_ns),
				 PACE_GO);
}

/* A launch of the kind, without a wait; true if it was to be measured and has markers. */
static bool launch(struct means_entry *kind, bool is_measured)
{
	enum meter_kind mark = METER_AFTER;
	bool has_before, has_after;

	now_ns += MSEC;
	admit(kind);
	lane->wants_pair = is_measured;
	lane->due_ns = now_ns + MSEC;
	has_before = lane_wants(lane) &&
		     meter_wants_mark(meter, &thread, lane, kind, now_ns, &mark);
	assert_true(!has_before || mark == METER_BEFORE);
	if (has_before)
		mark_at(meter, lane, mark, 1, NULL, now_ns);
	has_after = meter_launched(meter, &thread, lane, now_ns);
	if (has_after)
		mark_at(meter, lane, METER_AFTER, 2, kind, now_ns);
	assert_int_equal(has_before, has_after);
	return has_before;
}

/* As the hooks do it. */
static void wait_for(int64_t begin_ns)
{
	struct marker_point point;
	struct lane *at;

	marker_point(meter, 11, 1, &point);
	at = how.has_context ? spare_lane(meter, &thread, 1) :
	     how.has_event   ? spare_lane_at(&thread, &point) :
			       meter_lane_known(&thread, 11);
	assert_ptr_equal(at, lane);
	if (!how.has_context && !how.has_event && !how.is_polled && spare_may_pass(meter, lane)) {
		spare_pass(lane);
		return;
	}
	spare_waited(at, how.is_polled ? INT64_MAX : begin_ns, now_ns);
	if (!meter_wait_is_spare(meter, lane, begin_ns, now_ns))
		marker_waited(meter, 11, 1, begin_ns, now_ns);
}

/* One of `ns` that is to be measured, with a wait behind it. True if it has markers. */
static bool go_round(struct means_entry *kind, int64_t ns)
{
	bool is_marked = launch(kind, true);
	int64_t begin_ns = now_ns, end_ns = now_ns + REPLAY_LEAD_NS + ns;

	if (is_marked) {
		answer(begin_ns);
		answer(end_ns);
	}
	now_ns = end_ns + WAKE_NS + how.late_ns;
	wait_for(begin_ns);
	if (how.is_twice)
		wait_for(now_ns);
	return is_marked;
}

/* How many of so many launches have markers. */
static int marked(int rounds, struct means_entry *kind, int64_t ns)
{
	int n = 0;

	for (int i = 0; i < rounds; i++)
		n += go_round(kind, ns);
	return n;
}

/* Steady launches until most go without markers; the last one had them. */
static void settle_down(void)
{
	assert_true(marked(MANY, work, 20 * USEC) > 0);
	assert_true(marked(100, work, 20 * USEC) < 20);
	while (!go_round(work, 20 * USEC))
		;
}

static void most_steady_launches_have_no_markers(void **state)
{
	(void)state;
	assert_int_equal(marked(MEANS_TRUSTED, work, 20 * USEC), MEANS_TRUSTED);
	settle_down();
	assert_int_equal(marked(160, work, 20 * USEC), 20);
	assert_in_range(means_cost_ns(work), 19900, 20100);
	assert_null(lane->spare.work);
}

static void an_event_and_the_context_do_as_well(void **state)
{
	(void)state;
	how.has_event = true;
	settle_down();
	assert_int_equal(marked(160, work, 20 * USEC), 20);
	how.has_event = false;
	how.has_context = true;
	assert_int_equal(marked(160, work, 20 * USEC), 20);
}

/* The wait of the first that takes another time tells, and the mean follows at once. */
static void what_changes_has_markers(void **state)
{
	static const int64_t others_ns[] = { 40 * USEC, 8 * USEC };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		settle_down();
		assert_false(go_round(work, others_ns[i]));
		assert_in_range(means_cost_ns(work), 19900, 20100);
		assert_int_equal(marked(1, work, others_ns[i]), 1);
		assert_true(marked(120, work, others_ns[i]) >= 100);
		assert_in_range(means_cost_ns(work), others_ns[i] - 5 * USEC,
				others_ns[i] + 5 * USEC);
		marked(2000, work, 20 * USEC);
	}
}

/* A thread that was put off: one more launch has markers, and no mean is wrong. */
static void a_late_wait_costs_a_pair(void **state)
{
	(void)state;
	settle_down();
	how.late_ns = MSEC;
	assert_false(go_round(work, 20 * USEC));
	how.late_ns = 0;
	assert_true(go_round(work, 20 * USEC));
	assert_int_equal(marked(8, work, 20 * USEC), 1);
	assert_in_range(means_cost_ns(work), 19900, 20100);
}

/* What is there each time, a copy behind the launch say, is usual after a while. */
static void what_is_always_there_is_usual(void **state)
{
	(void)state;
	how.late_ns = 8 * USEC;
	settle_down();
	how.late_ns = 100 * USEC;
	assert_true(marked(20, work, 20 * USEC) > 8);
	marked(400, work, 20 * USEC);
	assert_int_equal(marked(160, work, 20 * USEC), 20);
	how.late_ns = 0;
	marked(400, work, 20 * USEC);
	assert_int_equal(marked(160, work, 20 * USEC), 20);
	assert_in_range(means_cost_ns(work), 19900, 20100);
}

/* Waits that take a little longer each time are as usual. */
static void what_is_usual_moves(void **state)
{
	int with = 0;

	(void)state;
	settle_down();
	for (int i = 0; i < 320; i++) {
		how.late_ns = i * 100;
		with += go_round(work, 20 * USEC);
	}
	assert_int_equal(with, 40);
}

/* One in fifty takes longer: their mean takes many pairs. */
static void what_is_not_steady_keeps_its_markers(void **state)
{
	uint32_t random = 1;
	int without = 0;

	(void)state;
	settle_down();
	for (int i = 0; i < 4000; i++) {
		int64_t ns = random_next(&random) % 50 ? 20 * USEC : 100 * USEC;

		without += !go_round(work, ns) && i >= 2000;
	}
	assert_in_range(without, 0, 100);
}

/* The limit is near, a launch was held, kernels wait for others, somebody else is there. */
static void others_or_a_near_limit_ask_for_markers(void **state)
{
	(void)state;
	settle_down();
	meter->is_tight = 1;
	assert_false(spare_begin(meter, lane, work, now_ns));
	meter->is_tight = 0;
	meter->held_ns = now_ns - MSEC;
	assert_false(spare_begin(meter, lane, work, now_ns));
	meter->held_ns = now_ns - NSEC_PER_SEC;
	meter->is_linked = true;
	assert_false(spare_begin(meter, lane, work, now_ns));
	meter->is_linked = false;
	meter->crowd.late = 0x1f;
	assert_false(spare_begin(meter, lane, work, now_ns));
	meter->crowd.late = 0;
	work->may_wait = 1;
	assert_false(spare_begin(meter, lane, work, now_ns));
	work->may_wait = 0;
	/* Another process of the tenant has work. */
	device.active_words = 1;
	device.active[0] = 1;
	device.slots[0].unmeasured_ns = 1;
	assert_false(spare_begin(meter, lane, work, now_ns));
	device.slots[0].unmeasured_ns = 0;
	assert_true(spare_begin(meter, lane, work, now_ns));
}

/* A wait that returns at once tells nothing: nearly all keep their markers. */
static void who_waits_in_vain_keeps_markers(void **state)
{
	int with = 0;

	(void)state;
	settle_down();
	for (int i = 0; i < 160; i++) {
		bool is_marked = launch(work, true);
		int64_t at_ns = now_ns;

		if (is_marked) {
			answer(at_ns);
			answer(at_ns + REPLAY_LEAD_NS + 20 * USEC);
		}
		now_ns = at_ns + 60 * USEC;
		wait_for(now_ns - USEC);
		with += is_marked;
	}
	assert_in_range(with, 130, 160);
}

/* Without a wait behind each launch there is nothing to tell that it takes as long as usual. */
static void who_polls_keeps_its_markers(void **state)
{
	(void)state;
	how.is_polled = true;
	assert_int_equal(marked(2 * MANY, work, 20 * USEC), 2 * MANY);
	how.is_polled = false;
	settle_down();
	how.is_polled = true;
	assert_false(go_round(work, 20 * USEC));
	assert_int_equal(marked(8, work, 20 * USEC), 8);
}

static void a_launch_behind_another_has_markers(void **state)
{
	(void)state;
	settle_down();
	launch(work, false);
	assert_true(launch(work, true));
}

/* Another launch before the wait: it tells of both, and nothing is learnt from it. */
static void a_wait_for_two_says_nothing(void **state)
{
	int64_t extra_ns;

	(void)state;
	settle_down();
	marked(80, work, 20 * USEC);
	extra_ns = lane->spare.extra_ns;
	assert_false(launch(work, true));
	launch(work, false);
	now_ns += 60 * USEC;
	wait_for(now_ns - 50 * USEC);
	assert_int_equal(lane->spare.extra_ns, extra_ns);
	/* A run of waits begins anew. */
	assert_int_equal(marked(8, work, 20 * USEC), 8);
	assert_true(marked(8, work, 20 * USEC) <= 2);
}

static void who_waits_twice_waits_once(void **state)
{
	(void)state;
	how.is_twice = true;
	settle_down();
	assert_int_equal(marked(160, work, 20 * USEC), 20);
}

/* The next launch that is to be measured is of its own kind. */
static void a_launch_that_failed_is_forgotten(void **state)
{
	struct means_entry *other = means_find(&meter->means, 6);
	enum meter_kind kind;

	(void)state;
	means_learn(other, 50 * USEC);
	settle_down();
	now_ns += MSEC;
	admit(work);
	lane->wants_pair = true;
	assert_false(meter_wants_mark(meter, &thread, lane, work, now_ns, &kind));
	meter_cancel(meter, &thread);
	assert_true(go_round(other, 50 * USEC));
	assert_null(lane->spare.work);
}

/* An event that was recorded before the launch says nothing of it. */
static void an_event_is_for_what_was_before_it(void **state)
{
	struct marker_point point;

	(void)state;
	settle_down();
	assert_true(marker_point(meter, 11, 1, &point));
	assert_ptr_equal(spare_lane_at(&thread, &point), lane);
	launch(work, false);
	assert_null(spare_lane_at(&thread, &point));
	assert_ptr_equal(spare_lane(meter, &thread, 1), lane);
	assert_null(spare_lane(meter, &thread, 2));
}

/* Who gets the lane of a thread that ended begins anew. */
static void a_lane_of_another_is_not_known(void **state)
{
	struct meter_thread next = { .id = 7 };
	struct marker_point point;

	(void)state;
	settle_down();
	assert_true(marker_point(meter, 11, 1, &point));
	meter_thread_end(meter, &thread);
	assert_null(spare_lane(meter, &thread, 1));
	assert_null(spare_lane_at(&thread, &point));
	assert_ptr_equal(meter_lane(meter, &next, 11, 1), lane);
	assert_int_equal(lane->spare.run, 0);
	assert_int_equal(lane->spare.left, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(most_steady_launches_have_no_markers),
		TEST(an_event_and_the_context_do_as_well),
		TEST(what_changes_has_markers),
		TEST(a_late_wait_costs_a_pair),
		TEST(what_is_always_there_is_usual),
		TEST(what_is_usual_moves),
		TEST(what_is_not_steady_keeps_its_markers),
		TEST(others_or_a_near_limit_ask_for_markers),
		TEST(who_waits_in_vain_keeps_markers),
		TEST(who_polls_keeps_its_markers),
		TEST(a_launch_behind_another_has_markers),
		TEST(a_wait_for_two_says_nothing),
		TEST(who_waits_twice_waits_once),
		TEST(a_launch_that_failed_is_forgotten),
		TEST(an_event_is_for_what_was_before_it),
		TEST(a_lane_of_another_is_not_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
