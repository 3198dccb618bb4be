/*
 * Address space: which parts of one span of addresses are taken. Knows addresses alone, no memory.
 *
 * A taken part is a node that stands in a structure of the caller's; nothing is allocated here, so
 * that placing and removing cannot fail for want of memory. The free space between two nodes is one
 * hole and belongs to the node before it. All nodes are in one tree by address in which each knows
 * the largest hole of its subtree, and those with a hole in a second one by the hole's size: a
 * search goes straight from one hole that is large enough to the next, O(log n) each, and looks at
 * more than one only where alignment, bounds or gaps forbid what the size allows.
 *
 * There is no lock inside: the caller orders all calls for one range.
 */
#pragma once

#include "base/tree.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct range;
struct range_scan;

/* A taken part. One of zeros is in no range. */
struct range_node {
	uint64_t start, bytes; /* constant while it is in */
	uint64_t color;        /* the caller's: what range.gap_bytes is asked with */
	struct range *range;   /* NULL: it is in none */
	/* range.c alone */
	uint64_t hole_bytes; /* free space behind it */
	uint64_t most_bytes; /* the largest hole_bytes in its subtree of by_addr */
	RB_ENTRY(range_node) by_addr, by_hole;
	TAILQ_ENTRY(range_node) in_order, in_holes;
	/* range_scan.c alone */
	struct range_scan *scan;    /* that it was added to, or NULL */
	struct range_node *run_end; /* the other end of a run of added nodes, at its two ends */
};

/* Where a node that is in ends: the first address behind it. */
static inline uint64_t range_end_of(const struct range_node *node)
{
	return node->start + node->bytes;
}

RB_HEAD(range_addr_tree, range_node);
RB_HEAD(range_hole_tree, range_node);
TAILQ_HEAD(range_list, range_node);

/* Bytes that must stay free between two neighbours with these colours. */
typedef uint64_t range_gap(uint64_t left_color, uint64_t right_color);

struct range {
	uint64_t start, end;  /* constant after range_init(); end is the first address behind it */
	range_gap *gap_bytes; /* NULL: none anywhere. Set before the first node is in */
	/* range.c alone */
	struct range_node edge; /* of no bytes, at start: the hole before the first node is its */
	struct range_addr_tree by_addr;
	struct range_hole_tree by_hole;
	struct range_list in_order; /* by address, edge first */
	struct range_list holes;    /* the one made last is first */
	uint64_t scanned;           /* nodes in scans: nothing may change */
};

/* Which of the holes that have room is taken, and which end of it. */
enum range_mode {
	RANGE_BEST,    /* the smallest, from its low end */
	RANGE_LOW,     /* the lowest, from its low end */
	RANGE_HIGH,    /* the highest, from its high end */
	RANGE_EVICT,   /* the one that was made last, from its low end */
	RANGE_LOWEST,  /* as LOW and HIGH, but only the first that is large enough is looked at: */
	RANGE_HIGHEST, /* alignment, bounds and gaps may refuse it though another would do */
};

/* What is wanted. What is 0 asks for nothing. */
struct range_want {
	uint64_t bytes;
	uint64_t align_bytes; /* the start is a multiple of it; it need be no power of two */
	uint64_t color;
	uint64_t low, high; /* all of it at or above low and below high */
	enum range_mode mode;
};

/* Makes a range of `bytes` free bytes from `start`; start + bytes is at most UINT64_MAX. */
void range_init(struct range *range, uint64_t start, uint64_t bytes);

/* True when nothing is in it. */
bool range_is_empty(const struct range *range);

/* The largest hole. */
uint64_t range_largest_hole(const struct range *range);

/*
 * Puts the node in where node->start, bytes and color say. 0, -ENOSPC when not all of it is free or
 * inside the range (or it has no bytes), -EINVAL when the node is in a range, -EBUSY during a scan.
 */
int range_reserve(struct range *range, struct range_node *node);

/* Finds a place for the node and puts it in. 0 with the node filled in; the errors are the same. */
int range_insert(struct range *range, struct range_node *node, const struct range_want *want);

/* Takes the node out; its space joins the holes beside it. Not during a scan. */
void range_remove(struct range_node *node);

/*
 * Puts `node`, which is in no range, in the place of `old`, which then is in none. The hole behind
 * it counts as made now. Not during a scan.
 */
void range_replace(struct range_node *old, struct range_node *node);

/* The node that has `addr` in it; NULL when it is free or outside. */
struct range_node *range_find(const struct range *range, uint64_t addr);

/* The node behind `node` by address (NULL: the first); NULL at the end. */
struct range_node *range_next(const struct range *range, const struct range_node *node);

/*
 * Where `want` has a place between two neighbours with nothing or only what will go between them:
 * `left` is a node or the range's edge, `right` a node or NULL for the range's end. False when
 * there is none.
 */
bool range_fit(const struct range *range, const struct range_node *left,
	       const struct range_node *right, const struct range_want *want, uint64_t *out_start);
