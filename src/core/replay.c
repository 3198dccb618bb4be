#include "core/replay.h"

#include "base/clock.h"
#include "shm/busy_ring.h"

/* What was laid out may differ from what was predicted by so much before it is forgotten. */
#define BALANCE_NS INT64_C(200000)
/* Gaps of up to so much between queued launches count as busy. */
#define GAP_NS INT64_C(2000)

/*
 * What a launch that may have found its stream dry took longer than predicted, of so much: another
 * process had its turn before it began. Turns of an H200 are 2.3 ms.
 */
#define TURN_LEAST_NS INT64_C(500000)
#define TURN_MOST_NS INT64_C(3500000)
/*
 * Kernels that take longer at times look the same: it is told so seldom that they hardly gain by it, of
 * all streams and processes of the tenant together, since they can take turns.
 * A card was seen to lose some six turns a second so.
 */
#define TURN_APART_NS (100 * NSEC_PER_MSEC)

/* A run of launches without a pause in it. */
struct run {
	int64_t submit_ns;
	int64_t cost_ns;
};

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* The lane's next run before cost `until`; false when there is none. Does not take it. */
static bool next_run(const struct lane *lane, uint64_t until, struct run *out)
{
	uint32_t head = __atomic_load_n(&lane->head, __ATOMIC_ACQUIRE);
	const struct lane_start *at = &lane->starts[lane->tail % LANE_STARTS];
	uint64_t end = until;

	if (lane->done_ns >= until)
		return false;
	out->submit_ns = INT64_MIN / 2;
	/* Without a start of its own it follows what was laid out before. */
	if (lane->tail != head && at->before_ns <= lane->done_ns) {
		if (at->before_ns == lane->done_ns)
			out->submit_ns = at->submit_ns;
		if (lane->tail + 1 != head)
			end = least(until, lane->starts[(lane->tail + 1) % LANE_STARTS].before_ns);
	} else if (lane->tail != head) {
		end = least(until, at->before_ns);
	}
	out->cost_ns = (int64_t)(end - lane->done_ns);
	return true;
}

/* Takes `cost_ns` off the lane and drops the starts that are behind it. */
static void take_run(struct lane *lane, int64_t cost_ns)
{
	uint32_t head = __atomic_load_n(&lane->head, __ATOMIC_ACQUIRE), tail = lane->tail;

	lane->done_ns += (uint64_t)cost_ns;
	while (tail + 1 != head && tail != head &&
	       lane->starts[(tail + 1) % LANE_STARTS].before_ns <= lane->done_ns)
		tail++;
	__atomic_store_n(&lane->tail, tail, __ATOMIC_RELEASE);
}

/* The lane whose next run was submitted first; -1 when nothing is left. */
static int first_lane(const struct replay *replay, const struct replay_point *point,
		      struct run *out)
{
	struct run run;
	int first = -1;

	for (int i = 0; i < REPLAY_LANES; i++) {
		if (!next_run(&replay->lanes[i], point->cost_ns[i], &run))
			continue;
		if (first < 0 || run.submit_ns < out->submit_ns) {
			first = i;
			*out = run;
		}
	}
	return first;
}

/* As first_lane(), after lane `last`; the common stream has one lane with work, which is found out once. */
static int next_lane(const struct replay *replay, const struct replay_point *point, int last,
		     int *is_single, struct run *out)
{
	if (*is_single < 0) {
		*is_single = 1;
		for (int i = 0; i < REPLAY_LANES; i++)
			if (i != last && replay->lanes[i].done_ns < point->cost_ns[i])
				*is_single = 0;
	}
	if (*is_single)
		return next_run(&replay->lanes[last], point->cost_ns[last], out) ? last : -1;
	return first_lane(replay, point, out);
}

/* The part of [begin, end) that lies before `certain`, entered; adds its length to *laid_ns. */
static int64_t lay(const struct replay *replay, int64_t begin_ns, int64_t end_ns,
		   int64_t certain_ns, int64_t *laid_ns)
{
	end_ns = earlier(end_ns, certain_ns);
	if (end_ns <= begin_ns)
		return 0;
	*laid_ns += end_ns - begin_ns;
	return busy_ring_set(replay->ring, begin_ns, end_ns);
}

/*
 * When work began that was submitted at submit_ns and took span_ns; what was before it in the stream
 * had ended at at_ns. Beside others it waits for them, and how long cannot be told from a start.
 */
static int64_t begin_of(const struct replay *replay, int64_t at_ns, int64_t submit_ns,
			int64_t span_ns)
{
	if (submit_ns <= at_ns)
		return at_ns;
	return replay->is_alone ? submit_ns + replay_lead_ns(span_ns) : submit_ns;
}

/* What is left of the lanes, by prediction. */
static int64_t left_ns(const struct replay *replay, const struct replay_point *point)
{
	int64_t sum_ns = 0;

	for (int i = 0; i < REPLAY_LANES; i++)
		if (replay->lanes[i].done_ns < point->cost_ns[i])
			sum_ns += (int64_t)(point->cost_ns[i] - replay->lanes[i].done_ns);
	return sum_ns;
}

/*
 * Another process of the tenant counts its turns itself; and launches are long enough for a wait to
 * be told from what they take.
 */
static bool may_wait_for_turn(const struct replay *replay, const struct replay_point *point,
			      uint32_t launches)
{
	return replay->is_crowded && replay->is_alone && launches > 0 &&
	       left_ns(replay, point) / launches >= LANE_LONG_NS;
}

/* It was told of the tenant so near to this end; another process's may be later. */
static bool is_told(const struct replay *replay, int64_t end_ns)
{
	int64_t apart_ns = end_ns - replay->turn_ns;

	return replay->turn_ns && apart_ns < TURN_APART_NS && apart_ns > -TURN_APART_NS;
}

/*
 * How much later than begin_ns the run began: where others use the device it turns to them the
 * moment that the stream is dry, and the launch waits for its turn. That is not its time.
 */
static int64_t turn_ns(const struct replay *replay, const struct replay_point *point,
		       const struct run *run, int64_t at_ns, int64_t begin_ns, int64_t end_ns)
{
	int64_t over_ns;

	if ((!replay->is_dry && run->submit_ns + LANE_NEAR_NS < at_ns) || is_told(replay, end_ns))
		return 0;
	over_ns = end_ns - begin_ns - left_ns(replay, point);
	return over_ns > TURN_LEAST_NS && over_ns < TURN_MOST_NS ? over_ns : 0;
}

/* What is over by no more than the gaps between the launches may be is not over. */
static void keep_balance(int64_t *balance_ns, int64_t over_ns, int64_t gaps_ns)
{
	if (over_ns > 0)
		over_ns = later(over_ns - gaps_ns, 0);
	*balance_ns = later(earlier(*balance_ns + over_ns, BALANCE_NS), -BALANCE_NS);
}

struct replay_result replay_run(const struct replay *replay, const struct replay_point *point,
				bool is_exact, int64_t end_ns, uint32_t launches,
				int64_t *balance_ns)
{
	int64_t at_ns = replay->from_ns, busy_ns = 0, cost_ns = 0, laid_ns = 0;
	int64_t certain_ns = end_ns, over_ns = replay->is_alone ? later(*balance_ns, 0) : 0;
	struct run run = { 0, 0 };
	bool may_wait = is_exact && may_wait_for_turn(replay, point, launches);
	int64_t waited_ns = 0;
	int i, is_single = -1;

	if (is_exact)
		certain_ns = earlier(begin_of(replay, at_ns, point->last_ns,
					      end_ns - point->last_ns),
				     end_ns);
	for (i = first_lane(replay, point, &run); i >= 0;
	     i = next_lane(replay, point, i, &is_single, &run)) {
		int64_t begin_ns = begin_of(replay, at_ns, run.submit_ns, run.cost_ns);
		int64_t cut_ns = earlier(over_ns, run.cost_ns);

		if (may_wait && !waited_ns) {
			waited_ns = turn_ns(replay, point, &run, at_ns, begin_ns, end_ns);
			begin_ns += waited_ns;
			certain_ns = later(certain_ns, begin_ns);
		}
		at_ns = begin_ns + run.cost_ns - cut_ns;
		over_ns -= cut_ns;
		busy_ns += lay(replay, begin_ns, at_ns, certain_ns, &laid_ns);
		cost_ns += run.cost_ns;
		take_run(&replay->lanes[i], run.cost_ns);
	}
	at_ns = earlier(at_ns, end_ns);
	if (is_exact && cost_ns > 0) {
		busy_ns += lay(replay, certain_ns, end_ns, end_ns, &laid_ns);
		at_ns = end_ns;
	}
	if (replay->is_alone)
		keep_balance(balance_ns, laid_ns - cost_ns, (int64_t)launches * GAP_NS);
	return (struct replay_result){ .busy_ns = busy_ns,
				       .cost_ns = cost_ns,
				       .end_ns = later(at_ns, replay->from_ns),
				       .has_waited = waited_ns > 0 };
}
