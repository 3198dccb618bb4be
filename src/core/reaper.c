#include "core/reaper.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "base/sys.h"
#include "core/quota.h"
#include "core/root.h"
#include "shm/slot.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

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

	return quota_has_region(clock_now_ns()) ? slot_reap(what->region, what->own) : -ENODEV;
}

void reaper_reap(struct region *r, int own)
{
	struct reaping what = { r, own };
	int held = sys_cancel_hold();
	int rc = root_do(reap, &what);

	process_wipe_on_fork(&state, sizeof(state));
	if (rc < 0)
		quota_check_path();
	if (rc < 0 && quota_has_region(clock_now_ns()) &&
	    !atomic_exchange(&state.s.has_complained, true))
		log_warn(
			"region %s cannot be opened again (%s): what processes that die hold stays "
			"counted",
			r->path, strerror(-rc));
	sys_cancel_release(held);
}
