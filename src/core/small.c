#include "core/small.h"

#include "base/clock.h"
#include "base/process.h"
#include "base/turn.h"
#include "core/doubt.h"
#include "core/quota.h"
#include "core/track.h"

#include <errno.h>

/* How long a request waits for its turn to look for room in open blocks. */
#define HOPE_WAIT_NS NSEC_PER_SEC

_Static_assert(QUOTA_KEPT_BYTES == TRACK_BLOCK_BYTES, "what is kept back is what a call may take");

struct small_state {
	struct turn turn[RATION_DEVICES]; /* to ask the driver for room */
};
PROCESS_STATE(small_state, state);

void small_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

void small_note(struct dev dev)
{
	quota_keep_block(dev, true);
}

void small_settle(struct dev dev)
{
	if (track_has_small(dev))
		return;
	quota_keep_block(dev, false);
	/* Another thread's may have come into the books since. */
	if (track_has_small(dev))
		quota_keep_block(dev, true);
}

int small_hope(struct dev dev, bool is_object)
{
	struct turn *turn = &state.s.turn[dev.v];
	int64_t end_ns = 0;
	int rc;

	if (!(is_object ? track_has_small(dev) : track_has_block(dev)) ||
	    !turn_take(turn, HOPE_WAIT_NS))
		return -EDQUOT;
	do
		rc = quota_doubt(dev, TRACK_BLOCK_BYTES);
	while (rc == -EDQUOT && doubt_await(dev, TRACK_BLOCK_BYTES, &end_ns));
	if (rc < 0)
		turn_give(turn);
	return rc;
}

bool small_may_stay(struct dev dev)
{
	return quota_left(dev) >= quota_kept(dev);
}

void small_over(struct dev dev, uint64_t used_bytes)
{
	quota_doubt_over(dev, TRACK_BLOCK_BYTES, TRACK_BLOCK_BYTES - used_bytes);
	turn_give(&state.s.turn[dev.v]);
}
