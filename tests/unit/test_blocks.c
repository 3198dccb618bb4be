#include "core/blocks.h"

#include "check.h"

#include <stdlib.h>

static struct blocks blocks;

static struct blocks_leaf *bring(void)
{
	struct blocks_leaf *leaf = blocks_take_spare(&blocks);

	return leaf ? leaf : calloc(1, sizeof(*leaf));
}

static bool get(uint64_t number)
{
	struct blocks_leaf *leaf = bring();

	assert_non_null(leaf);
	return blocks_get(&blocks, number, leaf);
}

/* Frees what was kept; a leaf that is handed out is as new. */
static int empty(void **state)
{
	static const struct blocks_leaf fresh;
	struct blocks_leaf *leaf;

	(void)state;
	while ((leaf = blocks_take_spare(&blocks))) {
		leaf->link = fresh.link;
		assert_memory_equal(leaf, &fresh, sizeof(fresh));
		free(leaf);
	}
	return 0;
}

static void test_the_first_and_the_last_reference(void **state)
{
	(void)state;
	assert_false(blocks_has(&blocks, 5));
	assert_true(get(5));
	assert_true(blocks_has(&blocks, 5));
	assert_false(get(5));
	assert_false(blocks_put(&blocks, 5));
	assert_true(blocks_has(&blocks, 5));
	assert_true(blocks_put(&blocks, 5));
	assert_false(blocks_has(&blocks, 5));
}

/* The first and the last number there are, and both sides of a border between leaves. */
static void test_neighbours_are_their_own(void **state)
{
	const uint64_t numbers[] = { 0, 1, BLOCKS_PER_LEAF - 1, BLOCKS_PER_LEAF, UINT64_MAX };
	enum { COUNT = sizeof(numbers) / sizeof(*numbers) };

	(void)state;
	for (int i = 0; i < COUNT; i++) {
		for (int k = 0; k < COUNT; k++)
			assert_int_equal(blocks_has(&blocks, numbers[k]), k < i);
		assert_true(get(numbers[i]));
	}
	for (int i = 0; i < COUNT; i++) {
		assert_true(blocks_put(&blocks, numbers[i]));
		for (int k = 0; k < COUNT; k++)
			assert_int_equal(blocks_has(&blocks, numbers[k]), k > i);
	}
}

/* A leaf that was brought in vain, or that nothing refers to any more, serves the next one. */
static void test_leaves_come_back(void **state)
{
	struct blocks_leaf *first = bring(), *vain = bring();

	(void)state;
	assert_true(blocks_get(&blocks, 1, first));
	assert_true(blocks_get(&blocks, 2, vain));
	assert_ptr_equal(bring(), vain);
	assert_true(blocks_put(&blocks, 1));
	assert_null(blocks_take_spare(&blocks));
	assert_true(blocks_put(&blocks, 2));
	assert_ptr_equal(bring(), first);
	free(first);
	free(vain);
}

/* No more are kept than there are places for. */
static void test_a_crowd_of_leaves(void **state)
{
	int kept = 0;
	struct blocks_leaf *leaf;

	(void)state;
	for (uint64_t i = 0; i < 3 * BLOCKS_SPARES; i++)
		assert_true(get(i * BLOCKS_PER_LEAF));
	for (uint64_t i = 0; i < 3 * BLOCKS_SPARES; i++)
		assert_true(blocks_put(&blocks, i * BLOCKS_PER_LEAF));
	for (; (leaf = blocks_take_spare(&blocks)); kept++)
		free(leaf);
	assert_int_equal(kept, BLOCKS_SPARES);
	blocks_give_spare(&blocks, NULL);
	assert_null(blocks_take_spare(&blocks));
}

/* Random references against plain counts. */
static void test_random_programs(void **state)
{
	enum { NUMBERS = 5 * BLOCKS_PER_LEAF, STEPS = 20000 };
	static unsigned counts[NUMBERS];
	unsigned seed = 1;

	(void)state;
	for (int i = 0; i < STEPS; i++) {
		unsigned n;

		seed = seed * 1664525 + 1013904223;
		n = (seed >> 8) % NUMBERS;
		if (counts[n] && seed >> 31) {
			assert_int_equal(blocks_put(&blocks, n), --counts[n] == 0);
		} else {
			assert_int_equal(get(n), counts[n]++ == 0);
		}
		assert_int_equal(blocks_has(&blocks, n), counts[n] > 0);
	}
	for (unsigned n = 0; n < NUMBERS; n++) {
		assert_int_equal(blocks_has(&blocks, n), counts[n] > 0);
		for (; counts[n]; counts[n]--)
			assert_int_equal(blocks_put(&blocks, n), counts[n] == 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_the_first_and_the_last_reference, empty),
		cmocka_unit_test_teardown(test_neighbours_are_their_own, empty),
		cmocka_unit_test_teardown(test_leaves_come_back, empty),
		cmocka_unit_test_teardown(test_a_crowd_of_leaves, empty),
		cmocka_unit_test_teardown(test_random_programs, empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
