/*
 * The kernel's cases for eviction from its address-space manager, by their names, for ours.
 */
#include "core/range_scan.h"

#include "range_check.h"

#include <errno.h>

enum { COUNT = BUILD_SANITIZED ? 512 : 1024, PRIME_COUNT = 4 };

static const enum range_mode modes[] = { RANGE_BEST, RANGE_LOW, RANGE_HIGH, RANGE_EVICT };
enum { MODES = sizeof(modes) / sizeof(modes[0]) };

static struct range range;
static struct range_node nodes[COUNT];
static bool goes[COUNT];
static unsigned order[COUNT], seed = 1;

static int begin(void **state)
{
	(void)state;
	memset(nodes, 0, sizeof(nodes));
	return 0;
}

static void remove_all(void)
{
	for (unsigned i = 0; i < COUNT; i++)
		if (nodes[i].range)
			range_remove(&nodes[i]);
}

/* Adds in random order until it is enough: how many were added. */
static unsigned add_until_enough(struct range_scan *scan, unsigned count, bool *out_is_enough)
{
	*out_is_enough = false;
	range_shuffle(order, count, &seed);
	for (unsigned i = 0; i < count; i++)
		if ((*out_is_enough = range_scan_add(scan, &nodes[order[i]])))
			return i + 1;
	return count;
}

/* Drops what was added, in another order: how many have to go. */
static unsigned drop_all(struct range_scan *scan, unsigned added)
{
	unsigned going = 0;

	for (unsigned i = added; i-- > 0;)
		if (i % 2)
			going += goes[order[i]] = range_scan_drop(scan, &nodes[order[i]]);
	for (unsigned i = 0; i < added; i += 2)
		going += goes[order[i]] = range_scan_drop(scan, &nodes[order[i]]);
	assert_int_equal(range.scanned, 0);
	for (unsigned i = 0; i < added; i++)
		assert_false(range_scan_drop(scan, &nodes[order[i]]));
	return going;
}

/* All supposed to go and none does: everything is as it was. */
static void evict_nothing(unsigned count)
{
	struct range_node free_node = { .start = 0 };
	struct range_want want = { .bytes = range.end - range.start + 1 };
	struct range_scan scan;
	bool is_enough;

	range_scan_begin(&scan, &range, &want);
	assert_false(range_scan_add(&scan, &free_node));
	assert_int_equal(add_until_enough(&scan, count, &is_enough), count);
	assert_false(is_enough);
	assert_int_equal(range_reserve(&range, &free_node), -EBUSY);
	assert_int_equal(range_insert(&range, &free_node, &want), -EBUSY);
	assert_int_equal(drop_all(&scan, count), 0);
	for (unsigned i = 0; i < count; i++)
		assert_ptr_equal(range_find(&range, nodes[i].start), &nodes[i]);
	assert_int_equal(range_check(&range).nodes, count);
}

/* Room for as much as there is: everything goes. */
static void evict_everything(unsigned count)
{
	struct range_node whole = { .start = range.start, .bytes = range.end - range.start };
	struct range_want want = { .bytes = whole.bytes };
	struct range_scan scan;
	bool is_enough;

	range_scan_begin(&scan, &range, &want);
	assert_int_equal(add_until_enough(&scan, count, &is_enough), count);
	assert_true(is_enough);
	assert_int_equal(scan.start, range.start);
	assert_int_equal(drop_all(&scan, count), count);
	for (unsigned i = 0; i < count; i++)
		range_remove(&nodes[i]);
	assert_ok(range_reserve(&range, &whole));
	range_remove(&whole);
	for (unsigned i = 0; i < count; i++)
		assert_ok(range_reserve(&range, &nodes[i]));
}

/* Once there is enough, another is not added. */
static void add_too_many(struct range_scan *scan, struct range_node *node)
{
	uint64_t start = scan->start, scanned = range.scanned;

	assert_true(range_scan_add(scan, node));
	assert_int_equal(scan->start, start);
	assert_int_equal(range.scanned, scanned);
}

/*
 * Room for one: what goes makes it, all of that is where it will be or too near to it, and what was
 * there is put back at the end.
 */
static void evict_something(unsigned count, const struct range_want *want)
{
	struct range_node node = { .start = 0 };
	struct range_scan scan;
	unsigned added;
	bool is_enough;

	range_scan_begin(&scan, &range, want);
	added = add_until_enough(&scan, count, &is_enough);
	assert_true(is_enough);
	/* The last one was what had been missing. */
	assert_true(range_scan_add(&scan, &nodes[order[0]]));
	if (added < count)
		add_too_many(&scan, &nodes[order[added]]);
	drop_all(&scan, added);
	assert_true(goes[order[added - 1]]);
	for (unsigned i = 0; i < added; i++)
		if (goes[order[i]])
			range_remove(&nodes[order[i]]);
	node.start = scan.start;
	node.bytes = want->bytes;
	node.color = want->color;
	assert_int_equal(node.start % (want->align_bytes ? want->align_bytes : 1), 0);
	assert_true(node.start >= want->low);
	assert_true(!want->high || node.start + node.bytes <= want->high);
	/* The hole that was made is the one that is looked at first. */
	assert_ok(range_reserve(&range, &node));
	range_check(&range);
	range_remove(&node);
	assert_ok(range_insert(&range, &node,
			       &(struct range_want){ .bytes = want->bytes,
						     .align_bytes = want->align_bytes,
						     .color = want->color,
						     .low = want->low,
						     .high = want->high,
						     .mode = RANGE_EVICT }));
	range_remove(&node);
	for (unsigned i = 0; i < added; i++)
		if (!nodes[order[i]].range)
			assert_ok(range_reserve(&range, &nodes[order[i]]));
	range_check(&range);
}

/* Sizes and alignments of powers of two and of primes, in each mode. */
static void evict_each(unsigned count, uint64_t low, uint64_t high)
{
	static const uint64_t primes[PRIME_COUNT] = { 3, 11, 37, 89 };
	uint64_t most = (high ? high : range.end) - low;

	for (int m = 0; m < MODES; m++) {
		struct range_want want = { .low = low, .high = high, .mode = modes[m] };

		for (uint64_t bytes = 1; bytes <= most / 2; bytes *= 4) {
			want.bytes = bytes;
			want.align_bytes = 0;
			evict_something(count, &want);
			want.align_bytes = bytes;
			evict_something(count, &want);
		}
		for (unsigned p = 0; p < PRIME_COUNT; p++) {
			want.bytes = most / 5;
			want.align_bytes = primes[p];
			evict_something(count, &want);
			want.bytes = primes[p];
			evict_something(count, &want);
		}
	}
}

static void fill(void)
{
	range_init(&range, 0, COUNT);
	for (unsigned i = 0; i < COUNT; i++)
		assert_ok(range_insert(&range, &nodes[i], &(struct range_want){ .bytes = 1 }));
}

static void drm_test_mm_evict(void **state)
{
	(void)state;
	fill();
	evict_nothing(COUNT);
	evict_everything(COUNT);
	evict_each(COUNT, 0, 0);
	remove_all();
}

static void drm_test_mm_evict_range(void **state)
{
	(void)state;
	fill();
	evict_each(COUNT, COUNT / 4 + 1, COUNT * 3 / 4 - 1);
	remove_all();
}

/* Two at a time: what one supposes is nothing to the other. */
static void two_scans(void **state)
{
	const struct range_want want = { .bytes = 2 };
	struct range_scan even, odd;

	(void)state;
	fill();
	range_scan_begin(&even, &range, &want);
	range_scan_begin(&odd, &range, &want);
	for (unsigned i = 0; i < 10; i++)
		assert_false(range_scan_add(i % 2 ? &odd : &even, &nodes[i]));
	assert_false(range_scan_add(&even, &nodes[1]));
	assert_true(range_scan_add(&odd, &nodes[10]));
	for (unsigned i = 0; i <= 10; i++) {
		assert_false(range_scan_drop(&even, &nodes[i]));
		assert_int_equal(range_scan_drop(&odd, &nodes[i]), i >= 9);
	}
	assert_int_equal(range.scanned, 0);
	remove_all();
}

static uint64_t different_gap(uint64_t left_color, uint64_t right_color)
{
	return left_color != right_color;
}

/* More than a whole neighbour is long: the one behind that is too near as well. */
static uint64_t wide_gap(uint64_t left_color, uint64_t right_color)
{
	return left_color != right_color ? 5 : 0;
}

/* In pairs of one colour, with one byte between the pairs. */
static unsigned fill_colored(range_gap *gap)
{
	unsigned count = 0;

	range_init(&range, 0, COUNT);
	range.gap_bytes = gap;
	for (; count < COUNT; count++)
		if (range_insert(&range, &nodes[count],
				 &(struct range_want){ .bytes = 1 + count / 4 % 3,
						       .color = count / 2,
						       .mode = RANGE_LOW }) < 0)
			break;
	range_check(&range);
	return count;
}

static void evict_colored(range_gap *gap, uint64_t low, uint64_t high)
{
	unsigned count = fill_colored(gap);

	assert_true(count > 50);
	if (!low && !high) {
		evict_nothing(count);
		evict_everything(count);
	}
	for (int m = 0; m < MODES; m++)
		for (uint64_t bytes = 1; bytes <= COUNT / 4; bytes += 1 + bytes / 2) {
			struct range_want want = { .bytes = bytes,
						   .color = bytes,
						   .low = low,
						   .high = high,
						   .mode = modes[m] };

			evict_something(count, &want);
			want.align_bytes = 8;
			evict_something(count, &want);
		}
	remove_all();
}

static void drm_test_mm_color_evict(void **state)
{
	(void)state;
	evict_colored(different_gap, 0, 0);
	evict_colored(wide_gap, 0, 0);
}

static void drm_test_mm_color_evict_range(void **state)
{
	(void)state;
	evict_colored(different_gap, COUNT / 4, COUNT * 3 / 4);
	evict_colored(wide_gap, COUNT / 4, COUNT * 3 / 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(drm_test_mm_evict, begin),
		cmocka_unit_test_setup(drm_test_mm_evict_range, begin),
		cmocka_unit_test_setup(two_scans, begin),
		cmocka_unit_test_setup(drm_test_mm_color_evict, begin),
		cmocka_unit_test_setup(drm_test_mm_color_evict_range, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
