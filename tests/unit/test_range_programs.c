/*
 * Random programs against a model that knows every byte of a small range: what is placed, refused,
 * found and evicted is what somebody would say who tries all places.
 */
#include "core/range_scan.h"

#include "range_check.h"

#include <errno.h>

enum { BASE = 1000, BYTES = 160, NODES = 40, ROUNDS = 6, STEPS = BUILD_SANITIZED ? 500 : 5000 };

static struct range range;
static struct range_node nodes[NODES];
static struct range_node *taken[BYTES]; /* the model */
static unsigned seed;

static unsigned dice(unsigned count)
{
	return (unsigned)rand_r(&seed) % count;
}

static uint64_t no_gap(uint64_t left_color, uint64_t right_color)
{
	(void)left_color;
	(void)right_color;
	return 0;
}

static uint64_t some_gap(uint64_t left_color, uint64_t right_color)
{
	return left_color == right_color ? 0 : 1 + (left_color + 2 * right_color) % 3;
}

static uint64_t guard_gap(uint64_t left_color, uint64_t right_color)
{
	(void)left_color;
	(void)right_color;
	return 2;
}

static range_gap *const gaps[] = { no_gap, some_gap, guard_gap };
static range_gap *gap;

static void mark(struct range_node *node, struct range_node *value)
{
	for (uint64_t i = 0; i < node->bytes; i++)
		taken[node->start - BASE + i] = value;
}

/* May it stand at `at` (counted from BASE)? */
static bool has_room(const struct range_want *want, int at)
{
	int left = at - 1, right = at + (int)want->bytes;
	uint64_t start = BASE + (uint64_t)at;

	if (start < want->low || (want->high && start + want->bytes > want->high) ||
	    start % (want->align_bytes ? want->align_bytes : 1) || right > BYTES)
		return false;
	for (int i = at; i < right; i++)
		if (taken[i])
			return false;
	while (left >= 0 && !taken[left])
		left--;
	if (left >= 0 && gap(taken[left]->color, want->color) > (uint64_t)(at - left - 1))
		return false;
	while (right < BYTES && !taken[right])
		right++;
	return right == BYTES ||
	       gap(want->color, taken[right]->color) <= (uint64_t)(right - at) - want->bytes;
}

static int hole_around(int at)
{
	int left = at, right = at;

	while (left > 0 && !taken[left - 1])
		left--;
	while (right < BYTES && !taken[right])
		right++;
	return right - left;
}

/* The place that the mode asks for; -1 when there is none. */
static int best_place(const struct range_want *want)
{
	int best = -1;

	for (int at = 0; at < BYTES; at++) {
		if (!has_room(want, at))
			continue;
		if (best < 0 || want->mode == RANGE_HIGH ||
		    (want->mode == RANGE_BEST && hole_around(at) < hole_around(best)))
			best = at;
	}
	return best;
}

static struct range_want any_want(void)
{
	struct range_want want = {
		.bytes = 1 + dice(12),
		.align_bytes = dice(2) ? dice(9) : 0,
		.color = dice(3),
		.mode = (enum range_mode[]){ RANGE_BEST, RANGE_LOW, RANGE_HIGH,
					     RANGE_EVICT }[dice(4)],
	};

	if (dice(3) == 0) {
		want.low = BASE - 10 + dice(BYTES + 20);
		want.high = dice(2) ? want.low + dice(BYTES) : 0;
	}
	return want;
}

static void try_insert(struct range_node *node, const struct range_want *want)
{
	int place = best_place(want);
	int rc = range_insert(&range, node, want);

	if (place < 0) {
		assert_int_equal(rc, -ENOSPC);
		assert_null(node->range);
		return;
	}
	assert_ok(rc);
	assert_int_equal(node->bytes, want->bytes);
	if (want->mode == RANGE_EVICT)
		assert_true(has_room(want, (int)(node->start - BASE)));
	else
		assert_int_equal(node->start, BASE + place);
	mark(node, node);
}

static void try_reserve(struct range_node *node)
{
	struct range_want want = { .bytes = 1 + dice(12), .color = dice(3) };
	int at = (int)dice(BYTES);

	node->start = BASE + (uint64_t)at;
	node->bytes = want.bytes;
	node->color = want.color;
	if (!has_room(&want, at)) {
		assert_int_equal(range_reserve(&range, node), -ENOSPC);
		return;
	}
	assert_ok(range_reserve(&range, node));
	mark(node, node);
}

static void remove_one(struct range_node *node)
{
	mark(node, NULL);
	range_remove(node);
}

static void replace_one(struct range_node *old)
{
	struct range_node copy = *old, *other = &nodes[dice(NODES)];

	if (other->range)
		return;
	range_replace(old, other);
	assert_null(old->range);
	assert_int_equal(other->start, copy.start);
	mark(other, other);
}

/*
 * Something that has no room: without those that were added before the last one it still has none,
 * and without those that go it has.
 */
static void try_evict(struct range_node *node, const struct range_want *want)
{
	struct range_node *added[NODES];
	unsigned order[NODES], count = 0;
	struct range_scan scan;
	bool is_enough = false, goes[NODES];

	if (node->range || best_place(want) >= 0)
		return;
	range_scan_begin(&scan, &range, want);
	range_shuffle(order, NODES, &seed);
	for (unsigned i = 0; i < NODES && !is_enough; i++) {
		if (!nodes[order[i]].range)
			continue;
		added[count++] = &nodes[order[i]];
		is_enough = range_scan_add(&scan, &nodes[order[i]]);
	}
	for (unsigned i = 0; i < count; i++) {
		if (i + 1 == count)
			assert_int_equal(best_place(want), -1);
		mark(added[i], NULL);
	}
	assert_int_equal(best_place(want) >= 0, is_enough);
	for (unsigned i = 0; i < count; i++) {
		mark(added[i], added[i]);
		goes[i] = range_scan_drop(&scan, added[i]);
		assert_true(is_enough || !goes[i]);
	}
	if (!is_enough)
		return;
	for (unsigned i = 0; i < count; i++)
		if (goes[i])
			remove_one(added[i]);
	for (unsigned i = 0; i < count; i++) {
		if (!goes[i])
			continue;
		/* With any one of them left there would be none. */
		mark(added[i], added[i]);
		assert_false(has_room(want, (int)(scan.start - BASE)));
		mark(added[i], NULL);
	}
	assert_true(has_room(want, (int)(scan.start - BASE)));
	node->start = scan.start;
	node->bytes = want->bytes;
	node->color = want->color;
	assert_ok(range_reserve(&range, node));
	mark(node, node);
}

static void step(void)
{
	struct range_node *node = &nodes[dice(NODES)];
	struct range_want want = any_want();
	unsigned at = dice(BYTES);

	assert_ptr_equal(range_find(&range, BASE + at), taken[at]);
	if (node->range && dice(8) == 0)
		replace_one(node);
	else if (node->range && dice(2))
		remove_one(node);
	else if (node->range)
		assert_int_equal(range_insert(&range, node, &want), -EINVAL);
	else if (dice(4) == 0)
		try_reserve(node);
	else
		try_insert(node, &want);
	if (dice(8) == 0)
		try_evict(&nodes[dice(NODES)], &want);
}

static void programs(void **state)
{
	(void)state;
	for (unsigned round = 1; round <= ROUNDS; round++) {
		seed = round;
		memset(nodes, 0, sizeof(nodes));
		memset(taken, 0, sizeof(taken));
		range_init(&range, BASE, BYTES);
		gap = gaps[round % 3];
		range.gap_bytes = round == 3 ? NULL : gap;
		for (unsigned i = 0; i < STEPS; i++) {
			step();
			range_check(&range);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(programs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
