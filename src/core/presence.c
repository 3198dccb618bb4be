#include "core/presence.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "core/root.h"

#include <errno.h>
#include <stdatomic.h>

/* How long a region's file that was as long as it should be is taken for that. */
#define CHECK_EVERY_NS NSEC_PER_MSEC

struct presence_state {
	struct region *region;      /* constant after presence_init() */
	_Atomic bool is_lost;       /* atomic */
	_Atomic int64_t checked_ns; /* when it was looked at last, 0 = never; atomic */
};
PROCESS_STATE(presence_state, state);

void presence_init(struct region *region)
{
	process_wipe_on_fork(&state, sizeof(state));
	state.s.region = region;
}

void presence_lose(void)
{
	if (!atomic_exchange(&state.s.is_lost, true))
		log_error("region %s: somebody cleared, removed or replaced it; no more memory is "
			  "given",
			  state.s.region->path);
}

bool presence_is_lost(void)
{
	return atomic_load_explicit(&state.s.is_lost, memory_order_relaxed);
}

bool presence_is_there(int64_t now_ns)
{
	int64_t last_ns = atomic_load_explicit(&state.s.checked_ns, memory_order_relaxed);
	int rc;

	if (!state.s.region || presence_is_lost())
		return false;
	if (last_ns && now_ns - last_ns < CHECK_EVERY_NS) {
		rc = region_check_words(state.s.region);
	} else {
		rc = region_check(state.s.region);
		atomic_store_explicit(&state.s.checked_ns, now_ns, memory_order_relaxed);
	}
	if (rc < 0)
		presence_lose();
	return rc == 0;
}

static int check_path(void *arg)
{
	return region_check_path(arg);
}

void presence_check_path(void)
{
	if (presence_is_there(clock_now_ns()) && root_do(check_path, state.s.region) == -ESTALE)
		presence_lose();
}
