#include "core/pace_bucket.h"

#include "base/clock.h"
#include "base/pair.h"

#define PERCENT 100
#define CAP_SPAN_NS (50 * NSEC_PER_MSEC)
#define CAP_NS (5 * NSEC_PER_MSEC)
/* Words of another age or another's fault are read as no more than this: an hour of the GPU. */
#define WORD_NS (3600 * NSEC_PER_SEC)
enum { OVERLAP_LEAST_PART = 64 };

int64_t pace_bucket_word_ns(const uint64_t *word)
{
	uint64_t ns = __atomic_load_n(word, __ATOMIC_RELAXED);

	return ns <= (uint64_t)WORD_NS ? (int64_t)ns : 0;
}

void pace_bucket_add(uint64_t *word, int64_t ns)
{
	__atomic_fetch_add(word, (uint64_t)ns, __ATOMIC_RELAXED);
}

void pace_bucket_take(uint64_t *word, int64_t ns)
{
	uint64_t have = __atomic_load_n(word, __ATOMIC_RELAXED), left;

	do {
		left = have > (uint64_t)ns && have <= (uint64_t)WORD_NS ? have - (uint64_t)ns : 0;
	} while (!__atomic_compare_exchange_n(word, &have, left, true, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
}

void pace_bucket_mark(struct pace *pace)
{
	uint64_t bit = UINT64_C(1) << pace->slot % 64;
	uint64_t *word = &pace->device->active[pace->slot / 64];

	if (__atomic_load_n(word, __ATOMIC_RELAXED) & bit)
		return;
	__atomic_fetch_or(&pace->device->active_words, UINT64_C(1) << pace->slot / 64,
			  __ATOMIC_RELEASE);
	__atomic_fetch_or(word, bit, __ATOMIC_RELEASE);
}

int64_t pace_cap_ns(uint32_t share_pct)
{
	return clock_least_ns(CAP_SPAN_NS * share_pct / PERCENT, CAP_NS);
}

int64_t pace_bucket_saving_ns(uint32_t share_pct)
{
	return CAP_SPAN_NS * share_pct / PERCENT * (PERCENT - share_pct) / PERCENT;
}

int64_t pace_bucket_overlap(const struct pace_slot *slot)
{
	uint64_t word = __atomic_load_n(&slot->overlap, __ATOMIC_RELAXED);
	uint64_t busy = word >> PACE_BUCKET_OVERLAP_BITS, cost = word & UINT32_MAX;

	if (cost == 0 || busy >= cost)
		return 1024;
	return clock_most_ns((int64_t)(busy * 1024 / cost), 1024 / OVERLAP_LEAST_PART);
}

static int64_t overlapped_ns(const struct pace_slot *slot)
{
	return pace_bucket_word_ns(&slot->unmeasured_ns) * pace_bucket_overlap(slot) / 1024;
}

struct pace_flight pace_bucket_flight(struct pace *pace)
{
	struct pace_device *device = pace->device;
	uint64_t words = __atomic_load_n(&device->active_words, __ATOMIC_ACQUIRE) &
			 PACE_BUCKET_WORDS;
	struct pace_flight flight = { 0, 0, 0 };

	for (; words; words &= words - 1) {
		unsigned i = (unsigned)__builtin_ctzll(words);
		uint64_t bits = __atomic_load_n(&device->active[i], __ATOMIC_ACQUIRE);

		for (; bits; bits &= bits - 1) {
			struct pace_slot *slot =
				&device->slots[i * 64 + (unsigned)__builtin_ctzll(bits)];
			int64_t unfinished_ns = pace_bucket_word_ns(&slot->unfinished_ns);
			int64_t predicted_ns = overlapped_ns(slot);

			flight.unfinished_ns += unfinished_ns;
			flight.predicted_ns += predicted_ns;
			flight.unmeasured_ns += unfinished_ns > predicted_ns ? 2 * unfinished_ns :
									       predicted_ns;
		}
	}
	return flight;
}

int64_t pace_bucket_change(struct pace *pace, uint32_t share_pct, int64_t cap_ns, int64_t debit_ns,
			   int64_t now_ns)
{
	struct pair *at = (struct pair *)&pace->device->level_pct_ns;
	int64_t cap = cap_ns * PERCENT, least = -WORD_NS * PERCENT, level, filled_ns;
	int64_t most = cap + pace_bucket_saving_ns(share_pct) * PERCENT;
	struct pair old = pair_load(at), new;

	do {
		level = clock_least_ns(clock_most_ns((int64_t)old.first, least), most);
		filled_ns = (int64_t)old.second;
		/* From the future: the machine began anew. A moment ahead is another clock. */
		if (filled_ns > now_ns + NSEC_PER_SEC || filled_ns < 0)
			filled_ns = now_ns;
		if (now_ns > filled_ns) {
			level = clock_most_ns(
				level,
				clock_least_ns(cap,
					       level + clock_least_ns(now_ns - filled_ns, WORD_NS) *
							       share_pct));
			filled_ns = now_ns;
		}
		level -= debit_ns * PERCENT;
		new.first = (uint64_t)level;
		new.second = (uint64_t)filled_ns;
	} while (!pair_cas(at, &old, new));
	return level;
}

int64_t pace_bucket_without_late(struct pace *pace, int64_t level_ns, int64_t cap_ns)
{
	int64_t late_ns = pace_bucket_word_ns(&pace->device->late_ns);
	int64_t over_ns = level_ns + late_ns - cap_ns;
	uint64_t seen = (uint64_t)late_ns;

	if (late_ns == 0)
		return level_ns;
	/* By one of those that see it: two would take it twice. */
	if (over_ns > 0)
		__atomic_compare_exchange_n(&pace->device->late_ns, &seen,
					    (uint64_t)(late_ns - clock_least_ns(over_ns, late_ns)),
					    false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	return clock_most_ns(level_ns, clock_least_ns(level_ns + late_ns, cap_ns));
}

int64_t pace_bucket_fill(struct pace *pace, uint32_t share_pct, const struct pace_flight *flight,
			 bool is_held, int64_t now_ns)
{
	int64_t cap_ns = pace_cap_ns(share_pct) + flight->unmeasured_ns;
	int64_t level_ns = pace_bucket_change(pace, share_pct,
					      cap_ns + (is_held ? 0 :
								  pace_bucket_saving_ns(share_pct)),
					      0, now_ns) /
			   PERCENT;

	if (level_ns > cap_ns)
		__atomic_store_n(&pace->device->saved_ns, (uint64_t)now_ns, __ATOMIC_RELAXED);
	return pace_bucket_without_late(pace, level_ns + flight->unfinished_ns, cap_ns);
}

int64_t pace_bucket_paid_after_ns(uint32_t share_pct, int64_t debt_ns)
{
	debt_ns += clock_least_ns(PACE_BURST_NS, pace_cap_ns(share_pct) / 2);
	return (debt_ns * PERCENT + share_pct - 1) / share_pct;
}
