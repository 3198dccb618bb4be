#include "core/range_scan.h"

#include <stddef.h>

void range_scan_begin(struct range_scan *scan, struct range *range, const struct range_want *want)
{
	*scan = (struct range_scan){ .range = range, .want = *want };
}

/* The neighbour if it was added too: never the edge, which nobody can add. */
static struct range_node *added_below(const struct range_scan *scan, struct range_node *node)
{
	struct range_node *left = TAILQ_PREV(node, range_list, in_order);

	return left->scan == scan ? left : NULL;
}

static struct range_node *added_above(const struct range_scan *scan, struct range_node *node)
{
	struct range_node *right = TAILQ_NEXT(node, in_order);

	return right && right->scan == scan ? right : NULL;
}

/*
 * There is room at scan->start in a run of added nodes, and what is outside the run leaves it the
 * gaps that it must. Neighbours inside the run that do not have to go too.
 */
static void clear_room(struct range_scan *scan, struct range_node *first, struct range_node *last)
{
	range_gap *gap = scan->range->gap_bytes;
	uint64_t end = scan->start + scan->want.bytes, color = scan->want.color;
	struct range_node *left = last, *right = first;

	scan->is_enough = true;
	scan->clear_low = scan->start;
	scan->clear_high = end;
	if (!gap)
		return;
	while (left && range_end_of(left) > scan->start)
		left = added_below(scan, left);
	for (; left && gap(left->color, color) > scan->start - range_end_of(left);
	     left = added_below(scan, left))
		scan->clear_low = left->start;
	while (right && right->start < end)
		right = added_above(scan, right);
	for (; right && gap(color, right->color) > right->start - end;
	     right = added_above(scan, right))
		scan->clear_high = range_end_of(right);
}

bool range_scan_add(struct range_scan *scan, struct range_node *node)
{
	struct range_node *first = node, *last = node, *left, *right;

	if (node->scan || scan->is_enough || node->range != scan->range)
		return scan->is_enough;
	node->scan = scan;
	scan->range->scanned++;
	left = added_below(scan, node);
	right = added_above(scan, node);
	if (left)
		first = left->run_end;
	if (right)
		last = right->run_end;
	first->run_end = last;
	last->run_end = first;
	if (scan->want.bytes && range_fit(scan->range, TAILQ_PREV(first, range_list, in_order),
					  TAILQ_NEXT(last, in_order), &scan->want, &scan->start))
		clear_room(scan, first, last);
	return scan->is_enough;
}

bool range_scan_drop(struct range_scan *scan, struct range_node *node)
{
	if (node->scan != scan)
		return false;
	node->scan = NULL;
	scan->range->scanned--;
	return scan->is_enough && node->start < scan->clear_high &&
	       range_end_of(node) > scan->clear_low;
}
