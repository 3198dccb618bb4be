/*
 * The kernel's cases for its address-space manager, by their names, for ours. Those that evict are
 * in test_range_scan.c.
 */
#include "range_check.h"

#include <errno.h>

enum { COUNT = 64, PRIME_COUNT = 5 };

static const uint64_t primes[PRIME_COUNT] = { 7, 13, 29, 43, 61 };
static const enum range_mode modes[] = { RANGE_BEST, RANGE_LOW, RANGE_HIGH, RANGE_EVICT };
enum { MODES = sizeof(modes) / sizeof(modes[0]) };

static struct range range;
static struct range_node nodes[COUNT], others[COUNT];
static unsigned order[COUNT], seed = 1;

static int begin(void **state)
{
	(void)state;
	memset(nodes, 0, sizeof(nodes));
	memset(others, 0, sizeof(others));
	return 0;
}

static int reserve(struct range_node *node, uint64_t start, uint64_t bytes)
{
	node->start = start;
	node->bytes = bytes;
	return range_reserve(&range, node);
}

static int insert(struct range_node *node, uint64_t bytes, enum range_mode mode)
{
	return range_insert(&range, node, &(struct range_want){ .bytes = bytes, .mode = mode });
}

static void remove_all(struct range_node *all, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (all[i].range)
			range_remove(&all[i]);
}

static void drm_test_mm_init(void **state)
{
	struct range_node node = { .start = 0 };
	uint64_t bytes = 4096;

	(void)state;
	memset(&range, 0x55, sizeof(range));
	range_init(&range, 0, bytes);
	assert_true(range_is_empty(&range));
	assert_int_equal(range_check(&range).free_bytes, bytes);
	assert_int_equal(range_largest_hole(&range), bytes);
	assert_ok(reserve(&node, 0, bytes));
	assert_int_equal(range_check(&range).holes, 0);
	assert_int_equal(range_largest_hole(&range), 0);
	assert_int_equal(insert(&nodes[0], 1, RANGE_BEST), -ENOSPC);
	range_remove(&node);
	assert_null(node.range);
	assert_int_equal(range_check(&range).free_bytes, bytes);
	assert_true(range_is_empty(&range));
}

/* The hole that was made last is taken first, wherever it is. */
static void the_newest_hole(void **state)
{
	(void)state;
	range_init(&range, 0, COUNT);
	for (unsigned i = 0; i < COUNT; i++)
		assert_ok(insert(&nodes[i], 1, RANGE_LOW));
	for (unsigned i = 1; i < COUNT; i += 2)
		range_remove(&nodes[i * 5 % COUNT]);
	for (unsigned i = COUNT - 1; i < COUNT; i -= 2) {
		assert_ok(insert(&nodes[i * 5 % COUNT], 1, RANGE_EVICT));
		assert_int_equal(nodes[i * 5 % COUNT].start, i * 5 % COUNT);
	}
	remove_all(nodes, COUNT);
}

/* A range that does not begin at 0, and nothing below it. */
static void below_the_start(void **state)
{
	(void)state;
	range_init(&range, 1000, 1000);
	assert_int_equal(reserve(&nodes[0], 0, 10), -ENOSPC);
	assert_int_equal(reserve(&nodes[0], 999, 2), -ENOSPC);
	assert_int_equal(reserve(&nodes[0], 1999, 2), -ENOSPC);
	assert_null(range_find(&range, 0));
	assert_ok(reserve(&nodes[0], 1000, 1));
	assert_ok(reserve(&nodes[1], 1999, 1));
	assert_null(range_find(&range, 999));
	assert_int_equal(range_check(&range).free_bytes, 998);
	remove_all(nodes, 2);
}

/* What a listing shows: nodes in order, and with their holes all of the range. */
static void drm_test_mm_debug(void **state)
{
	struct range_node *node = NULL;
	uint64_t shown_bytes;
	unsigned count = 0;

	(void)state;
	range_init(&range, 0, 4096);
	shown_bytes = range.edge.hole_bytes;
	assert_null(range_next(&range, NULL));
	assert_int_equal(shown_bytes, 4096);
	assert_ok(reserve(&nodes[1], 4096 - 512, 512));
	assert_ok(reserve(&nodes[0], 512, 1024));
	shown_bytes = range.edge.hole_bytes;
	while ((node = range_next(&range, node))) {
		assert_ptr_equal(node, &nodes[count]);
		shown_bytes += node->bytes + node->hole_bytes;
		count++;
	}
	assert_int_equal(count, 2);
	assert_int_equal(shown_bytes, 4096);
	assert_null(range_find(&range, 511));
	assert_ptr_equal(range_find(&range, 512), &nodes[0]);
	assert_ptr_equal(range_find(&range, 1535), &nodes[0]);
	assert_null(range_find(&range, 1536));
	assert_null(range_find(&range, 4096));
	assert_null(range_find(&range, UINT64_MAX));
}

/* What lies outside, wholly or in part, however the sum wraps around. */
static void refuse_outside(uint64_t count, uint64_t size)
{
	const struct {
		uint64_t start, bytes;
	} outside[] = {
		{ 0, 0 },
		{ -size, 0 },
		{ size, 0 },
		{ size * count, 0 },
		{ -size, size },
		{ -size, -size },
		{ -size, 2 * size },
		{ 0, -size },
		{ size, -size },
		{ count * size, size },
		{ count * size, -size },
		{ count * size, count * size },
		{ count * size, -count * size },
		{ count * size, -(count + 1) * size },
		{ (count + 1) * size, size },
		{ (count + 1) * size, -size },
		{ (count + 1) * size, -(2 * size) },
	};

	for (unsigned i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
		struct range_node node = { .start = 0 };

		assert_int_equal(reserve(&node, outside[i].start, outside[i].bytes), -ENOSPC);
		assert_null(node.range);
	}
	assert_true(range_is_empty(&range));
}

static void refuse_taken(unsigned count, uint64_t size)
{
	for (unsigned i = 0; i < count; i++) {
		struct range_node again = { .start = 0 };

		assert_int_equal(reserve(&again, order[i] * size, size), -ENOSPC);
		/* Over two of them, when there is a second one. */
		if (order[i] + 1 < count)
			assert_int_equal(reserve(&again, order[i] * size + size / 2, size),
					 -ENOSPC);
		assert_int_equal(range_reserve(&range, &nodes[i]), -EINVAL);
	}
}

static void reserve_in(unsigned count, uint64_t size)
{
	range_init(&range, 0, count * size);
	refuse_outside(count, size);
	range_shuffle(order, count, &seed);
	for (unsigned i = 0; i < count; i++)
		assert_ok(reserve(&nodes[i], order[i] * size, size));
	assert_int_equal(range_check(&range).free_bytes, 0);
	refuse_taken(count, size);
	for (unsigned i = 0; i < count; i++) {
		range_remove(&nodes[i]);
		assert_ok(range_reserve(&range, &nodes[i]));
	}
	for (unsigned p = 0; p < PRIME_COUNT; p++) {
		unsigned stride = (unsigned)primes[p] % count + 1, taken = 0;

		for (unsigned i = 0; i < count; i += stride, taken++)
			range_remove(&nodes[i]);
		assert_int_equal(range_check(&range).free_bytes, taken * size);
		for (unsigned i = 0; i < count; i += stride)
			assert_ok(range_reserve(&range, &nodes[i]));
	}
	assert_int_equal(range_check(&range).nodes, count);
	remove_all(nodes, count);
	assert_int_equal(range_check(&range).holes, 1);
}

/* Sizes of powers of two, one less and one more. */
static void each_size(void (*test)(unsigned count, uint64_t size))
{
	for (unsigned power = 1; power <= 54; power += BUILD_SANITIZED ? 7 : 1)
		for (uint64_t size = (UINT64_C(1) << power) - 1; size <= (UINT64_C(1) << power) + 1;
		     size++)
			test(power <= 6 ? 1u << (power - 1) : COUNT, size);
}

static void drm_test_mm_reserve(void **state)
{
	(void)state;
	each_size(reserve_in);
}

static enum range_mode tried;
static bool is_replacing;

/* Inserts, or puts it in the place of another that was inserted. */
static int put(struct range_node *node, const struct range_want *want)
{
	struct range_node other = { .start = 0 };
	int rc;

	if (!is_replacing)
		return range_insert(&range, node, want);
	rc = range_insert(&range, &other, want);
	if (rc < 0)
		return rc;
	range_replace(&other, node);
	assert_null(other.range);
	assert_int_equal(node->start, other.start);
	assert_int_equal(node->bytes, other.bytes);
	return 0;
}

/* Fills [low, high), which `count` just fit into, and refills what is taken out. */
static void fill(unsigned count, const struct range_want *want, uint64_t low)
{
	for (unsigned i = 0; i < count; i++) {
		unsigned at = want->mode == RANGE_HIGH ? count - 1 - i : i;

		assert_ok(put(&nodes[i], want));
		assert_int_equal(nodes[i].start, low + at * want->bytes);
	}
	assert_int_equal(put(&others[0], want), -ENOSPC);
	range_shuffle(order, count, &seed);
	for (unsigned i = 0; i < count; i++) {
		struct range_node *node = &nodes[order[i]];
		uint64_t start = node->start;

		range_remove(node);
		assert_ok(put(node, want));
		assert_int_equal(node->start, start);
	}
	for (unsigned p = 0; p < PRIME_COUNT; p++) {
		unsigned stride = (unsigned)primes[p] % count + 1;

		for (unsigned i = 0; i < count; i += stride)
			range_remove(&nodes[order[i]]);
		for (unsigned i = 0; i < count; i += stride)
			assert_ok(put(&nodes[order[i]], want));
		assert_int_equal(put(&others[0], want), -ENOSPC);
	}
	assert_int_equal(range_check(&range).nodes, count);
}

static void insert_in(unsigned count, uint64_t size)
{
	range_init(&range, 0, count * size);
	fill(count, &(struct range_want){ .bytes = size, .mode = tried }, 0);
	assert_int_equal(range_check(&range).holes, 0);
	remove_all(nodes, count);
}

static void drm_test_mm_insert(void **state)
{
	(void)state;
	is_replacing = false;
	for (int i = 0; i < MODES; i++) {
		tried = modes[i];
		each_size(insert_in);
	}
}

static void drm_test_mm_replace(void **state)
{
	(void)state;
	is_replacing = true;
	for (int i = 0; i < MODES; i++) {
		tried = modes[i];
		each_size(insert_in);
	}
	is_replacing = false;
}

/* Bounds that cut through places; what fits is between them alone. */
static void insert_bounded(unsigned count, uint64_t size)
{
	uint64_t most = count * size;
	const uint64_t bounds[][2] = {
		{ 0, most },       { 1, most },        { 0, most - 1 },
		{ 0, most / 2 },   { most / 2, most }, { most / 4 + 1, most * 3 / 4 },
		{ 0, UINT64_MAX }, { most / 2, 0 },
	};

	for (unsigned i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
		struct range_want want = { .bytes = size, .mode = tried };
		uint64_t low = want.low = bounds[i][0], high = want.high = bounds[i][1];
		unsigned fit;

		if (!high || high > most)
			high = most;
		fit = (unsigned)((high - low) / size);
		range_init(&range, 0, most);
		if (tried == RANGE_HIGH)
			low = high - fit * size;
		if (fit)
			fill(fit, &want, low);
		assert_int_equal(put(&others[0], &want), -ENOSPC);
		remove_all(nodes, fit);
	}
}

static void drm_test_mm_insert_range(void **state)
{
	struct range_want want = { .bytes = 1, .low = 100, .high = 100 };

	(void)state;
	for (int i = 0; i < MODES; i++) {
		tried = modes[i];
		each_size(insert_bounded);
		/* Bounds that the range has nothing of, and some with nothing between them. */
		range_init(&range, 1000, 1000);
		want.mode = tried;
		assert_int_equal(put(&nodes[0], &want), -ENOSPC);
		want.high = 1000;
		assert_int_equal(put(&nodes[0], &want), -ENOSPC);
		want.low = 2000;
		want.high = 0;
		assert_int_equal(put(&nodes[0], &want), -ENOSPC);
		want.low = 1500;
		want.high = 1400;
		assert_int_equal(put(&nodes[0], &want), -ENOSPC);
		want.low = 100;
		want.high = 100;
	}
}

static uint64_t gaps_asked;

static uint64_t counting_gap(uint64_t left_color, uint64_t right_color)
{
	(void)left_color;
	(void)right_color;
	gaps_asked++;
	return 0;
}

/* However many holes there are that are too small, a search looks at none of them. */
static void drm_test_mm_frag(void **state)
{
	enum { PIECES = 4096 };
	static struct range_node pieces[PIECES], large;

	(void)state;
	for (int m = 0; m < MODES; m++) {
		if (modes[m] == RANGE_EVICT)
			continue;
		memset(pieces, 0, sizeof(pieces));
		range_init(&range, 0, PIECES * 4 + 100);
		range.gap_bytes = counting_gap;
		for (unsigned i = 0; i < PIECES; i++)
			assert_ok(insert(&pieces[i], 4, modes[m]));
		for (unsigned i = 0; i < PIECES; i += 2)
			range_remove(&pieces[i]);
		for (unsigned i = 0; i < 10; i++) {
			gaps_asked = 0;
			assert_ok(insert(&nodes[i], 8, modes[m]));
			assert_true(gaps_asked <= 2);
		}
		assert_int_equal(insert(&large, 100, modes[m]), -ENOSPC);
		/* And those that are large enough for something else are found again. */
		for (unsigned i = 0; i < PIECES; i += 2) {
			gaps_asked = 0;
			assert_ok(insert(&pieces[i], 4, modes[m]));
			assert_true(gaps_asked <= 2);
		}
		range_check(&range);
		remove_all(nodes, 10);
		remove_all(pieces, PIECES);
	}
}

static void drm_test_mm_align(void **state)
{
	(void)state;
	for (int m = 0; m < MODES; m++) {
		range_init(&range, 1, UINT64_MAX - 2);
		for (unsigned i = 0; i < COUNT; i++) {
			struct range_want want = { .bytes = 1 + i * 7,
						   .align_bytes = i ? primes[i % PRIME_COUNT] * i :
								      0,
						   .mode = modes[m] };

			assert_ok(range_insert(&range, &nodes[i], &want));
			assert_int_equal(nodes[i].start % (i ? want.align_bytes : 1), 0);
		}
		assert_int_equal(range_check(&range).nodes, COUNT);
		remove_all(nodes, COUNT);
	}
}

static void align_powers(unsigned bits)
{
	range_init(&range, 1, UINT64_MAX - 2);
	for (unsigned bit = bits - 1; bit; bit--) {
		uint64_t align = UINT64_C(1) << bit;
		struct range_want want = { .bytes = align / 2 + 1, .align_bytes = align };

		assert_ok(range_insert(&range, &nodes[bit], &want));
		assert_int_equal(nodes[bit].start % align, 0);
		assert_true(nodes[bit].start > 0);
	}
	assert_int_equal(range_check(&range).nodes, bits - 1);
	remove_all(nodes, COUNT);
}

static void drm_test_mm_align32(void **state)
{
	(void)state;
	align_powers(32);
}

static void drm_test_mm_align64(void **state)
{
	struct range_want want = { .bytes = 1, .align_bytes = (UINT64_C(1) << 63) + 1 };

	(void)state;
	align_powers(64);
	/* The next multiple is none of ours, or none that there is. */
	range_init(&range, (UINT64_C(1) << 63) + 2, 4096);
	assert_int_equal(range_insert(&range, &nodes[0], &want), -ENOSPC);
	want.mode = RANGE_HIGH;
	assert_int_equal(range_insert(&range, &nodes[0], &want), -ENOSPC);
}

static void topdown_in(unsigned count, uint64_t size)
{
	struct range_node *above = NULL;

	range_init(&range, 0, count * size);
	for (unsigned i = 0; i < count; i++) {
		assert_ok(insert(&nodes[i], size, RANGE_HIGH));
		/* Directly below the last one: nothing is left between them. */
		assert_int_equal(nodes[i].hole_bytes, 0);
		assert_ptr_equal(range_next(&range, &nodes[i]), above);
		above = &nodes[i];
	}
	for (unsigned p = 0; p < PRIME_COUNT; p++) {
		unsigned stride = (unsigned)primes[p] % count + 1, last = 0;

		range_shuffle(order, count, &seed);
		for (unsigned i = 0; i < count; i += stride)
			range_remove(&nodes[order[i]]);
		for (unsigned i = 0; i < count; i += stride) {
			assert_ok(insert(&nodes[order[i]], size, RANGE_HIGH));
			assert_int_equal(nodes[order[i]].hole_bytes, 0);
			if (i)
				assert_true(nodes[order[i]].start < nodes[order[last]].start);
			last = i;
		}
	}
	range_check(&range);
	remove_all(nodes, count);
}

static void drm_test_mm_topdown(void **state)
{
	(void)state;
	each_size(topdown_in);
}

static void bottomup_in(unsigned count, uint64_t size)
{
	range_init(&range, 0, count * size);
	for (unsigned i = 0; i < count; i++) {
		assert_ok(insert(&nodes[i], size, RANGE_LOW));
		assert_int_equal(nodes[i].start, i * size);
		assert_int_equal(range.edge.hole_bytes, 0);
	}
	for (unsigned p = 0; p < PRIME_COUNT; p++) {
		unsigned stride = (unsigned)primes[p] % count + 1, last = 0;

		range_shuffle(order, count, &seed);
		for (unsigned i = 0; i < count; i += stride)
			range_remove(&nodes[order[i]]);
		for (unsigned i = 0; i < count; i += stride) {
			assert_ok(insert(&nodes[order[i]], size, RANGE_LOW));
			if (i)
				assert_true(nodes[order[i]].start > nodes[order[last]].start);
			last = i;
		}
	}
	range_check(&range);
	remove_all(nodes, count);
}

static void drm_test_mm_bottomup(void **state)
{
	(void)state;
	each_size(bottomup_in);
}

/* A hole that is large enough is found though the outermost one is too small. */
static void first_that_fits(enum range_mode mode)
{
	range_init(&range, 0, 7);
	assert_ok(reserve(&nodes[0], 1, 1));
	assert_ok(reserve(&nodes[1], 5, 1));
	assert_ok(insert(&nodes[2], 2, mode));
	assert_int_equal(nodes[2].start, mode == RANGE_LOWEST ? 2 : 3);
	remove_all(nodes, 3);
	/* Another would do, but the first is the only one that is looked at. */
	range_init(&range, 0, 20);
	assert_ok(reserve(&nodes[0], 9, 2));
	assert_int_equal(range_insert(&range, &nodes[1],
				      &(struct range_want){ .bytes = 4,
							    .align_bytes = 13,
							    .low = mode == RANGE_LOWEST,
							    .mode = mode }),
			 mode == RANGE_LOWEST ? -ENOSPC : 0);
	remove_all(nodes, 2);
	assert_ok(reserve(&nodes[0], 9, 2));
	assert_int_equal(range_insert(&range, &nodes[1],
				      &(struct range_want){
					      .bytes = 4, .align_bytes = 19, .mode = mode }),
			 mode == RANGE_LOWEST ? 0 : -ENOSPC);
	remove_all(nodes, 2);
}

static void drm_test_mm_lowest(void **state)
{
	(void)state;
	first_that_fits(RANGE_LOWEST);
}

static void drm_test_mm_highest(void **state)
{
	(void)state;
	first_that_fits(RANGE_HIGHEST);
}

/* One byte between neighbours of different colours. */
static uint64_t different_gap(uint64_t left_color, uint64_t right_color)
{
	return left_color != right_color;
}

static void drm_test_mm_color(void **state)
{
	struct range_node *node = NULL;
	uint64_t color;

	(void)state;
	for (int m = 0; m < MODES; m++) {
		/* Nobody asks: colours are only kept. */
		range_init(&range, 0, UINT64_MAX);
		for (unsigned i = 0; i < COUNT; i++)
			assert_ok(range_insert(&range, &nodes[i],
					       &(struct range_want){ .bytes = i + 1,
								     .color = i + 1,
								     .mode = modes[m] }));
		while ((node = range_next(&range, node)))
			assert_int_equal(node->color, node->bytes);
		remove_all(nodes, COUNT);

		range_init(&range, 0, 20000);
		range.gap_bytes = different_gap;
		for (unsigned i = 0; i < COUNT; i++)
			assert_ok(range_insert(&range, &nodes[i],
					       &(struct range_want){ .bytes = i + 1,
								     .color = i / 2,
								     .mode = modes[m] }));
		/* With the gaps that they must leave, but no others. */
		assert_int_equal(range_check(&range).nodes, COUNT);
		assert_int_equal(range_check(&range).holes, COUNT / 2);
		/* Beside a neighbour of its colour it has room, in another colour it has not. */
		color = nodes[10].color;
		assert_int_equal(color, nodes[11].color);
		range_remove(&nodes[10]);
		nodes[10].color = color + 1;
		assert_int_equal(range_reserve(&range, &nodes[10]), -ENOSPC);
		nodes[10].color = color;
		assert_ok(range_reserve(&range, &nodes[10]));
		remove_all(nodes, COUNT);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(drm_test_mm_init, begin),
		cmocka_unit_test_setup(the_newest_hole, begin),
		cmocka_unit_test_setup(below_the_start, begin),
		cmocka_unit_test_setup(drm_test_mm_debug, begin),
		cmocka_unit_test_setup(drm_test_mm_reserve, begin),
		cmocka_unit_test_setup(drm_test_mm_insert, begin),
		cmocka_unit_test_setup(drm_test_mm_replace, begin),
		cmocka_unit_test_setup(drm_test_mm_insert_range, begin),
		cmocka_unit_test_setup(drm_test_mm_frag, begin),
		cmocka_unit_test_setup(drm_test_mm_align, begin),
		cmocka_unit_test_setup(drm_test_mm_align32, begin),
		cmocka_unit_test_setup(drm_test_mm_align64, begin),
		cmocka_unit_test_setup(drm_test_mm_topdown, begin),
		cmocka_unit_test_setup(drm_test_mm_bottomup, begin),
		cmocka_unit_test_setup(drm_test_mm_lowest, begin),
		cmocka_unit_test_setup(drm_test_mm_highest, begin),
		cmocka_unit_test_setup(drm_test_mm_color, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
