#include "core/pace_turn.h"

#include "base/clock.h"

/* The device turns to a process in so long; no turn is longer than the second. */
#define BEGIN_NS (150 * NSEC_PER_USEC)
#define MOST_NS (10 * NSEC_PER_MSEC)
/* The word: the end of the turn, in us, above the slot. */
enum { SLOT_BITS = 10 };
_Static_assert(PACE_SLOTS == 1 << SLOT_BITS, "a slot has its place in the word");

static int64_t end_of(uint64_t turn)
{
	uint64_t us = turn >> SLOT_BITS;

	return us < INT64_MAX / NSEC_PER_USEC ? (int64_t)us * NSEC_PER_USEC : 0;
}

/* Over; or it would be too long, and is of another age. */
static bool is_over(uint64_t turn, int64_t now_ns)
{
	return end_of(turn) <= now_ns || end_of(turn) - now_ns > MOST_NS;
}

static bool is_own(const struct pace *pace, uint64_t turn)
{
	return turn % PACE_SLOTS == pace->slot;
}

int64_t pace_turn_others_ns(const struct pace *pace, int64_t now_ns)
{
	uint64_t turn = __atomic_load_n(&pace->device->turn, __ATOMIC_RELAXED);

	return is_own(pace, turn) || is_over(turn, now_ns) ? 0 : end_of(turn);
}

bool pace_turn_extend(struct pace *pace, int64_t ns, int64_t now_ns)
{
	uint64_t old = __atomic_load_n(&pace->device->turn, __ATOMIC_RELAXED), new;
	int64_t end_ns;

	do {
		if (!is_own(pace, old) && !is_over(old, now_ns))
			return true;
		end_ns = (is_over(old, now_ns) ? now_ns + BEGIN_NS : end_of(old)) + ns;
		if (end_ns > now_ns + MOST_NS)
			end_ns = now_ns + MOST_NS;
		new = (uint64_t)(end_ns / NSEC_PER_USEC) << SLOT_BITS | pace->slot;
	} while (!__atomic_compare_exchange_n(&pace->device->turn, &old, new, true,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return !is_own(pace, old) && now_ns - end_of(old) < NSEC_PER_SEC;
}
