#include "core/heat.h"

/* A mean follows its uses by 1 / 2^SHIFT of the difference in each round. */
enum { QUICK_SHIFT = 4, SLOW_SHIFT = 7 };
/* Uses of so many rounds are what a move is weighed against. */
enum { AHEAD_ROUNDS = 20 };
/* And they must be worth so many times what the moves cost. */
enum { WORTH = 2 };
/* What has just come to where it is stays there for a while. */
enum { REST_ROUNDS = 32, YOUNG_ROUNDS = 8 };
/* No more uses than this count in a round: sums stay in 64 bits. */
enum { MOST_USES = 1 << 16 };

static uint32_t follow(uint32_t mean, uint32_t now, int shift)
{
	int64_t step = ((int64_t)now - mean) / (1 << shift);

	/* So that it gets there in the end. */
	if (step == 0 && now != mean)
		step = now > mean ? 1 : -1;
	return (uint32_t)((int64_t)mean + step);
}

void heat_tick(struct heat *heat, uint32_t uses)
{
	uint32_t now = (uses < MOST_USES ? uses : MOST_USES) * HEAT_ONE;

	heat->quick = follow(heat->quick, now, QUICK_SHIFT);
	heat->slow = follow(heat->slow, now, SLOW_SHIFT);
	if (heat->rounds < UINT32_MAX)
		heat->rounds++;
}

void heat_moved(struct heat *heat)
{
	heat->rounds = 0;
}

static uint32_t hot_by_both(const struct heat *h)
{
	return h->quick < h->slow ? h->quick : h->slow;
}

static uint32_t hot_by_either(const struct heat *h)
{
	return h->quick > h->slow ? h->quick : h->slow;
}

/* What its uses are worth in the rounds ahead, in bytes over the link. */
static __uint128_t worth(uint32_t mean, uint64_t bytes)
{
	return (__uint128_t)mean * bytes * AHEAD_ROUNDS / HEAT_ONE;
}

/* The hottest that is far and may move; `count` when there is none. */
static unsigned hottest(const struct heat_item *items, unsigned count, uint64_t most_bytes)
{
	unsigned best = count;

	for (unsigned i = 0; i < count; i++) {
		const struct heat_item *item = &items[i];

		if (item->is_near || item->heat->rounds < YOUNG_ROUNDS || item->bytes > most_bytes)
			continue;
		if (best == count || hot_by_both(item->heat) > hot_by_both(items[best].heat))
			best = i;
	}
	return best;
}

/*
 * The coldest that may go behind `last`, which goes already (`count`: none does); `count` when
 * there is none. Of two that are alike the first. One pass for each that goes.
 */
static unsigned coldest(const struct heat_item *items, unsigned count, unsigned last)
{
	uint32_t least = last < count ? hot_by_either(items[last].heat) : 0;
	unsigned best = count;

	for (unsigned i = 0; i < count; i++) {
		const struct heat_item *item = &items[i];
		uint32_t hot = hot_by_either(item->heat);

		if (!item->is_near || item->heat->rounds < REST_ROUNDS || hot < least ||
		    (last < count && hot == least && i <= last))
			continue;
		if (best == count || hot < hot_by_either(items[best].heat))
			best = i;
	}
	return best;
}

void heat_plan(const struct heat_item *items, unsigned count, uint64_t room_bytes,
	       uint64_t most_bytes, struct heat_plan *out)
{
	unsigned comes = hottest(items, count, most_bytes), victim = count;
	uint64_t moved_bytes;
	__uint128_t gain;

	out->is_any = false;
	out->goes_count = 0;
	if (comes == count)
		return;
	moved_bytes = items[comes].bytes;
	gain = worth(hot_by_both(items[comes].heat), items[comes].bytes);
	while (room_bytes < items[comes].bytes && gain > (__uint128_t)WORTH * moved_bytes) {
		__uint128_t loss;

		victim = coldest(items, count, victim);
		if (victim == count)
			return;
		loss = worth(hot_by_either(items[victim].heat), items[victim].bytes);
		gain = gain > loss ? gain - loss : 0;
		moved_bytes += items[victim].bytes;
		room_bytes += items[victim].bytes;
		out->goes[out->goes_count++] = victim;
	}
	if (moved_bytes > most_bytes || gain <= (__uint128_t)WORTH * moved_bytes)
		return;
	out->comes = comes;
	out->is_any = true;
}
