#include "core/pace.h"

#include "base/clock.h"
#include "core/late.h"
#include "core/pace_bucket.h"
#include "core/pace_meet.h"
#include "core/pace_turn.h"
#include "shm/busy_ring.h"

#define PERCENT 100
/* A second that is spent is looked at again after this. */
#define SPENT_LOOK_NS NSEC_PER_MSEC
/* A hold for what is in flight looks so often, and lets through after so long without progress. */
#define LOOK_NS (50 * NSEC_PER_USEC)
#define PATIENCE_NS (20 * NSEC_PER_MSEC)
#define ASKED_LOOK_NS (100 * NSEC_PER_MSEC)
/* Each further launch that is let through without progress in between waits four times as long. */
enum { PATIENCE_SHIFT = 2, LETS_MOST = 5, LET_BITS = 8, RACES_MOST = 4 };
/* pace_slot.overlap: its parts are in so many ns, and halved above so much. */
enum { OVERLAP_UNIT_NS = 64, OVERLAP_SPAN = 300000 };

static struct pace_slot *own(struct pace *pace)
{
	return &pace->device->slots[pace->slot];
}

int64_t pace_level_ns(struct pace *pace, uint32_t share_pct, int64_t now_ns)
{
	int64_t cap_ns = pace_cap_ns(share_pct) + pace_bucket_flight(pace).unmeasured_ns;

	return pace_bucket_without_late(
		pace, pace_bucket_change(pace, share_pct, cap_ns, 0, now_ns) / PERCENT, cap_ns);
}

/*
 * Takes a grant if `have` still covers what is in flight besides it. Two that take at once see each
 * other: at least one of them gives back and looks again.
 */
static bool take_grant(struct pace *pace, int64_t have_ns, int64_t seen_ns, int64_t grant_ns)
{
	int64_t others_ns;

	pace_bucket_mark(pace);
	__atomic_fetch_add(&own(pace)->unmeasured_ns, (uint64_t)grant_ns, __ATOMIC_SEQ_CST);
	others_ns = pace_bucket_flight(pace).unmeasured_ns -
		    grant_ns * pace_bucket_overlap(own(pace)) / 1024;
	if (others_ns <= seen_ns || others_ns <= have_ns)
		return true;
	pace_bucket_take(&own(pace)->unmeasured_ns, grant_ns);
	return false;
}

static void answer_hold(struct pace_hold *hold, enum pace_reason reason, int64_t until_ns,
			int64_t now_ns, struct pace_answer *out)
{
	if (hold->reason != reason || hold->since_ns == 0)
		hold->since_ns = now_ns;
	if (hold->from_ns == 0)
		hold->from_ns = now_ns;
	hold->reason = reason;
	*out = (struct pace_answer){ .reason = reason, .until_ns = until_ns };
}

/* As that, for want of time: who is held longest goes first where there are others. */
static void answer_wait(struct pace *pace, struct pace_hold *hold, enum pace_reason reason,
			int64_t until_ns, int64_t now_ns, struct pace_answer *out)
{
	answer_hold(hold, reason, until_ns, now_ns, out);
	if (hold->is_crowded)
		pace_turn_wait(pace, hold->from_ns, until_ns, now_ns);
}

/*
 * Who was in debt waits until there is enough for a few launches: streams that run side by side still
 * do, and the thread sleeps and wakes less often. The wake time is reckoned once, and anew only when
 * it has passed or the limit is another.
 */
static void hold_debt(struct pace *pace, const struct pace_terms *terms, struct pace_hold *hold,
		      int64_t debt_ns, int64_t now_ns, struct pace_answer *out)
{
	if (hold->reason != PACE_DEBT || hold->share_pct != terms->share_pct ||
	    now_ns >= hold->wake_ns)
		hold->wake_ns = now_ns + pace_bucket_paid_after_ns(terms->share_pct, debt_ns);
	hold->share_pct = terms->share_pct;
	answer_wait(pace, hold, PACE_DEBT, clock_least_ns(hold->wake_ns, now_ns + ASKED_LOOK_NS),
		    now_ns, out);
}

/*
 * Nothing has ended for a while. What runs may wait for the very launch that is held, so one is let
 * through, by whoever's compare-and-swap is first; then the next waits longer, for it may also be
 * that what runs is merely long. What is known to be long is waited for.
 */
static bool let_through(struct pace *pace, const struct pace_hold *hold, int64_t predicted_ns,
			int64_t now_ns, int64_t *out_deadline_ns)
{
	struct pace_device *device = pace->device;
	uint64_t progress = __atomic_load_n(&device->progress_ns, __ATOMIC_RELAXED);
	uint64_t let = __atomic_load_n(&device->let, __ATOMIC_RELAXED), lets = 0;
	int64_t patience_ns = clock_most_ns(PATIENCE_NS, predicted_ns + predicted_ns / 4);
	int64_t from_ns = clock_least_ns((int64_t)progress, now_ns);

	if (let >> LET_BITS == progress << LET_BITS >> LET_BITS)
		lets = let & ((1u << LET_BITS) - 1);
	if (lets > 0) {
		from_ns = (int64_t)__atomic_load_n(&device->let_ns, __ATOMIC_RELAXED);
		if (from_ns > now_ns || from_ns < 0)
			from_ns = 0;
	}
	patience_ns <<= PATIENCE_SHIFT * (lets < LETS_MOST ? lets : LETS_MOST);
	from_ns = clock_most_ns(from_ns, hold->since_ns ? hold->since_ns : now_ns);
	*out_deadline_ns = from_ns + patience_ns;
	if (now_ns < *out_deadline_ns)
		return false;
	if (!__atomic_compare_exchange_n(&device->let, &let, progress << LET_BITS | (lets + 1),
					 false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return false;
	__atomic_store_n(&device->let_ns, (uint64_t)now_ns, __ATOMIC_RELAXED);
	return true;
}

/*
 * A tenant that was idle saves more than the bucket holds, so that a program which is below its limit in
 * every 50 ms by bursts does not wait. But while savings are about, no second may get more than its share
 * and what the bucket holds.
 */
static bool is_second_spent(struct pace *pace, uint32_t share_pct, int64_t unmeasured_ns,
			    int64_t now_ns)
{
	struct pace_device *device = pace->device;
	int64_t saved_ns = (int64_t)__atomic_load_n(&device->saved_ns, __ATOMIC_RELAXED);
	int64_t read_ns = (int64_t)__atomic_load_n(&device->second_ns, __ATOMIC_RELAXED);
	int64_t left_ns = NSEC_PER_SEC / PERCENT * share_pct + pace_cap_ns(share_pct) -
			  unmeasured_ns;
	int64_t busy_ns;

	if (now_ns < saved_ns || now_ns - saved_ns > NSEC_PER_SEC)
		return false;
	/* Busy time grows no faster than the clock: what was read is good for as long as it leaves. */
	if (now_ns >= read_ns && now_ns - read_ns < left_ns &&
	    pace_bucket_word_ns(&device->second_busy_ns) <= left_ns - (now_ns - read_ns))
		return false;
	busy_ns = busy_ring_busy_ns(&device->ring, now_ns - NSEC_PER_SEC, now_ns);
	__atomic_store_n(&device->second_busy_ns, (uint64_t)busy_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&device->second_ns, (uint64_t)now_ns, __ATOMIC_RELAXED);
	return busy_ns > left_ns;
}

/*
 * What is granted at a time: little, since it counts until the thread asks again; more while the bucket is
 * nearly full, so that a program which stays below its limit seldom asks.
 */
static int64_t most_grant_ns(uint32_t share_pct, int64_t spare_ns)
{
	return spare_ns >= pace_cap_ns(share_pct) / 4 * 3 ? PACE_GRANT_MOST_NS : PACE_GRANT_NS;
}

static void answer_go(int64_t grant_ns, struct pace_answer *out)
{
	*out = (struct pace_answer){ .reason = PACE_GO, .grant_ns = grant_ns };
}

/*
 * Where others use the device: it is another's turn, and *out says so; or more has to be there for a turn
 * beside what is in flight.
 */
static bool is_others_turn(struct pace *pace, uint32_t share_pct, struct pace_hold *hold,
			   const struct pace_flight *flight, int64_t *inout_spare_ns,
			   int64_t now_ns, struct pace_answer *out)
{
	int64_t end_ns = pace_turn_before_ns(pace, hold->from_ns, now_ns);
	bool was_held = hold->reason != PACE_GO;

	if (!end_ns && was_held)
		end_ns = pace_turn_others_ns(pace, now_ns);
	if (end_ns)
		answer_wait(pace, hold, PACE_INFLIGHT, clock_least_ns(end_ns, now_ns + LOOK_NS),
			    now_ns, out);
	else if (was_held && flight->unmeasured_ns != 0)
		*inout_spare_ns -= clock_least_ns(PACE_TURN_NS, pace_cap_ns(share_pct) / 2);
	return end_ns != 0;
}

/* There is enough, or nothing in flight. False: another took it meanwhile. */
static bool grant(struct pace *pace, uint32_t share_pct, const struct pace_hold *hold,
		  const struct pace_flight *flight, int64_t have_ns, int64_t spare_ns,
		  int64_t cost_ns, int64_t now_ns, struct pace_answer *out)
{
	int64_t grant_ns = clock_most_ns(clock_least_ns(spare_ns / 4,
							most_grant_ns(share_pct, spare_ns)),
					 cost_ns);

	if (!take_grant(pace, have_ns, flight->unmeasured_ns, grant_ns))
		return false;
	answer_go(grant_ns, out);
	pace_turn_go(pace);
	out->has_others = hold->is_crowded && pace_turn_extend(pace, grant_ns, now_ns);
	return true;
}

/* Goes for now, by its prediction alone. */
static void let_go(struct pace *pace, int64_t cost_ns, struct pace_answer *out)
{
	pace_bucket_mark(pace);
	pace_bucket_add(&own(pace)->unmeasured_ns, cost_ns);
	pace_turn_go(pace);
	answer_go(cost_ns, out);
}

/*
 * Who is awaited may owe as much as may be late. What is in flight does not count: it may wait for
 * this very launch, and what it takes is owed when it has ended.
 */
static bool may_owe(struct pace *pace, uint32_t share_pct, int64_t now_ns)
{
	struct pace_flight flight = pace_bucket_flight(pace);
	int64_t have_ns = pace_bucket_fill(pace, share_pct, &flight, true, now_ns);

	return have_ns >= -LATE_MOST_NS;
}

void pace_ask(struct pace *pace, const struct pace_terms *terms, struct pace_hold *hold,
	      int64_t cost_ns, int64_t now_ns, struct pace_answer *out_answer)
{
	uint32_t share_pct = terms->share_pct;
	int64_t deadline_ns = 0, spare_ns = 0, meet_ns;

	if (terms->is_blocked) {
		answer_hold(hold, PACE_ASKED, now_ns + ASKED_LOOK_NS, now_ns, out_answer);
		return;
	}
	if (hold->is_linked)
		pace_meet_note(pace, share_pct, now_ns);
	if (share_pct == 0 || share_pct >= PACE_NO_LIMIT_PCT) {
		pace_bucket_mark(pace);
		pace_bucket_add(&own(pace)->unmeasured_ns,
				clock_most_ns(cost_ns, PACE_GRANT_MOST_NS));
		answer_go(clock_most_ns(cost_ns, PACE_GRANT_MOST_NS), out_answer);
		return;
	}
	if (pace_is_awaited(pace) && may_owe(pace, share_pct, now_ns)) {
		let_go(pace, cost_ns, out_answer);
		return;
	}
	for (int races = 0; races < RACES_MOST; races++) {
		struct pace_flight flight = pace_bucket_flight(pace);
		int64_t have_ns = pace_bucket_fill(pace, share_pct, &flight,
						   hold->reason != PACE_GO, now_ns);

		if (have_ns < 0) {
			hold_debt(pace, terms, hold, -have_ns, now_ns, out_answer);
			return;
		}
		meet_ns = pace_meet_until_ns(pace, hold, &have_ns, now_ns);
		if (meet_ns) {
			answer_hold(hold, PACE_DEBT,
				    clock_least_ns(meet_ns, now_ns + ASKED_LOOK_NS), now_ns,
				    out_answer);
			return;
		}
		if (is_second_spent(pace, share_pct, flight.unmeasured_ns, now_ns)) {
			answer_hold(hold, PACE_DEBT, now_ns + SPENT_LOOK_NS, now_ns, out_answer);
			return;
		}
		spare_ns = have_ns - flight.unmeasured_ns;
		if (hold->is_crowded &&
		    is_others_turn(pace, share_pct, hold, &flight, &spare_ns, now_ns, out_answer))
			return;
		if (spare_ns >= 0 || flight.unmeasured_ns == 0) {
			if (grant(pace, share_pct, hold, &flight, have_ns, spare_ns, cost_ns,
				  now_ns, out_answer))
				return;
			continue;
		}
		if (let_through(pace, hold, flight.predicted_ns, now_ns, &deadline_ns)) {
			let_go(pace, cost_ns, out_answer);
			return;
		}
		break;
	}
	if (deadline_ns == 0 || deadline_ns > now_ns + LOOK_NS)
		deadline_ns = now_ns + LOOK_NS;
	answer_wait(pace, hold, PACE_INFLIGHT, deadline_ns, now_ns, out_answer);
}

void pace_settle(struct pace *pace, int64_t ns)
{
	if (ns > 0)
		pace_bucket_take(&own(pace)->unmeasured_ns, ns);
}

/* The second under way, and what was busy in the one before it. One thread moves it on. */
static void count_second(struct pace_slot *slot, int64_t now_ns)
{
	uint64_t began = __atomic_load_n(&slot->second_ns, __ATOMIC_RELAXED);
	uint64_t busy_ns, before_ns;
	int64_t past_ns = now_ns - (int64_t)began;

	if (past_ns >= 0 && past_ns < NSEC_PER_SEC)
		return;
	if (!__atomic_compare_exchange_n(&slot->second_ns, &began, (uint64_t)now_ns, false,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	busy_ns = __atomic_load_n(&slot->busy_ns, __ATOMIC_RELAXED);
	before_ns = __atomic_exchange_n(&slot->second_busy_ns, busy_ns, __ATOMIC_RELAXED);
	if (past_ns <= 0)
		past_ns = NSEC_PER_SEC;
	__atomic_store_n(&slot->second_share_ns,
			 (uint64_t)((double)(busy_ns - before_ns) * (double)NSEC_PER_SEC /
				    (double)past_ns),
			 __ATOMIC_RELAXED);
}

void pace_debit(struct pace *pace, uint32_t share_pct, int64_t ns, int64_t now_ns)
{
	count_second(own(pace), now_ns);
	if (ns <= 0)
		return;
	pace_bucket_add(&own(pace)->busy_ns, ns);
	if (share_pct > 0 && share_pct < PACE_NO_LIMIT_PCT)
		pace_bucket_change(pace, share_pct,
				   pace_cap_ns(share_pct) + pace_bucket_saving_ns(share_pct) +
					   pace_bucket_flight(pace).unmeasured_ns,
				   ns, now_ns);
}

void pace_unfinished(struct pace *pace, int64_t ns)
{
	if (ns > 0) {
		pace_bucket_mark(pace);
		pace_bucket_add(&own(pace)->unfinished_ns, ns);
	} else if (ns < 0) {
		pace_bucket_take(&own(pace)->unfinished_ns, -ns);
	}
}

void pace_forgive(struct pace *pace, uint32_t share_pct, int64_t ns, int64_t now_ns)
{
	if (ns > 0 && share_pct > 0 && share_pct < PACE_NO_LIMIT_PCT)
		pace_bucket_change(pace, share_pct, pace_cap_ns(share_pct), -ns, now_ns);
}

void pace_late(struct pace *pace, int64_t ns)
{
	uint64_t was = __atomic_load_n(&pace->device->late_ns, __ATOMIC_RELAXED);

	/* A word of another age or another's fault begins anew. */
	if (was && pace_bucket_word_ns(&pace->device->late_ns) == 0)
		__atomic_compare_exchange_n(&pace->device->late_ns, &was, 0, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	if (ns > 0)
		pace_bucket_add(&pace->device->late_ns, ns);
	else if (ns < 0)
		pace_bucket_take(&pace->device->late_ns, -ns);
}

int64_t pace_late_ns(const struct pace *pace)
{
	return pace_bucket_word_ns(&pace->device->late_ns);
}

void pace_overlap(struct pace *pace, int64_t busy_ns, int64_t cost_ns)
{
	uint64_t *word = &own(pace)->overlap, old = __atomic_load_n(word, __ATOMIC_RELAXED);
	uint64_t busy = old >> PACE_BUCKET_OVERLAP_BITS, cost = old & UINT32_MAX;

	/* The caller's lock orders its own; another process has another slot. */
	busy += (uint64_t)clock_most_ns(busy_ns, 0) / OVERLAP_UNIT_NS;
	cost += (uint64_t)clock_most_ns(cost_ns, 0) / OVERLAP_UNIT_NS;
	while (cost > OVERLAP_SPAN) {
		busy /= 2;
		cost /= 2;
	}
	if (busy > UINT32_MAX)
		busy = UINT32_MAX;
	__atomic_store_n(word, busy << PACE_BUCKET_OVERLAP_BITS | cost, __ATOMIC_RELAXED);
}

unsigned pace_processes(const struct pace *pace)
{
	unsigned count = 0;

	for (unsigned i = 0; i < PACE_SLOTS / 64; i++)
		count += (unsigned)__builtin_popcountll(
			__atomic_load_n(&pace->device->active[i], __ATOMIC_RELAXED));
	return count;
}

bool pace_is_alone(const struct pace *pace)
{
	uint64_t words = __atomic_load_n(&pace->device->active_words, __ATOMIC_ACQUIRE) &
			 PACE_BUCKET_WORDS;

	for (; words; words &= words - 1) {
		unsigned i = (unsigned)__builtin_ctzll(words);
		uint64_t bits = __atomic_load_n(&pace->device->active[i], __ATOMIC_ACQUIRE);

		for (; bits; bits &= bits - 1) {
			unsigned slot = i * 64 + (unsigned)__builtin_ctzll(bits);

			if (slot != pace->slot &&
			    pace_bucket_word_ns(&pace->device->slots[slot].unmeasured_ns) > 0)
				return false;
		}
	}
	return true;
}

void pace_progress(struct pace *pace, int64_t now_ns)
{
	__atomic_store_n(&pace->device->progress_ns, (uint64_t)now_ns, __ATOMIC_RELAXED);
}

bool pace_has_let(const struct pace *pace, int64_t since_ns)
{
	return (int64_t)__atomic_load_n(&pace->device->let_ns, __ATOMIC_RELAXED) >= since_ns;
}

void pace_held(struct pace *pace, int64_t ns)
{
	if (ns > 0)
		pace_bucket_add(&own(pace)->held_ns, ns);
}

void pace_await(struct pace *pace, bool is_awaited)
{
	__atomic_store_n(&pace->is_awaited, is_awaited, __ATOMIC_RELAXED);
}

bool pace_is_awaited(const struct pace *pace)
{
	return __atomic_load_n(&pace->is_awaited, __ATOMIC_RELAXED);
}

void pace_change(struct pace *pace)
{
	__atomic_fetch_add(&pace->device->change, 1, __ATOMIC_RELEASE);
}
