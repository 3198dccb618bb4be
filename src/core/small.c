#include "core/small.h"

#include "base/clock.h"
#include "base/process.h"
#include "base/turn.h"
#include "core/doubt.h"
#include "core/library.h"
#include "core/module.h"
#include "core/quota.h"
#include "core/track.h"

#include <errno.h>
#include <stdatomic.h>

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

static bool has_any(struct dev dev)
{
	return track_has_small(dev) || module_any(dev) || library_any(dev);
}

void small_note_code(struct dev dev)
{
	if (has_any(dev))
		quota_keep_block(dev, true);
}

void small_settle(struct dev dev)
{
	if (has_any(dev))
		return;
	quota_keep_block(dev, false);
	/* Another thread's may have come into the books since. */
	if (has_any(dev))
		quota_keep_block(dev, true);
}

int small_hope(struct dev dev, bool is_object)
{
	struct turn *turn = &state.s.turn[dev.v];
	int rc;

	if (!(is_object ? track_has_small(dev) : track_has_block(dev)) ||
	    !turn_take(turn, HOPE_WAIT_NS))
		return -EDQUOT;
	rc = DOUBT_TRY(dev, TRACK_BLOCK_BYTES, quota_doubt(dev, QUOTA_DATA, TRACK_BLOCK_BYTES));
	if (rc < 0)
		turn_give(turn);
	return rc;
}

bool small_may_stay(struct dev dev, uint64_t doubted_bytes)
{
	return doubt_left_at_best(dev, doubted_bytes) >= quota_kept(dev);
}

void small_over(struct dev dev, uint64_t used_bytes)
{
	quota_doubt_over(dev, QUOTA_DATA, TRACK_BLOCK_BYTES, TRACK_BLOCK_BYTES - used_bytes);
	turn_give(&state.s.turn[dev.v]);
}
