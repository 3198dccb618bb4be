#include "core/spare.h"

/* A launch that has markers is followed by so many that have none. */
enum { SPARED = 7 };
/* So many launches in a row have a wait each before that. */
enum { RUN = 8 };
/* What is usual is known after so many, and follows by such a part. */
enum { CHECKED = 8, EXTRA_PART = 8 };
/* So long after a launch was held, all have markers. */
#define HELD_NS (100 * NSEC_PER_MSEC)

struct lane *spare_lane(struct meter *meter, const struct meter_thread *thread, uint64_t context)
{
	struct lane *lane = thread->asked;

	if (!lane || __atomic_load_n(&lane->owner, __ATOMIC_RELAXED) != thread->id ||
	    meter_context_of(meter, lane) != context)
		return NULL;
	return lane;
}

struct lane *spare_lane_at(const struct meter_thread *thread, const struct marker_point *point)
{
	struct lane *lane = thread->asked;

	for (unsigned i = 0; lane && i < REPLAY_LANES; i++)
		if (lane == &point->stream->lanes[i] &&
		    __atomic_load_n(&lane->owner, __ATOMIC_RELAXED) == thread->id &&
		    lane->cost_ns == point->point.cost_ns[i])
			return lane;
	return NULL;
}

/* Nor does anything else on the device change what launches take. */
static bool is_far_from_limit(const struct meter *meter, int64_t now_ns)
{
	int64_t held_ns = __atomic_load_n(&meter->held_ns, __ATOMIC_RELAXED);

	return !__atomic_load_n(&meter->is_tight, __ATOMIC_RELAXED) &&
	       !__atomic_load_n(&meter->is_linked, __ATOMIC_RELAXED) &&
	       (held_ns == 0 || now_ns - held_ns > HELD_NS) && !crowd_is_likely(&meter->crowd) &&
	       pace_is_alone(&meter->pace);
}

bool spare_begin(const struct meter *meter, struct lane *lane, struct means_entry *work,
		 int64_t now_ns)
{
	struct lane_spare *spare = &lane->spare;

	spare->steady = means_is_steady(work) ? spare->steady + 1 : 0;
	if (spare->left <= 0) {
		spare->left = spare->left < 0 ? spare->left + 1 : SPARED;
		return false;
	}
	if (spare->run < RUN || spare->waited != lane->launches || !means_is_steady(work) ||
	    means_may_wait(work) || !is_far_from_limit(meter, now_ns))
		return false;
	spare->left--;
	spare->work = work;
	return true;
}

bool spare_may_pass(const struct meter *meter, const struct lane *lane)
{
	return !lane->spare.work && lane->spare.steady >= RUN &&
	       lane->spare.waited != lane->launches &&
	       meter_wait_is_spare(meter, lane, INT64_MAX, lane->last_ns);
}

void spare_check(struct lane *lane, int64_t span_ns)
{
	struct lane_spare *spare = &lane->spare;
	int64_t mean_ns = means_cost_ns(spare->work);
	int64_t apart_ns = span_ns - mean_ns - spare->extra_ns;

	spare->work = NULL;
	/* It returned at once, is another launch's, or for several: it tells nothing. */
	if (spare->run == 0) {
		spare->left = -SPARED;
		return;
	}
	if (spare->checked < CHECKED) {
		spare->extra_ns += apart_ns / ++spare->checked;
		return;
	}
	if (!means_is_apart(apart_ns, mean_ns)) {
		spare->extra_ns += apart_ns / EXTRA_PART;
		return;
	}
	/* By as much as is usual, so that it follows where all are late. */
	spare->extra_ns += (apart_ns > 0 ? 1 : -1) * (mean_ns + MEANS_APART_NS) / EXTRA_PART;
	spare->left = 0;
}
