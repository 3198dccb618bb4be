#include "core/heat.h"

#include <stdlib.h>

/* A mean follows its uses by such a part of the difference in each round. */
enum { QUICK_ROUNDS = 16, SLOW_ROUNDS = 128 };
/* Uses of so many rounds are what a move is weighed against. */
enum { AHEAD_ROUNDS = 20 };
/* And they must be worth so many times what the moves cost. So many times is much. */
enum { WORTH = 2, MUCH = 8 };
/* What pays much may move so many times as much at once. */
enum { MORE = 4 };
/* What has just come to where it is stays there for a while; what was never moved, not so long. */
enum { REST_ROUNDS = 32, NEW_ROUNDS = 16, YOUNG_ROUNDS = 8 };
/* Who did not move is asked again after so many rounds, then twice as many, so often doubled. */
enum { REFUSED_ROUNDS = 4, REFUSED_DOUBLED = 7 };
/* No more uses than this count in a round: sums stay in 64 bits. */
enum { MOST_USES = HEAT_USE << 16 };

static uint32_t follow(uint32_t mean, uint32_t now, uint32_t rounds)
{
	int64_t step = ((int64_t)now - mean) / rounds;

	/* So that it gets there in the end. */
	if (step == 0 && now != mean)
		step = now > mean ? 1 : -1;
	return (uint32_t)((int64_t)mean + step);
}

void heat_tick(struct heat *heat, uint32_t uses)
{
	uint32_t now = (uses < MOST_USES ? uses : MOST_USES) * (HEAT_ONE / HEAT_USE);

	if (heat->seen < SLOW_ROUNDS)
		heat->seen++;
	heat->quick = follow(heat->quick, now, QUICK_ROUNDS);
	heat->slow = follow(heat->slow, now, heat->seen);
	heat->peak = heat->peak < heat->quick ? heat->quick :
						follow(heat->peak, heat->quick, SLOW_ROUNDS);
	if (heat->rounds < UINT32_MAX)
		heat->rounds++;
	if (heat->rest)
		heat->rest--;
}

void heat_moved(struct heat *heat)
{
	heat->rounds = heat->rest = heat->refused = 0;
	heat->has_moved = true;
}

void heat_refused(struct heat *heat)
{
	heat->rest = (uint32_t)REFUSED_ROUNDS << heat->refused;
	if (heat->refused < REFUSED_DOUBLED)
		heat->refused++;
}

/*
 * The slow mean without the most that was used within the time of the quick one. Of two that are
 * used alike, in turn, one may have had its turn once more than the other.
 */
static uint32_t sure_slow(const struct heat *h)
{
	uint64_t unsure = h->seen ? (uint64_t)h->peak * QUICK_ROUNDS / h->seen : 0;

	return unsure < h->slow ? h->slow - (uint32_t)unsure : 0;
}

static uint32_t hot_by_both(const struct heat *h)
{
	uint32_t slow = sure_slow(h);

	return h->quick < slow ? h->quick : slow;
}

static uint32_t hot_by_either(const struct heat *h)
{
	return h->quick > h->slow ? h->quick : h->slow;
}

/* What its uses are worth in the rounds ahead, in bytes over the link. */
static __int128_t worth(uint32_t mean, uint64_t bytes)
{
	return (__int128_t)mean * bytes * AHEAD_ROUNDS / HEAT_ONE;
}

static int compare_hottest(const void *a, const void *b)
{
	const struct heat_rank *x = a, *y = b;

	if (x->hot != y->hot)
		return x->hot > y->hot ? -1 : 1;
	return x->item < y->item ? -1 : 1;
}

static int compare_coldest(const void *a, const void *b)
{
	const struct heat_rank *x = a, *y = b;

	if (x->hot != y->hot)
		return x->hot < y->hot ? -1 : 1;
	return x->item < y->item ? -1 : 1;
}

/* What is far and may come, the hottest first. */
static unsigned rank_far(const struct heat_item *items, unsigned count, uint64_t most_bytes,
			 struct heat_rank *out)
{
	unsigned n = 0;

	for (unsigned i = 0; i < count; i++) {
		const struct heat *heat = items[i].heat;
		uint32_t hot = hot_by_both(heat);

		if (!items[i].is_near && heat->rounds >= YOUNG_ROUNDS && !heat->rest &&
		    items[i].bytes <= most_bytes &&
		    worth(hot, items[i].bytes) > (__int128_t)WORTH * items[i].bytes)
			out[n++] = (struct heat_rank){ hot, i };
	}
	qsort(out, n, sizeof(*out), compare_hottest);
	return n;
}

/* What is near and may go, the coldest first. */
static unsigned rank_near(const struct heat_item *items, unsigned count, struct heat_rank *out)
{
	unsigned n = 0;

	for (unsigned i = 0; i < count; i++) {
		const struct heat *heat = items[i].heat;

		if (items[i].is_near && !heat->rest &&
		    heat->rounds >= (uint32_t)(heat->has_moved ? REST_ROUNDS : NEW_ROUNDS))
			out[n++] = (struct heat_rank){ hot_by_either(heat), i };
	}
	qsort(out, n, sizeof(*out), compare_coldest);
	return n;
}

/* Some that come and go. */
struct sum {
	unsigned comes, goes;
	uint64_t room_bytes; /* that is left */
	uint64_t moved_bytes;
	__int128_t gain; /* what they are worth, without the cost of the moves */
};

static __int128_t net(const struct sum *sum)
{
	return sum->gain - (__int128_t)WORTH * sum->moved_bytes;
}

static bool pays_much(const struct sum *sum)
{
	return sum->gain >= (__int128_t)MUCH * sum->moved_bytes;
}

static bool is_within(const struct sum *sum, uint64_t most_bytes)
{
	return sum->moved_bytes <= most_bytes ||
	       (pays_much(sum) && sum->moved_bytes / MORE <= most_bytes);
}

/* One more comes, with the coldest that are left making room. False when that cannot be had. */
static bool add(struct sum *sum, const struct heat_item *items, const struct heat_rank *comer,
		const struct heat_rank *near, unsigned near_count)
{
	uint64_t bytes = items[comer->item].bytes;

	sum->gain += worth(comer->hot, bytes);
	sum->moved_bytes += bytes;
	while (sum->room_bytes < bytes) {
		const struct heat_rank *goer = &near[sum->goes];

		if (sum->goes == near_count)
			return false;
		sum->gain -= worth(goer->hot, items[goer->item].bytes);
		sum->moved_bytes += items[goer->item].bytes;
		sum->room_bytes += items[goer->item].bytes;
		sum->goes++;
	}
	sum->room_bytes -= bytes;
	sum->comes++;
	return true;
}

/* The hottest, as many as are worth most together. */
static struct sum best_together(const struct heat_item *items, const struct heat_rank *far,
				unsigned far_count, const struct heat_rank *near,
				unsigned near_count, struct sum sum, uint64_t most_bytes)
{
	struct sum best = sum;

	for (unsigned i = 0; i < far_count; i++) {
		if (!add(&sum, items, &far[i], near, near_count))
			break;
		if (net(&sum) > net(&best) && is_within(&sum, most_bytes))
			best = sum;
	}
	return best;
}

/* Each that pays for itself. They are written to `out`, unless it is NULL; it may be `far`. */
static struct sum best_alone(const struct heat_item *items, const struct heat_rank *far,
			     unsigned far_count, const struct heat_rank *near, unsigned near_count,
			     struct sum sum, uint64_t most_bytes, struct heat_rank *out)
{
	for (unsigned i = 0; i < far_count; i++) {
		struct sum more = sum;

		if (!add(&more, items, &far[i], near, near_count) || net(&more) <= net(&sum) ||
		    !is_within(&more, most_bytes))
			continue;
		if (out)
			out[sum.comes] = far[i];
		sum = more;
	}
	return sum;
}

void heat_plan(const struct heat_item *items, unsigned count, uint64_t room_bytes,
	       uint64_t most_bytes, struct heat_plan *out)
{
	unsigned far_count = rank_far(items, count, most_bytes, out->comes);
	unsigned near_count = far_count ? rank_near(items, count, out->goes) : 0;
	const struct sum none = { .room_bytes = room_bytes };
	struct sum best, alone;

	/* Many small ones may be worth a large one's going, which none of them is by itself. */
	best = best_together(items, out->comes, far_count, out->goes, near_count, none, most_bytes);
	alone = best_alone(items, out->comes, far_count, out->goes, near_count, none, most_bytes,
			   NULL);
	if (net(&alone) > net(&best))
		best = best_alone(items, out->comes, far_count, out->goes, near_count, none,
				  most_bytes, out->comes);
	out->comes_count = best.comes;
	out->goes_count = best.goes;
	out->moved_bytes = best.moved_bytes;
	out->pays_much = best.comes && pays_much(&best);
}
