/*
 * What must be true of a range after every change, found by looking at all of it.
 */
#pragma once

#include "core/range.h"

#include "check.h"

#include <stdlib.h>

struct range_seen {
	uint64_t nodes, holes, free_bytes;
};

/* Counts the subtree and checks its order and its largest holes. */
static inline uint64_t range_check_addr(const struct range_node *top, uint64_t *out_most)
{
	uint64_t left, right, left_most = 0, right_most = 0;

	*out_most = 0;
	if (!top)
		return 0;
	if (RB_LEFT(top, by_addr))
		assert_true(RB_LEFT(top, by_addr)->start <= top->start);
	if (RB_RIGHT(top, by_addr))
		assert_true(RB_RIGHT(top, by_addr)->start >= top->start);
	left = range_check_addr(RB_LEFT(top, by_addr), &left_most);
	right = range_check_addr(RB_RIGHT(top, by_addr), &right_most);
	*out_most = left_most > right_most ? left_most : right_most;
	if (*out_most < top->hole_bytes)
		*out_most = top->hole_bytes;
	assert_int_equal(top->most_bytes, *out_most);
	return left + right + 1;
}

static inline uint64_t range_check_holes(const struct range_node *top)
{
	if (!top)
		return 0;
	if (RB_LEFT(top, by_hole))
		assert_true(RB_LEFT(top, by_hole)->hole_bytes <= top->hole_bytes);
	if (RB_RIGHT(top, by_hole))
		assert_true(RB_RIGHT(top, by_hole)->hole_bytes >= top->hole_bytes);
	return range_check_holes(RB_LEFT(top, by_hole)) + 1 +
	       range_check_holes(RB_RIGHT(top, by_hole));
}

/* Neighbours leave the gap that they must. */
static inline void range_check_gap(const struct range *range, const struct range_node *left,
				   const struct range_node *right)
{
	if (range->gap_bytes && left != &range->edge && right)
		assert_true(left->hole_bytes >= range->gap_bytes(left->color, right->color));
}

/* All of it: nodes and holes cover the range in order, and every list and tree knows them. */
static inline struct range_seen range_check(struct range *range)
{
	struct range_seen seen = { 0, 0, 0 };
	struct range_node *node, *next;
	uint64_t at = range->start, listed = 0, most;

	TAILQ_FOREACH(node, &range->in_order, in_order) {
		next = TAILQ_NEXT(node, in_order);
		assert_ptr_equal(node->range, range);
		assert_int_equal(node->start, at);
		assert_true(node == &range->edge ? node->bytes == 0 : node->bytes > 0);
		if (node != &range->edge) {
			assert_ptr_equal(range_find(range, node->start), node);
			assert_ptr_equal(range_find(range, node->start + node->bytes - 1), node);
			seen.nodes++;
		}
		range_check_gap(range, node, next);
		seen.holes += node->hole_bytes > 0;
		seen.free_bytes += node->hole_bytes;
		at = node->start + node->bytes + node->hole_bytes;
	}
	assert_int_equal(at, range->end);
	TAILQ_FOREACH(node, &range->holes, in_holes)
		listed += node->hole_bytes > 0;
	assert_int_equal(listed, seen.holes);
	assert_int_equal(range_check_holes(RB_ROOT(&range->by_hole)), seen.holes);
	assert_int_equal(range_check_addr(RB_ROOT(&range->by_addr), &most), seen.nodes + 1);
	assert_int_equal(range_largest_hole(range), most);
	assert_int_equal(range_is_empty(range), seen.nodes == 0);
	return seen;
}

/* Deals out 0 .. count-1 in a random order. */
static inline void range_shuffle(unsigned *order, unsigned count, unsigned *seed)
{
	for (unsigned i = 0; i < count; i++) {
		unsigned k = (unsigned)rand_r(seed) % (i + 1);

		order[i] = order[k];
		order[k] = i;
	}
}
