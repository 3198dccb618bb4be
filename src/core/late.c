#include "core/late.h"

/*
 * A sixteenth more than usual is not late. An eighth more than what is debited is paid: with
 * more the partners drift apart while one has paid and the other has not; with less a wait is
 * paid for later.
 */
enum { USUAL_PART = 16, PAID_PART = 8 };

void late_settle(struct pace *pace, int64_t busy_ns, int64_t cost_ns, bool may_wait)
{
	int64_t late_ns = pace_late_ns(pace), usual_ns = cost_ns + cost_ns / USUAL_PART;

	if (!may_wait || usual_ns > busy_ns)
		usual_ns = busy_ns;
	if (busy_ns > usual_ns)
		pace_late(pace, busy_ns - usual_ns);
	if (late_ns > 0)
		pace_late(pace, -(usual_ns / PAID_PART));
}
