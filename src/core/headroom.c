#include "core/headroom.h"

#include <stdatomic.h>

/* One word has both, so that they are of one moment: ticks of HEADROOM_NS above, MiB below. */
enum { TICK_SHIFT = 17, MIB_BITS = 24 };
#define MIB_MAX ((UINT64_C(1) << MIB_BITS) - 1)

_Static_assert(HEADROOM_NS == INT64_C(1) << TICK_SHIFT, "ticks are told apart by a shift");

/* Of the card, not of the process: a fork child may go on with it. */
static struct {
	_Atomic uint64_t free;        /* 0: not known; atomic */
	_Atomic uint64_t total_bytes; /* written before `free`; atomic */
} cards[RATION_DEVICES];

static uint64_t tick(int64_t now_ns)
{
	return (uint64_t)now_ns >> TICK_SHIFT << MIB_BITS;
}

void headroom_note(struct dev dev, uint64_t free_bytes, uint64_t total_bytes, int64_t now_ns)
{
	uint64_t mib = free_bytes >> 20;

	atomic_store_explicit(&cards[dev.v].total_bytes, total_bytes, memory_order_relaxed);
	atomic_store_explicit(&cards[dev.v].free, tick(now_ns) | (mib < MIB_MAX ? mib : MIB_MAX),
			      memory_order_release);
}

bool headroom_covers(struct dev dev, uint64_t bytes, int64_t now_ns, uint64_t *out_total_bytes)
{
	uint64_t word = atomic_load_explicit(&cards[dev.v].free, memory_order_acquire);

	if (word == 0 || (word & ~MIB_MAX) != tick(now_ns) || (word & MIB_MAX) << 20 < bytes)
		return false;
	*out_total_bytes = atomic_load_explicit(&cards[dev.v].total_bytes, memory_order_relaxed);
	return true;
}
