#include "core/late.h"

#include "base/clock.h"

/*
 * So much more than usual is not late: a sixteenth. Of what is debited an eighth more is paid,
 * and as much again as it is for each second that is late. With a larger eighth partners drift
 * apart while one has paid and the other has not; with less for a second the limit is passed for
 * longer.
 */
enum { USUAL_PART = 16, PAID_PART = 8 };
#define PAID_WHOLE_NS NSEC_PER_SEC

int64_t late_settle(struct pace *pace, int64_t busy_ns, int64_t cost_ns, bool may_wait)
{
	bool is_awaited = pace_is_awaited(pace);
	int64_t late_ns = pace_late_ns(pace), usual_ns = busy_ns, more_ns, put_off_ns, room_ns;

	if (may_wait)
		usual_ns = clock_least_ns(cost_ns + cost_ns / USUAL_PART, busy_ns);
	more_ns = busy_ns - usual_ns;
	put_off_ns = may_wait && is_awaited ? busy_ns : more_ns;
	room_ns = late_ns < LATE_MOST_NS ? LATE_MOST_NS - late_ns : 0;
	pace_late(pace, clock_least_ns(put_off_ns, room_ns));
	if (late_ns > 0 && !is_awaited)
		pace_late(pace,
			  -(usual_ns / PAID_PART +
			    (int64_t)((double)usual_ns * (double)late_ns / (double)PAID_WHOLE_NS)));
	/* What it usually takes is paid in any case: it was no wait. */
	return clock_least_ns(more_ns, put_off_ns > room_ns ? put_off_ns - room_ns : 0);
}
