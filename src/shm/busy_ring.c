#include "shm/busy_ring.h"

#include <stdbool.h>

#define BINS_MASK ((UINT64_C(1) << PACE_WORD_BINS) - 1)
#define RING_BINS ((uint64_t)PACE_RING_WORDS * PACE_WORD_BINS)

/* The moment of a bin, in ns from its beginning. */
static int64_t moment_ns(uint64_t bin)
{
	uint64_t x = (bin ^ bin >> 15) * UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
	return (int64_t)((x >> 32) * (uint64_t)PACE_BIN_NS >> 32);
}

/* The first bin whose moment is not before `ns`. */
static uint64_t first_bin(int64_t ns)
{
	uint64_t bin = (uint64_t)(ns / PACE_BIN_NS);

	return moment_ns(bin) >= ns % PACE_BIN_NS ? bin : bin + 1;
}

/* Bins in a word: without an instruction of the processor's, which not all have. */
static int64_t count(uint64_t bins)
{
	bins -= bins >> 1 & UINT64_C(0x5555555555555555);
	bins = (bins & UINT64_C(0x3333333333333333)) + (bins >> 2 & UINT64_C(0x3333333333333333));
	bins = (bins + (bins >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
	return (int64_t)(bins * UINT64_C(0x0101010101010101) >> 56);
}

static uint64_t tag_of(uint64_t word)
{
	return word / PACE_RING_WORDS & 0xffff;
}

/* Sets bins `mask` of word number `word`; how many of them were not set. */
static int set_bins(struct pace_ring *ring, uint64_t word, uint64_t mask)
{
	uint64_t *at = &ring->words[word % PACE_RING_WORDS];
	uint64_t tag = tag_of(word), old = __atomic_load_n(at, __ATOMIC_RELAXED), new;

	do {
		uint64_t age = (tag - (old >> PACE_WORD_BINS)) & 0xffff;

		/* One round ahead of us: our bins are no longer held. Any other tag is an old one. */
		if (age == 0xffff)
			return (int)count(mask);
		new = tag << PACE_WORD_BINS | mask | (age == 0 ? old & BINS_MASK : 0);
		if (new == old)
			return 0;
	} while (!__atomic_compare_exchange_n(at, &old, new, true, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	if (old >> PACE_WORD_BINS == tag)
		mask &= ~old;
	return (int)count(mask);
}

/* Bins first..end-1 that lie in word number `word`. */
static uint64_t mask_of(uint64_t word, uint64_t first, uint64_t end)
{
	uint64_t base = word * PACE_WORD_BINS, mask = BINS_MASK;

	if (first > base)
		mask &= mask << (first - base);
	if (end < base + PACE_WORD_BINS)
		mask &= (UINT64_C(1) << (end - base)) - 1;
	return mask & BINS_MASK;
}

int64_t busy_ring_set(struct pace_ring *ring, int64_t begin_ns, int64_t end_ns)
{
	uint64_t first, end;
	int64_t new_bins = 0;

	if (begin_ns < 0 || end_ns <= begin_ns)
		return 0;
	first = first_bin(begin_ns);
	/* Most short intervals lie between two moments. */
	if (end_ns <= (int64_t)first * PACE_BIN_NS)
		return 0;
	end = first_bin(end_ns);
	if (end - first > RING_BINS - PACE_WORD_BINS)
		first = end - (RING_BINS - PACE_WORD_BINS);
	while (first < end) {
		uint64_t word = first / PACE_WORD_BINS;

		new_bins += set_bins(ring, word, mask_of(word, first, end));
		first = (word + 1) * PACE_WORD_BINS;
	}
	return new_bins * PACE_BIN_NS;
}

int64_t busy_ring_busy_ns(const struct pace_ring *ring, int64_t begin_ns, int64_t end_ns)
{
	uint64_t first, end;
	int64_t bins = 0;

	if (begin_ns < 0 || end_ns <= begin_ns)
		return 0;
	first = (uint64_t)(begin_ns / PACE_BIN_NS);
	end = (uint64_t)(end_ns / PACE_BIN_NS);
	if (end - first > RING_BINS - PACE_WORD_BINS)
		first = end - (RING_BINS - PACE_WORD_BINS);
	while (first < end) {
		uint64_t word = first / PACE_WORD_BINS;
		uint64_t have = __atomic_load_n(&ring->words[word % PACE_RING_WORDS],
						__ATOMIC_RELAXED);

		if (have >> PACE_WORD_BINS == tag_of(word))
			bins += count(have & mask_of(word, first, end));
		first = (word + 1) * PACE_WORD_BINS;
	}
	return bins * PACE_BIN_NS;
}
