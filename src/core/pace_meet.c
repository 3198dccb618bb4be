#include "core/pace_meet.h"

#include "base/clock.h"
#include "core/pace_bucket.h"

/* A linked process that has not asked for so long is not waited for. */
#define LINKED_NS (10 * NSEC_PER_SEC)
/* Where neither of two devices has more that is late nobody waits for anybody: separate jobs. */
#define WAITED_NS (5 * NSEC_PER_MSEC)

/*
 * Of the tenant's other devices on which linked processes wait or are waited for: what is in the
 * bucket that has least, INT64_MAX when there is none; and until when one is in debt, 0: none is.
 */
static int64_t least_of_others_ns(struct pace *pace, int64_t now_ns, int64_t *out_until_ns)
{
	int64_t least_ns = INT64_MAX;
	bool have_waited = pace_late_ns(pace) > WAITED_NS;

	*out_until_ns = 0;
	for (unsigned i = 0; i < pace->count; i++) {
		struct pace other = { .device = &pace->all[i] };
		uint32_t pct = __atomic_load_n(&other.device->share_pct, __ATOMIC_RELAXED);
		int64_t asked_ns = (int64_t)__atomic_load_n(&other.device->linked_ns,
							    __ATOMIC_RELAXED);
		struct pace_flight flight;
		int64_t have_ns;

		if (other.device == pace->device || pct == 0 || pct >= PACE_NO_LIMIT_PCT ||
		    asked_ns < now_ns - LINKED_NS || asked_ns > now_ns + NSEC_PER_SEC ||
		    (!have_waited && pace_late_ns(&other) <= WAITED_NS))
			continue;
		flight = pace_bucket_flight(&other);
		have_ns = pace_bucket_fill(&other, pct, &flight, true, now_ns);
		if (have_ns < 0)
			*out_until_ns = clock_most_ns(*out_until_ns,
						      now_ns + pace_bucket_paid_after_ns(pct,
											 -have_ns));
		least_ns = clock_least_ns(least_ns, have_ns);
	}
	return least_ns;
}

void pace_meet_note(struct pace *pace, uint32_t share_pct, int64_t now_ns)
{
	__atomic_store_n(&pace->device->share_pct, share_pct, __ATOMIC_RELAXED);
	__atomic_store_n(&pace->device->linked_ns, (uint64_t)now_ns, __ATOMIC_RELAXED);
}

int64_t pace_meet_until_ns(struct pace *pace, struct pace_hold *hold, int64_t *inout_have_ns,
			   int64_t now_ns)
{
	int64_t until_ns, least_ns;

	if (!hold->is_linked)
		return 0;
	least_ns = least_of_others_ns(pace, now_ns, &until_ns);
	/* A limit that was raised is paid sooner; a debt that grew is not waited for. */
	if (!hold->has_met || until_ns < hold->meet_ns)
		hold->meet_ns = until_ns;
	hold->has_met = true;
	*inout_have_ns = clock_least_ns(*inout_have_ns, clock_most_ns(least_ns, 0));
	return hold->meet_ns > now_ns ? hold->meet_ns : 0;
}
