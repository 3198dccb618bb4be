#include "core/range.h"

#include "base/bytes.h"

#include <errno.h>
#include <string.h>

/* The edge has no bytes and stands before a node at the same address. */
static int compare_addr(const struct range_node *a, const struct range_node *b)
{
	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return (a->bytes != 0) - (b->bytes != 0);
}

static int compare_hole(const struct range_node *a, const struct range_node *b)
{
	if (a->hole_bytes != b->hole_bytes)
		return a->hole_bytes < b->hole_bytes ? -1 : 1;
	return compare_addr(a, b);
}

static uint64_t most_of(const struct range_node *top)
{
	return top ? top->most_bytes : 0;
}

static void refresh(struct range_node *node)
{
	uint64_t most = most_of(RB_LEFT(node, by_addr));

	if (most < most_of(RB_RIGHT(node, by_addr)))
		most = most_of(RB_RIGHT(node, by_addr));
	node->most_bytes = most < node->hole_bytes ? node->hole_bytes : most;
}

RB_GENERATE_STATIC(range_hole_tree, range_node, by_hole, compare_hole)
/* The tree calls it for each node whose subtree it changes by turning. */
#undef RB_AUGMENT
#define RB_AUGMENT(node) refresh(node)
RB_GENERATE_STATIC(range_addr_tree, range_node, by_addr, compare_addr)

/* Tells the nodes above that this one's hole changed. */
static void raise_hole(struct range_node *node)
{
	while (node) {
		uint64_t before = node->most_bytes;

		refresh(node);
		if (node->most_bytes == before)
			return;
		node = RB_PARENT(node, by_addr);
	}
}

/* The node is in the tree by address. */
static void set_hole(struct range *range, struct range_node *node, uint64_t bytes)
{
	if (node->hole_bytes) {
		RB_REMOVE(range_hole_tree, &range->by_hole, node);
		TAILQ_REMOVE(&range->holes, node, in_holes);
	}
	node->hole_bytes = bytes;
	if (bytes) {
		RB_INSERT(range_hole_tree, &range->by_hole, node);
		TAILQ_INSERT_HEAD(&range->holes, node, in_holes);
	}
	raise_hole(node);
}

/*
 * A node goes into the tree by address and out of it with no hole, so that no sum above depends on
 * where the tree puts it.
 */
static void link_after(struct range *range, struct range_node *left, struct range_node *node)
{
	node->range = range;
	node->hole_bytes = 0;
	node->most_bytes = 0;
	node->scan = NULL;
	RB_INSERT(range_addr_tree, &range->by_addr, node);
	if (left)
		TAILQ_INSERT_AFTER(&range->in_order, left, node, in_order);
	else
		TAILQ_INSERT_HEAD(&range->in_order, node, in_order);
}

void range_init(struct range *range, uint64_t start, uint64_t bytes)
{
	memset(range, 0, sizeof(*range));
	range->start = start;
	range->end = start + bytes;
	range->edge.start = start;
	RB_INIT(&range->by_addr);
	RB_INIT(&range->by_hole);
	TAILQ_INIT(&range->in_order);
	TAILQ_INIT(&range->holes);
	link_after(range, NULL, &range->edge);
	set_hole(range, &range->edge, bytes);
}

bool range_is_empty(const struct range *range)
{
	return !TAILQ_NEXT(&range->edge, in_order);
}

uint64_t range_largest_hole(const struct range *range)
{
	return most_of(RB_ROOT(&range->by_addr));
}

/* The last node that starts at or below `addr`, which is not below the range: at least the edge. */
static struct range_node *at_or_below(const struct range *range, uint64_t addr)
{
	struct range_node *node = RB_ROOT(&range->by_addr), *found = NULL;

	while (node) {
		if (node->start <= addr) {
			found = node;
			node = RB_RIGHT(node, by_addr);
		} else {
			node = RB_LEFT(node, by_addr);
		}
	}
	return found;
}

struct range_node *range_find(const struct range *range, uint64_t addr)
{
	struct range_node *node = at_or_below(range, addr);

	return node && addr - node->start < node->bytes ? node : NULL;
}

struct range_node *range_next(const struct range *range, const struct range_node *node)
{
	return TAILQ_NEXT(node ? node : &range->edge, in_order);
}

/* Puts the node at node->start into the hole of `left`. */
static void take(struct range *range, struct range_node *left, struct range_node *node)
{
	uint64_t hole_end = range_end_of(left) + left->hole_bytes;

	set_hole(range, left, node->start - range_end_of(left));
	link_after(range, left, node);
	set_hole(range, node, hole_end - range_end_of(node));
}

/* What is free for this colour between two neighbours; false when nothing is. */
static bool free_between(const struct range *range, const struct range_node *left,
			 const struct range_node *right, uint64_t color, uint64_t *out_low,
			 uint64_t *out_high)
{
	uint64_t low = range_end_of(left), high = right ? right->start : range->end, gap;

	if (range->gap_bytes && left != &range->edge) {
		gap = range->gap_bytes(left->color, color);
		if (gap >= high - low)
			return false;
		low += gap;
	}
	if (range->gap_bytes && right) {
		gap = range->gap_bytes(color, right->color);
		if (gap >= high - low)
			return false;
		high -= gap;
	}
	*out_low = low;
	*out_high = high;
	return low < high;
}

bool range_fit(const struct range *range, const struct range_node *left,
	       const struct range_node *right, const struct range_want *want, uint64_t *out_start)
{
	uint64_t low, high, start, align = want->align_bytes ? want->align_bytes : 1;

	if (!free_between(range, left, right, want->color, &low, &high))
		return false;
	if (low < want->low)
		low = want->low;
	if (want->high && high > want->high)
		high = want->high;
	if (high <= low || high - low < want->bytes)
		return false;
	if (want->mode == RANGE_HIGH || want->mode == RANGE_HIGHEST) {
		start = high - want->bytes;
		start -= start % align;
		if (start < low)
			return false;
	} else {
		start = bytes_round_up(low, align);
		if (start > high - want->bytes)
			return false;
	}
	*out_start = start;
	return true;
}

int range_reserve(struct range *range, struct range_node *node)
{
	struct range_node *left;
	uint64_t low, high;

	if (range->scanned)
		return -EBUSY;
	if (node->range)
		return -EINVAL;
	if (!node->bytes || node->start < range->start || node->start >= range->end ||
	    node->bytes > range->end - node->start)
		return -ENOSPC;
	left = at_or_below(range, node->start);
	if (!free_between(range, left, range_next(range, left), node->color, &low, &high) ||
	    node->start < low || range_end_of(node) > high)
		return -ENOSPC;
	take(range, left, node);
	return 0;
}

/* The first node by address of a subtree with a hole of at least `bytes`, which it has. */
static struct range_node *lowest_in(struct range_node *top, uint64_t bytes)
{
	for (;;) {
		if (most_of(RB_LEFT(top, by_addr)) >= bytes)
			top = RB_LEFT(top, by_addr);
		else if (top->hole_bytes >= bytes)
			return top;
		else
			top = RB_RIGHT(top, by_addr);
	}
}

static struct range_node *highest_in(struct range_node *top, uint64_t bytes)
{
	for (;;) {
		if (most_of(RB_RIGHT(top, by_addr)) >= bytes)
			top = RB_RIGHT(top, by_addr);
		else if (top->hole_bytes >= bytes)
			return top;
		else
			top = RB_LEFT(top, by_addr);
	}
}

/* The next node above `node` with a hole of at least `bytes`; NULL when there is none. */
static struct range_node *next_above(struct range_node *node, uint64_t bytes)
{
	struct range_node *child;

	if (most_of(RB_RIGHT(node, by_addr)) >= bytes)
		return lowest_in(RB_RIGHT(node, by_addr), bytes);
	for (child = node; (node = RB_PARENT(child, by_addr)); child = node) {
		if (child != RB_LEFT(node, by_addr))
			continue;
		if (node->hole_bytes >= bytes)
			return node;
		if (most_of(RB_RIGHT(node, by_addr)) >= bytes)
			return lowest_in(RB_RIGHT(node, by_addr), bytes);
	}
	return NULL;
}

static struct range_node *next_below(struct range_node *node, uint64_t bytes)
{
	struct range_node *child;

	if (most_of(RB_LEFT(node, by_addr)) >= bytes)
		return highest_in(RB_LEFT(node, by_addr), bytes);
	for (child = node; (node = RB_PARENT(child, by_addr)); child = node) {
		if (child != RB_RIGHT(node, by_addr))
			continue;
		if (node->hole_bytes >= bytes)
			return node;
		if (most_of(RB_LEFT(node, by_addr)) >= bytes)
			return highest_in(RB_LEFT(node, by_addr), bytes);
	}
	return NULL;
}

/*
 * The node whose hole is looked at first; one that is too small may come. NULL when there is none.
 */
static struct range_node *first_hole(struct range *range, const struct range_want *want)
{
	struct range_node least = { .hole_bytes = want->bytes };
	uint64_t low = want->low > range->start ? want->low : range->start;
	uint64_t high = want->high && want->high < range->end ? want->high : range->end;
	struct range_node *node;

	if (high <= low)
		return NULL;
	switch (want->mode) {
	case RANGE_LOW:
	case RANGE_LOWEST:
		node = at_or_below(range, low);
		return node->hole_bytes >= want->bytes ? node : next_above(node, want->bytes);
	case RANGE_HIGH:
	case RANGE_HIGHEST:
		node = at_or_below(range, high - 1);
		return node->hole_bytes >= want->bytes ? node : next_below(node, want->bytes);
	case RANGE_EVICT:
		return TAILQ_FIRST(&range->holes);
	case RANGE_BEST:
		break;
	}
	return RB_NFIND(range_hole_tree, &range->by_hole, &least);
}

static struct range_node *next_hole(struct range_node *node, const struct range_want *want)
{
	switch (want->mode) {
	case RANGE_LOW:
		node = next_above(node, want->bytes);
		return node && want->high && range_end_of(node) >= want->high ? NULL : node;
	case RANGE_HIGH:
		node = next_below(node, want->bytes);
		return node && range_end_of(node) + node->hole_bytes <= want->low ? NULL : node;
	case RANGE_EVICT:
		return TAILQ_NEXT(node, in_holes);
	case RANGE_BEST:
		return RB_NEXT(range_hole_tree, &node->range->by_hole, node);
	case RANGE_LOWEST:
	case RANGE_HIGHEST:
		break;
	}
	return NULL;
}

int range_insert(struct range *range, struct range_node *node, const struct range_want *want)
{
	struct range_node *left;
	uint64_t start;

	if (range->scanned)
		return -EBUSY;
	if (node->range)
		return -EINVAL;
	if (!want->bytes || want->bytes > range_largest_hole(range))
		return -ENOSPC;
	for (left = first_hole(range, want); left; left = next_hole(left, want)) {
		if (!range_fit(range, left, range_next(range, left), want, &start))
			continue;
		node->start = start;
		node->bytes = want->bytes;
		node->color = want->color;
		take(range, left, node);
		return 0;
	}
	return -ENOSPC;
}

void range_remove(struct range_node *node)
{
	struct range *range = node->range;
	struct range_node *left = TAILQ_PREV(node, range_list, in_order);
	uint64_t freed_bytes = node->bytes + node->hole_bytes;

	set_hole(range, node, 0);
	RB_REMOVE(range_addr_tree, &range->by_addr, node);
	TAILQ_REMOVE(&range->in_order, node, in_order);
	node->range = NULL;
	set_hole(range, left, left->hole_bytes + freed_bytes);
}

void range_replace(struct range_node *old, struct range_node *node)
{
	struct range *range = old->range;
	struct range_node *left = TAILQ_PREV(old, range_list, in_order);
	uint64_t hole_bytes = old->hole_bytes;

	node->start = old->start;
	node->bytes = old->bytes;
	node->color = old->color;
	set_hole(range, old, 0);
	RB_REMOVE(range_addr_tree, &range->by_addr, old);
	TAILQ_REMOVE(&range->in_order, old, in_order);
	old->range = NULL;
	link_after(range, left, node);
	set_hole(range, node, hole_bytes);
}
