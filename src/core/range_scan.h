/*
 * Which nodes of a range have to go so that something has room. The caller adds nodes in the order
 * in which they would best go, until range_scan_add() says that it is enough; then drops all that
 * it added, in any order: range_scan_drop() says which must go. It removes those, and the place is
 * free: at range_scan.start. What it adds and does not need stays where it is.
 *
 *     range_scan_begin(&scan, range, &want);
 *     for each victim, the least valuable first:
 *             is_enough = range_scan_add(&scan, victim); if so, stop
 *     for each one added:
 *             goes[i] = range_scan_drop(&scan, victim)
 *     if is_enough: range_remove() what goes, range_reserve() at scan.start
 *
 * From the first add to the last drop nothing in the range may change: insert and reserve answer
 * -EBUSY. An add or a drop takes a constant time, but for the callers' gaps. No lock inside: what
 * orders the calls of the range orders these.
 */
#pragma once

#include "core/range.h"

struct range_scan {
	struct range *range;
	struct range_want want;
	uint64_t start; /* where there will be room, once add said so */
	/* range_scan.c alone */
	bool is_enough;
	uint64_t clear_low, clear_high; /* what stands in here goes */
};

/* Starts a scan for `want`: mode HIGH looks for room from the high end of what would be free. */
void range_scan_begin(struct range_scan *scan, struct range *range, const struct range_want *want);

/*
 * Supposes that the node, which is in the range, goes. True when that, with what was added before,
 * is enough; a node that is added then, or again, changes nothing.
 */
bool range_scan_add(struct range_scan *scan, struct range_node *node);

/* Forgets the supposition. True when the node has to go; of one that was not added, false. */
bool range_scan_drop(struct range_scan *scan, struct range_node *node);
