#include "core/pace_turn.h"

#include "base/clock.h"

/* The device turns to a process in so long; no turn is longer than the second. */
#define BEGIN_NS (150 * NSEC_PER_USEC)
#define MOST_NS (10 * NSEC_PER_MSEC)
/* The word: the end of the turn, in us, above the slot. */
enum { SLOT_BITS = 10 };
/* Who sleeps until some moment is there by so much after it; others wait from a little before. */
#define LATE_NS (2 * NSEC_PER_MSEC)
#define EARLY_NS (200 * NSEC_PER_USEC)
/* Who is held for less goes when it can: each turn to another process costs the device time. */
#define PATIENT_NS (15 * NSEC_PER_MSEC)
/* Who has the turn goes on in it until another is held for so long. */
#define DUE_NS (15 * NSEC_PER_MSEC)
/* But for so long: where many wait all are due. */
#define LEAST_NS (2 * NSEC_PER_MSEC)
/* No hold is longer before it asks again: what is further away is of another age. */
#define FAR_NS NSEC_PER_SEC
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

static int64_t until_ns(const struct pace *pace)
{
	return (int64_t)__atomic_load_n(&pace->device->first_ns, __ATOMIC_RELAXED);
}

/* Who is first, if it may still come; 0: nobody. */
static uint64_t first(const struct pace *pace, int64_t now_ns)
{
	uint64_t word = __atomic_load_n(&pace->device->first, __ATOMIC_RELAXED);
	int64_t left_ns = until_ns(pace) - now_ns;

	return left_ns > 0 && left_ns < FAR_NS ? word : 0;
}

static int64_t held_since_ns(uint64_t first)
{
	return (int64_t)(first >> SLOT_BITS) * NSEC_PER_USEC;
}

/* Somebody else has been held for so long that this process's turn is not to go on. */
static bool is_other_due(const struct pace *pace, int64_t now_ns)
{
	int64_t began_ns = __atomic_load_n(&pace->turn_ns, __ATOMIC_RELAXED);
	uint64_t was = first(pace, now_ns);

	return was && !is_own(pace, was) && now_ns - held_since_ns(was) >= DUE_NS &&
	       now_ns - began_ns >= LEAST_NS;
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
		if (is_own(pace, old) && !is_over(old, now_ns) && is_other_due(pace, now_ns))
			return false;
		end_ns = (is_over(old, now_ns) ? now_ns + BEGIN_NS : end_of(old)) + ns;
		if (end_ns > now_ns + MOST_NS)
			end_ns = now_ns + MOST_NS;
		new = (uint64_t)(end_ns / NSEC_PER_USEC) << SLOT_BITS | pace->slot;
	} while (!__atomic_compare_exchange_n(&pace->device->turn, &old, new, true,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	if (!is_own(pace, old) || is_over(old, now_ns))
		__atomic_store_n(&pace->turn_ns, now_ns, __ATOMIC_RELAXED);
	return !is_own(pace, old) && now_ns - end_of(old) < NSEC_PER_SEC;
}

void pace_turn_wait(struct pace *pace, int64_t since_ns, int64_t wake_ns, int64_t now_ns)
{
	uint64_t own = (uint64_t)(since_ns / NSEC_PER_USEC) << SLOT_BITS | pace->slot;
	uint64_t was = first(pace, now_ns);

	if (was && !is_own(pace, was) && held_since_ns(was) <= since_ns)
		return;
	/* Whichever comes last is first: the next look puts that right, or its time does. */
	__atomic_store_n(&pace->device->first_ns, (uint64_t)(wake_ns + LATE_NS), __ATOMIC_RELAXED);
	__atomic_store_n(&pace->device->first, own, __ATOMIC_RELAXED);
}

int64_t pace_turn_before_ns(const struct pace *pace, int64_t since_ns, int64_t now_ns)
{
	uint64_t was = first(pace, now_ns);
	uint64_t turn = __atomic_load_n(&pace->device->turn, __ATOMIC_RELAXED);
	int64_t end_ns = until_ns(pace);

	/* Who has the turn goes on in it. */
	if (is_own(pace, turn) && !is_over(turn, now_ns))
		return 0;
	if (!was || is_own(pace, was) || now_ns < end_ns - LATE_NS - EARLY_NS)
		return 0;
	if (now_ns - held_since_ns(was) < PATIENT_NS ||
	    (since_ns && held_since_ns(was) >= since_ns))
		return 0;
	return end_ns;
}

void pace_turn_go(struct pace *pace)
{
	uint64_t was = __atomic_load_n(&pace->device->first, __ATOMIC_RELAXED);

	if (was && is_own(pace, was))
		__atomic_compare_exchange_n(&pace->device->first, &was, 0, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
}
