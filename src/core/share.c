#include "core/share.h"

#include "base/process.h"
#include "core/limit.h"
#include "core/quota.h"

struct share_state {
	/* Constant after share_init(). */
	struct region *region;
	struct limit limit;   /* atomic */
	_Atomic bool is_held; /* whether limits hold, as seen last; atomic */
};
PROCESS_STATE(share_state, state);

void share_init(struct region *region)
{
	process_wipe_on_fork(&state, sizeof(state));
	state.s.region = region;
	limit_init(&state.s.limit, region, LIMITS_SM);
	atomic_store(&state.s.is_held, region_sm_holds(region->hami, region->own));
}

unsigned share_limit_pct(struct dev dev, int64_t now_ns)
{
	return (unsigned)limit_now(&state.s.limit, dev, quota_has_region(now_ns));
}

bool share_in_force(struct dev dev, int64_t now_ns)
{
	bool has_region = quota_has_region(now_ns);

	if (has_region)
		atomic_store_explicit(&state.s.is_held,
				      region_sm_holds(state.s.region->hami, state.s.region->own),
				      memory_order_relaxed);
	return limit_now(&state.s.limit, dev, has_region) > 0 &&
	       atomic_load_explicit(&state.s.is_held, memory_order_relaxed);
}
