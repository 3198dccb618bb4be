#include "core/others.h"

#include "base/clock.h"
#include "base/process.h"
#include "core/quota.h"
#include "shm/residency.h"

/* Their workers look ten times a second, on a card with many processes less often. */
#define WAIT_NS (400 * NSEC_PER_MSEC)
#define NAP_NS (2 * NSEC_PER_MSEC)

struct others_state {
	/* constant after others_init() */
	struct ration_region *own;
	unsigned slot;
};
PROCESS_STATE(others_state, state);

void others_init(struct region *region, unsigned slot)
{
	process_wipe_on_fork(&state, sizeof(state));
	state.s.own = region->own;
	state.s.slot = slot;
}

bool others_give(struct dev dev)
{
	struct ration_region *own = state.s.own;
	int64_t until_ns = clock_now_ns() + WAIT_NS;
	uint64_t before, now;

	if (!own || !quota_has_region(clock_now_ns()))
		return false;
	before = residency_idle_but(own, state.s.slot, dev.v);
	if (!before)
		return false;
	/* What the dead kept comes with the rest of theirs. */
	quota_reap();
	__atomic_fetch_add(&own->room_wanted, 1, __ATOMIC_RELEASE);
	while ((now = residency_idle_but(own, state.s.slot, dev.v)) && clock_now_ns() < until_ns) {
		clock_sleep_ns(NAP_NS);
		if (!quota_has_region(clock_now_ns()))
			return false;
	}
	return now < before;
}
