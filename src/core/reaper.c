#include "core/reaper.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "base/sys.h"
#include "core/presence.h"
#include "core/quota.h"
#include "core/root.h"
#include "shm/slot.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#define TICK_NS NSEC_PER_SEC

struct reaper_state {
	_Atomic bool has_complained; /* atomic */
};
PROCESS_STATE(reaper_state, state);

struct reaping {
	struct region *region;
	int own;
};

static int reap(void *arg)
{
	const struct reaping *what = arg;

	return quota_has_region_now() ? slot_reap(what->region, what->own) : -ENODEV;
}

int reaper_reap(struct region *r, int own)
{
	struct reaping what = { r, own };
	int held = sys_cancel_hold();
	int rc = root_do(reap, &what);

	process_wipe_on_fork(&state, sizeof(state));
	if (rc < 0)
		presence_check_path();
	if (rc < 0 && quota_has_region_now() && !atomic_exchange(&state.s.has_complained, true))
		log_warn(
			"region %s cannot be opened again (%s): what processes that die hold stays "
			"counted",
			r->path, strerror(-rc));
	sys_cancel_release(held);
	return rc;
}

/* True when somebody but slot `own` may have a slot. */
static bool has_others(const struct ration_region *r, int own)
{
	for (int i = 0; i < HAMI_SLOTS; i++)
		if (i != own && __atomic_load_n(&r->hint[i], __ATOMIC_RELAXED))
			return true;
	return false;
}

void reaper_tick(struct region *r, int own, int64_t now_ns)
{
	uint64_t last_ns, ago_ns;

	if (!quota_has_region(now_ns))
		return;
	last_ns = __atomic_load_n(&r->own->reaped_ns, __ATOMIC_RELAXED);
	/* One that lies ahead is of another boot or time namespace. */
	ago_ns = (uint64_t)now_ns - last_ns;
	if (ago_ns < (uint64_t)TICK_NS ||
	    !__atomic_compare_exchange_n(&r->own->reaped_ns, &last_ns, (uint64_t)now_ns, false,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	/* Who cannot leaves it to who can. */
	if (has_others(r->own, own) && reaper_reap(r, own) < 0)
		__atomic_store_n(&r->own->reaped_ns, last_ns, __ATOMIC_RELAXED);
}
