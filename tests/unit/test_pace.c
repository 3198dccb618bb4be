#include "core/pace.h"

#include "base/clock.h"
#include "shm/pace_slot.h"

#include "check.h"

#include <pthread.h>

#define NOW_NS (1000 * NSEC_PER_SEC)
#define MSEC NSEC_PER_MSEC

static struct pace_device device;
static struct pace pace = { .device = &device, .slot = 5 },
		   other = { .device = &device, .slot = 700 };
static struct pace_terms half = { .share_pct = 50 };
static struct pace_hold hold;
static struct pace_answer answer;

static int setup(void **state)
{
	(void)state;
	memset(&device, 0, sizeof(device));
	memset(&hold, 0, sizeof(hold));
	half = (struct pace_terms){ .share_pct = 50 };
	return 0;
}

static enum pace_reason ask(struct pace *who, int64_t cost_ns, int64_t now_ns)
{
	pace_ask(who, &half, &hold, cost_ns, now_ns, &answer);
	if (answer.reason == PACE_GO)
		memset(&hold, 0, sizeof(hold));
	return answer.reason;
}

/* Empties the bucket to `level_ns` at NOW_NS, with nothing saved. */
static void set_level(int64_t level_ns)
{
	device.level_pct_ns = level_ns * 100;
	device.filled_ns = NOW_NS;
}

static void the_cap_is_50_ms_of_the_share_or_5_ms(void **state)
{
	(void)state;
	assert_int_equal(pace_cap_ns(1), 500000);
	assert_int_equal(pace_cap_ns(10), 5 * MSEC);
	assert_int_equal(pace_cap_ns(50), 5 * MSEC);
	assert_int_equal(pace_cap_ns(99), 5 * MSEC);
}

static void it_fills_at_the_share_up_to_the_cap(void **state)
{
	(void)state;
	set_level(0);
	assert_int_equal(pace_level_ns(&pace, 50, NOW_NS + 4 * MSEC), 2 * MSEC);
	assert_int_equal(pace_level_ns(&pace, 10, NOW_NS + 5 * MSEC), 2100000);
	assert_int_equal(pace_level_ns(&pace, 50, NOW_NS + NSEC_PER_SEC), 5 * MSEC);
	/* Many small fills are as much as one. */
	set_level(0);
	for (int i = 1; i <= 1000; i++)
		pace_level_ns(&pace, 33, NOW_NS + i);
	assert_int_equal(device.level_pct_ns, 33 * 1000);
}

/* How long the bucket takes to fill with what a thread waits for after its debt. */
static int64_t burst_ns(uint32_t share_pct)
{
	return PACE_BURST_NS * 100 / share_pct;
}

static void debt_is_kept_and_only_time_pays_it(void **state)
{
	(void)state;
	set_level(0);
	pace_debit(&pace, 50, 200 * MSEC, NOW_NS);
	assert_int_equal(pace_level_ns(&pace, 50, NOW_NS), -200 * MSEC);
	assert_int_equal(ask(&pace, 1000, NOW_NS), PACE_DEBT);
	assert_int_equal(hold.wake_ns, NOW_NS + 400 * MSEC + burst_ns(50));
	/* It is polled at least every 100 ms, and the wake time stays. */
	assert_int_equal(answer.until_ns, NOW_NS + 100 * MSEC);
	assert_int_equal(ask(&pace, 1000, NOW_NS + 350 * MSEC), PACE_DEBT);
	assert_int_equal(answer.until_ns, NOW_NS + 400 * MSEC + burst_ns(50));
	assert_int_equal(ask(&pace, 1000, NOW_NS + 400 * MSEC), PACE_GO);
}

/* The bucket has its debt, but nobody is held for what is late of it. */
static void what_is_late_holds_nobody(void **state)
{
	(void)state;
	set_level(-NSEC_PER_SEC);
	pace_late(&pace, NSEC_PER_SEC);
	assert_int_equal(pace_late_ns(&pace), NSEC_PER_SEC);
	assert_int_equal(ask(&pace, 100000, NOW_NS), PACE_GO);
	assert_int_equal(device.level_pct_ns, -NSEC_PER_SEC * 100);
	pace_settle(&pace, answer.grant_ns);
	/* Half of it comes due. */
	pace_late(&pace, -NSEC_PER_SEC / 2);
	assert_int_equal(ask(&pace, 100000, NOW_NS), PACE_DEBT);
	assert_int_equal(hold.wake_ns, NOW_NS + NSEC_PER_SEC + burst_ns(50));
}

/* Others wait for its launches: what is owed holds them no more, up to what may be late. */
static void who_is_awaited_may_owe(void **state)
{
	(void)state;
	set_level(-NSEC_PER_SEC);
	assert_int_equal(ask(&pace, 100000, NOW_NS), PACE_DEBT);
	pace_await(&pace, true);
	for (int i = 0; i < 3; i++)
		assert_int_equal(ask(&pace, NSEC_PER_SEC, NOW_NS), PACE_GO);
	/* Not another process's, and it is debited as ever. */
	assert_int_equal(ask(&other, 100000, NOW_NS), PACE_DEBT);
	pace_settle(&pace, 3 * NSEC_PER_SEC);
	pace_debit(&pace, 50, 3 * NSEC_PER_SEC, NOW_NS);
	assert_int_equal(ask(&pace, 100000, NOW_NS), PACE_GO);
	pace_settle(&pace, 100000);
	pace_debit(&pace, 50, 100000, NOW_NS);
	assert_int_equal(ask(&pace, 100000, NOW_NS), PACE_DEBT);
	assert_int_equal(device.level_pct_ns, -(4 * NSEC_PER_SEC + 100000) * 100);
	/* The monitor's hold is none of that. */
	set_level(0);
	half.is_blocked = true;
	assert_int_equal(ask(&pace, 100000, NOW_NS), PACE_ASKED);
	half.is_blocked = false;
	set_level(-NSEC_PER_SEC);
	pace_await(&pace, false);
	assert_int_equal(ask(&pace, 100000, NOW_NS), PACE_DEBT);
}

/* Time pays for it once the bucket is full, and it is never more than the debt and the bucket. */
static void time_pays_what_is_late(void **state)
{
	(void)state;
	set_level(-NSEC_PER_SEC);
	pace_late(&pace, NSEC_PER_SEC);
	assert_int_equal(pace_level_ns(&pace, 50, NOW_NS), 0);
	assert_int_equal(pace_level_ns(&pace, 50, NOW_NS + NSEC_PER_SEC), 5 * MSEC);
	assert_int_equal(pace_late_ns(&pace), NSEC_PER_SEC / 2 + 5 * MSEC);
	assert_int_equal(pace_level_ns(&pace, 50, NOW_NS + 3 * NSEC_PER_SEC), 5 * MSEC);
	assert_int_equal(pace_late_ns(&pace), 0);
	/* What was never debited is no credit. */
	pace_late(&pace, NSEC_PER_SEC);
	assert_int_equal(pace_level_ns(&pace, 50, NOW_NS + 3 * NSEC_PER_SEC), 5 * MSEC);
	assert_int_equal(pace_late_ns(&pace), 0);
}

/* Two devices with kernels that wait for each other: who owes nothing waits, but only once. */
static void linked_processes_wait_for_each_others_debt(void **state)
{
	static struct pace_device devices[3];
	struct pace first = { .device = &devices[0], .slot = 1, .all = devices, .count = 3 };
	struct pace second = { .device = &devices[1], .slot = 2, .all = devices, .count = 3 };

	(void)state;
	memset(devices, 0, sizeof(devices));
	hold.is_linked = true;
	for (int i = 0; i < 2; i++) {
		devices[i].level_pct_ns = 4 * MSEC * 100;
		devices[i].filled_ns = NOW_NS;
	}
	/* The third is not linked. */
	devices[2].level_pct_ns = -NSEC_PER_SEC * 100;
	devices[2].filled_ns = NOW_NS;
	devices[2].share_pct = 50;
	assert_int_equal(ask(&second, 100000, NOW_NS), PACE_GO);
	pace_settle(&second, answer.grant_ns);
	devices[1].level_pct_ns = -100 * MSEC * 100;
	/* Nobody has waited for anybody: they are jobs of their own. */
	hold.is_linked = true;
	assert_int_equal(ask(&first, 100000, NOW_NS), PACE_GO);
	pace_settle(&first, answer.grant_ns);
	devices[0].level_pct_ns = -NSEC_PER_SEC * 100;
	pace_late(&first, NSEC_PER_SEC);
	hold.is_linked = true;
	assert_int_equal(ask(&first, 100000, NOW_NS), PACE_DEBT);
	assert_int_equal(hold.meet_ns, NOW_NS + 200 * MSEC + burst_ns(50));
	/* Its limit is raised: it is paid sooner. */
	devices[1].share_pct = 100;
	assert_int_equal(ask(&first, 100000, NOW_NS), PACE_GO);
	pace_settle(&first, answer.grant_ns);
	devices[1].share_pct = 50;
	hold.is_linked = true;
	assert_int_equal(ask(&first, 100000, NOW_NS), PACE_DEBT);
	/* What it owes later is not waited for. */
	devices[1].level_pct_ns = -200 * MSEC * 100;
	assert_int_equal(ask(&first, 100000, NOW_NS + 150 * MSEC), PACE_DEBT);
	assert_int_equal(ask(&first, 100000, hold.meet_ns), PACE_GO);
	/* And an unlinked process waits for nobody. */
	assert_int_equal(ask(&first, 100000, NOW_NS + 202 * MSEC), PACE_GO);
}

static void a_change_of_the_limit_moves_the_wake_time(void **state)
{
	(void)state;
	set_level(-10 * MSEC);
	assert_int_equal(ask(&pace, 1000, NOW_NS), PACE_DEBT);
	assert_int_equal(hold.wake_ns, NOW_NS + 20 * MSEC + burst_ns(50));
	half.share_pct = 10;
	assert_int_equal(ask(&pace, 1000, NOW_NS), PACE_DEBT);
	assert_int_equal(hold.wake_ns, NOW_NS + 100 * MSEC + burst_ns(10));
	half.share_pct = 100;
	assert_int_equal(ask(&pace, 1000, NOW_NS), PACE_GO);
}

/* A kernel that runs and is debited meanwhile does not push the wake time of a held launch out. */
static void running_work_does_not_extend_a_debt_hold(void **state)
{
	(void)state;
	set_level(-10 * MSEC);
	assert_int_equal(ask(&pace, 1000, NOW_NS), PACE_DEBT);
	for (int i = 1; i <= 20; i++) {
		pace_unfinished(&pace, MSEC);
		pace_debit(&pace, 50, MSEC, NOW_NS + i * MSEC);
		if (i < 20)
			assert_int_equal(ask(&pace, 1000, NOW_NS + i * MSEC), PACE_DEBT);
	}
	assert_int_equal(hold.wake_ns, NOW_NS + 20 * MSEC + burst_ns(50));
	assert_int_equal(ask(&pace, 1000, NOW_NS + 20 * MSEC), PACE_GO);
}

static void what_is_in_flight_counts_by_its_prediction(void **state)
{
	(void)state;
	set_level(MSEC);
	assert_int_equal(ask(&pace, 800000, NOW_NS), PACE_GO);
	assert_int_equal(answer.grant_ns, 800000);
	assert_int_equal(ask(&other, 800000, NOW_NS), PACE_GO);
	assert_int_equal(ask(&pace, 1000, NOW_NS), PACE_INFLIGHT);
	/* Measured, it was as predicted; then it is debt that holds. */
	pace_debit(&pace, 50, 800000, NOW_NS);
	pace_settle(&pace, 800000);
	pace_debit(&other, 50, 800000, NOW_NS);
	pace_settle(&other, 800000);
	assert_int_equal(ask(&pace, 1000, NOW_NS), PACE_DEBT);
}

static void with_nothing_in_flight_one_launch_of_any_length_goes(void **state)
{
	(void)state;
	set_level(0);
	assert_int_equal(ask(&pace, 3600 * NSEC_PER_SEC, NOW_NS), PACE_GO);
	assert_int_equal(ask(&pace, 1000, NOW_NS), PACE_INFLIGHT);
}

/* Not what a dead process left behind: whoever reaps its slot drops it. */
static void a_reaped_slot_has_nothing_in_flight(void **state)
{
	(void)state;
	set_level(0);
	assert_int_equal(ask(&other, 900 * MSEC, NOW_NS), PACE_GO);
	pace_unfinished(&other, 20 * MSEC);
	pace_debit(&other, 50, 20 * MSEC, NOW_NS);
	assert_int_equal(ask(&pace, 1000, NOW_NS), PACE_INFLIGHT);
	pace_slot_clear(other.device, other.slot);
	/* What it used stays debited. */
	assert_int_equal(ask(&pace, 1000, NOW_NS), PACE_DEBT);
	assert_int_equal(ask(&pace, 1000, NOW_NS + 41 * MSEC), PACE_GO);
}

/* 20 ms without progress let one through, by whoever asks first, and the next waits longer. */
static void without_progress_one_is_let_through(void **state)
{
	struct pace_hold second = { .reason = PACE_GO };

	(void)state;
	set_level(0);
	assert_int_equal(ask(&pace, 10 * MSEC, NOW_NS), PACE_GO);
	pace_ask(&other, &half, &second, 1000, NOW_NS, &answer);
	assert_int_equal(answer.reason, PACE_INFLIGHT);
	assert_int_equal(ask(&pace, 1000, NOW_NS), PACE_INFLIGHT);
	assert_int_equal(ask(&pace, 1000, NOW_NS + 19 * MSEC), PACE_INFLIGHT);
	device.level_pct_ns = 0;
	device.filled_ns = NOW_NS + 21 * MSEC;
	assert_int_equal(ask(&pace, 1000, NOW_NS + 21 * MSEC), PACE_GO);
	assert_true(pace_has_let(&pace, NOW_NS));
	pace_ask(&other, &half, &second, 1000, NOW_NS + 21 * MSEC, &answer);
	assert_int_equal(answer.reason, PACE_INFLIGHT);
	device.level_pct_ns = 0;
	device.filled_ns = NOW_NS + 60 * MSEC;
	pace_ask(&other, &half, &second, 1000, NOW_NS + 60 * MSEC, &answer);
	assert_int_equal(answer.reason, PACE_INFLIGHT);
	device.level_pct_ns = 0;
	device.filled_ns = NOW_NS + 102 * MSEC;
	pace_ask(&other, &half, &second, 1000, NOW_NS + 102 * MSEC, &answer);
	assert_int_equal(answer.reason, PACE_GO);
}

static void progress_puts_that_off(void **state)
{
	(void)state;
	set_level(0);
	assert_int_equal(ask(&pace, 10 * MSEC, NOW_NS), PACE_GO);
	assert_int_equal(ask(&pace, 1000, NOW_NS), PACE_INFLIGHT);
	pace_progress(&other, NOW_NS + 15 * MSEC);
	device.level_pct_ns = 0;
	device.filled_ns = NOW_NS + 30 * MSEC;
	assert_int_equal(ask(&pace, 1000, NOW_NS + 30 * MSEC), PACE_INFLIGHT);
}

/* What is known to be long is waited for longer than 20 ms. */
static void a_long_kernel_is_waited_for(void **state)
{
	(void)state;
	set_level(0);
	assert_int_equal(ask(&pace, NSEC_PER_SEC, NOW_NS), PACE_GO);
	assert_int_equal(ask(&pace, 1000, NOW_NS + MSEC), PACE_INFLIGHT);
	assert_int_equal(ask(&pace, 1000, NOW_NS + 900 * MSEC), PACE_INFLIGHT);
	assert_int_equal(ask(&pace, 1000, NOW_NS + 1300 * MSEC), PACE_GO);
}

static void streams_side_by_side_count_as_they_overlap(void **state)
{
	(void)state;
	set_level(MSEC);
	pace_overlap(&pace, 10 * MSEC, 40 * MSEC);
	assert_int_equal(ask(&pace, 3900000, NOW_NS), PACE_GO);
	assert_int_equal(ask(&pace, 1000, NOW_NS), PACE_GO);
	assert_int_equal(ask(&pace, 400000, NOW_NS), PACE_GO);
	assert_int_equal(ask(&pace, 1000, NOW_NS), PACE_INFLIGHT);
}

static void blocked_is_held_and_polled(void **state)
{
	(void)state;
	set_level(MSEC);
	half.is_blocked = true;
	assert_int_equal(ask(&pace, 1000, NOW_NS), PACE_ASKED);
	assert_int_equal(answer.until_ns, NOW_NS + 100 * MSEC);
	half.share_pct = 100;
	assert_int_equal(ask(&pace, 1000, NOW_NS), PACE_ASKED);
	half.is_blocked = false;
	assert_int_equal(ask(&pace, 1000, NOW_NS), PACE_GO);
}

/* A tenant that rested may go over its bucket, but not over its share of a second. */
static void an_idle_tenant_saves(void **state)
{
	int64_t granted_ns = 0;

	(void)state;
	set_level(0);
	while (ask(&pace, 100000, NOW_NS + NSEC_PER_SEC) == PACE_GO) {
		granted_ns += answer.grant_ns;
		pace_debit(&pace, 50, answer.grant_ns, NOW_NS + NSEC_PER_SEC);
		pace_settle(&pace, answer.grant_ns);
	}
	assert_in_range(granted_ns, 17 * MSEC, 18 * MSEC);
}

/* Whatever is in the words, a launch is held for a bounded time and goes in the end. */
static void garbage_does_not_hang(void **state)
{
	static const unsigned char bytes[] = { 0xff, 0x7f, 0x80, 0x55 };

	(void)state;
	for (unsigned i = 0; i < sizeof(bytes); i++) {
		int64_t now_ns = NOW_NS;
		int asks = 0;

		memset(&device, bytes[i], sizeof(device));
		memset(&hold, 0, sizeof(hold));
		while (ask(&pace, 1000, now_ns) != PACE_GO && asks++ < 1000000) {
			assert_in_range(answer.until_ns, now_ns + 1, now_ns + NSEC_PER_SEC);
			now_ns = answer.until_ns;
			/* Slots are cleared as processes take them. */
			pace_slot_clear(&device, (unsigned)asks % PACE_SLOTS);
		}
		assert_int_equal(answer.reason, PACE_GO);
	}
}

/* The machine was started anew: the region's times are of another life. */
static void a_time_from_the_future_is_not_waited_for(void **state)
{
	(void)state;
	device.level_pct_ns = 0;
	device.filled_ns = 1000000 * NSEC_PER_SEC;
	device.progress_ns = (uint64_t)(1000000 * NSEC_PER_SEC);
	assert_int_equal(pace_level_ns(&pace, 50, NOW_NS), 0);
	assert_int_equal(pace_level_ns(&pace, 50, NOW_NS + 2 * MSEC), MSEC);
}

static void a_process_is_seen_in_its_last_second(void **state)
{
	(void)state;
	pace_debit(&pace, 50, 0, NOW_NS);
	pace_debit(&pace, 50, 300 * MSEC, NOW_NS + 500 * MSEC);
	pace_held(&pace, 7 * MSEC);
	pace_debit(&pace, 50, 0, NOW_NS + NSEC_PER_SEC);
	assert_int_equal(device.slots[5].busy_ns, 300 * MSEC);
	assert_int_equal(device.slots[5].second_share_ns, 300 * MSEC);
	assert_int_equal(device.slots[5].held_ns, 7 * MSEC);
	pace_debit(&pace, 50, 100 * MSEC, NOW_NS + 3 * NSEC_PER_SEC);
	assert_int_equal(device.slots[5].second_share_ns, 0);
}

enum { THREADS = 8, ROUNDS = BUILD_SANITIZED ? 2000 : 20000 };

static void *spend(void *arg)
{
	struct pace mine = { .device = &device, .slot = (unsigned)(uintptr_t)arg };
	struct pace_terms terms = { .share_pct = 50 };

	for (int i = 0; i < ROUNDS; i++) {
		struct pace_hold mine_hold = { .reason = PACE_GO };
		struct pace_answer mine_answer;

		pace_ask(&mine, &terms, &mine_hold, 1000, NOW_NS, &mine_answer);
		if (mine_answer.reason != PACE_GO)
			continue;
		pace_debit(&mine, 50, 1000, NOW_NS);
		pace_settle(&mine, mine_answer.grant_ns);
	}
	return NULL;
}

/* The clock stands still, so all that the bucket held is all that there is, however many ask. */
static void many_threads_share_one_bucket(void **state)
{
	pthread_t threads[THREADS];
	uint64_t busy_ns = 0;

	(void)state;
	set_level(5 * MSEC);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, spend, (void *)(uintptr_t)i), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	for (int i = 0; i < THREADS; i++) {
		busy_ns += device.slots[i].busy_ns;
		assert_int_equal(device.slots[i].unmeasured_ns, 0);
	}
	assert_int_equal(device.level_pct_ns, (5 * MSEC - (int64_t)busy_ns) * 100);
	/* At the end each may have let one go while the other was on its way. */
	assert_in_range(busy_ns, 5 * MSEC, 5 * MSEC + THREADS * 1000);
}

/* Beside other processes a thread that was held waits for enough for a turn. */
static void beside_others_held_threads_go_in_turns(void **state)
{
	(void)state;
	set_level(MSEC);
	assert_int_equal(ask(&other, MSEC, NOW_NS), PACE_GO);
	set_level(MSEC - 1000);
	assert_int_equal(ask(&pace, 1000, NOW_NS), PACE_INFLIGHT);
	set_level(MSEC + 100000);
	hold.is_crowded = true;
	assert_int_equal(ask(&pace, 1000, NOW_NS), PACE_INFLIGHT);
	set_level(MSEC + PACE_TURN_NS);
	hold.is_crowded = true;
	assert_int_equal(ask(&pace, 1000, NOW_NS), PACE_GO);
	/* Who was not held need not. */
	set_level(MSEC + 100000);
	hold.is_crowded = true;
	assert_int_equal(ask(&pace, 1000, NOW_NS), PACE_GO);
}

/* Processes that are held take turns, which end when what was let through should be done. */
static void processes_take_turns(void **state)
{
	(void)state;
	set_level(5 * MSEC);
	hold.is_crowded = true;
	assert_int_equal(ask(&other, MSEC, NOW_NS), PACE_GO);
	assert_false(answer.has_others);
	hold = (struct pace_hold){ .reason = PACE_INFLIGHT,
				   .since_ns = NOW_NS,
				   .is_crowded = true };
	assert_int_equal(ask(&pace, 1000, NOW_NS + 1000), PACE_INFLIGHT);
	/* The other's own threads go on in it, and who is not held needs none. */
	hold = (struct pace_hold){ .reason = PACE_INFLIGHT,
				   .since_ns = NOW_NS,
				   .is_crowded = true };
	assert_int_equal(ask(&other, 1000, NOW_NS + 1000), PACE_GO);
	assert_int_equal(ask(&pace, 1000, NOW_NS + 1000), PACE_GO);
	/* Nobody has to end it. */
	hold = (struct pace_hold){ .reason = PACE_INFLIGHT,
				   .since_ns = NOW_NS,
				   .is_crowded = true };
	assert_int_equal(ask(&pace, 1000, NOW_NS + 3 * MSEC), PACE_GO);
	assert_true(answer.has_others);
}

/* `other` is held from NOW_NS on, still at now_ns, and asks again at answer.until_ns. */
static void hold_other(int64_t debt_ns, int64_t now_ns)
{
	set_level(-debt_ns);
	hold = (struct pace_hold){ .from_ns = NOW_NS, .is_crowded = true };
	assert_int_equal(ask(&other, 1000, now_ns), PACE_DEBT);
	hold = (struct pace_hold){ .is_crowded = true };
	set_level(5 * MSEC);
}

/* While it wakes others wait for it; who does not come is passed over. */
static void who_is_held_longest_goes_first(void **state)
{
	int64_t wake_ns;

	(void)state;
	hold_other(NSEC_PER_SEC, NOW_NS + 50 * MSEC);
	wake_ns = answer.until_ns;
	assert_int_equal(ask(&pace, 1000, wake_ns), PACE_INFLIGHT);
	assert_true(answer.until_ns > wake_ns && answer.until_ns <= wake_ns + 2 * MSEC);
	/* It goes; then the others may. */
	hold = (struct pace_hold){ .reason = PACE_DEBT, .from_ns = NOW_NS, .is_crowded = true };
	assert_int_equal(ask(&other, 1000, wake_ns), PACE_GO);
	hold = (struct pace_hold){ .is_crowded = true };
	assert_int_equal(ask(&pace, 1000, wake_ns + 1000), PACE_GO);

	hold_other(NSEC_PER_SEC, NOW_NS + 60 * MSEC);
	wake_ns = answer.until_ns;
	assert_int_equal(ask(&pace, 1000, wake_ns), PACE_INFLIGHT);
	assert_int_equal(ask(&pace, 1000, wake_ns + 3 * MSEC), PACE_GO);
}

static void who_is_held_longer_waits_for_nobody(void **state)
{
	(void)state;
	hold_other(NSEC_PER_SEC, NOW_NS + 50 * MSEC);
	hold = (struct pace_hold){ .reason = PACE_DEBT,
				   .from_ns = NOW_NS - MSEC,
				   .is_crowded = true };
	assert_int_equal(ask(&pace, 1000, answer.until_ns), PACE_GO);
	/* Nor does anybody for one that is held for a moment. */
	hold_other(MSEC, NOW_NS);
	assert_int_equal(ask(&pace, 1000, answer.until_ns), PACE_GO);
}

static void words_of_another_age_hold_nobody(void **state)
{
	(void)state;
	set_level(5 * MSEC);
	device.first = 1 << 10 | 700;
	device.first_ns = UINT64_MAX;
	hold = (struct pace_hold){ .is_crowded = true };
	assert_int_equal(ask(&pace, 1000, NOW_NS), PACE_GO);
	device.first_ns = (uint64_t)(NOW_NS + 3600 * NSEC_PER_SEC);
	hold = (struct pace_hold){ .is_crowded = true };
	assert_int_equal(ask(&pace, 1000, NOW_NS), PACE_GO);
}

/* A word of another age, or another's fault, holds nobody. */
static void a_turn_is_never_long(void **state)
{
	(void)state;
	set_level(5 * MSEC);
	device.turn = UINT64_MAX;
	hold = (struct pace_hold){ .reason = PACE_INFLIGHT,
				   .since_ns = NOW_NS,
				   .is_crowded = true };
	assert_int_equal(ask(&pace, 1000, NOW_NS), PACE_GO);
	device.turn = (uint64_t)(NOW_NS / NSEC_PER_USEC + 3600000000) << 10 | 700;
	hold = (struct pace_hold){ .reason = PACE_INFLIGHT,
				   .since_ns = NOW_NS,
				   .is_crowded = true };
	assert_int_equal(ask(&pace, 1000, NOW_NS), PACE_GO);
	assert_int_equal(device.turn % 1024, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_cap_is_50_ms_of_the_share_or_5_ms, setup),
		cmocka_unit_test_setup(it_fills_at_the_share_up_to_the_cap, setup),
		cmocka_unit_test_setup(debt_is_kept_and_only_time_pays_it, setup),
		cmocka_unit_test_setup(what_is_late_holds_nobody, setup),
		cmocka_unit_test_setup(who_is_awaited_may_owe, setup),
		cmocka_unit_test_setup(time_pays_what_is_late, setup),
		cmocka_unit_test_setup(linked_processes_wait_for_each_others_debt, setup),
		cmocka_unit_test_setup(a_change_of_the_limit_moves_the_wake_time, setup),
		cmocka_unit_test_setup(beside_others_held_threads_go_in_turns, setup),
		cmocka_unit_test_setup(processes_take_turns, setup),
		cmocka_unit_test_setup(a_turn_is_never_long, setup),
		cmocka_unit_test_setup(who_is_held_longest_goes_first, setup),
		cmocka_unit_test_setup(who_is_held_longer_waits_for_nobody, setup),
		cmocka_unit_test_setup(words_of_another_age_hold_nobody, setup),
		cmocka_unit_test_setup(running_work_does_not_extend_a_debt_hold, setup),
		cmocka_unit_test_setup(what_is_in_flight_counts_by_its_prediction, setup),
		cmocka_unit_test_setup(with_nothing_in_flight_one_launch_of_any_length_goes, setup),
		cmocka_unit_test_setup(a_reaped_slot_has_nothing_in_flight, setup),
		cmocka_unit_test_setup(without_progress_one_is_let_through, setup),
		cmocka_unit_test_setup(progress_puts_that_off, setup),
		cmocka_unit_test_setup(a_long_kernel_is_waited_for, setup),
		cmocka_unit_test_setup(streams_side_by_side_count_as_they_overlap, setup),
		cmocka_unit_test_setup(blocked_is_held_and_polled, setup),
		cmocka_unit_test_setup(an_idle_tenant_saves, setup),
		cmocka_unit_test_setup(garbage_does_not_hang, setup),
		cmocka_unit_test_setup(a_time_from_the_future_is_not_waited_for, setup),
		cmocka_unit_test_setup(a_process_is_seen_in_its_last_second, setup),
		cmocka_unit_test_setup(many_threads_share_one_bucket, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
