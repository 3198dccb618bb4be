/*
 * The kernel's cases for filling device memory (drm_buddy), by their names, for the regions of a
 * slab.
 *
 * Without a meaning here: drm_test_buddy_alloc_clear (nothing is known to be cleared),
 * drm_test_buddy_alloc_range_bias (a request has no place of its own choice),
 * drm_test_buddy_fragmentation_performance (no test measures time). Runs are of any length, so
 * there are no blocks that split and merge: what the checks there say of those, the model of
 * test_slab_region.c says of every chunk.
 */
#include "core/slab_region.h"

#include "check.h"

#include <stdlib.h>

enum { BLOCKS = 8, CHUNKS = BLOCKS * SLAB_BLOCK_CHUNKS, ORDERS = 15 };

static struct slab_region *region;
static uint32_t firsts[CHUNKS], counts[CHUNKS];

static int begin(void **state)
{
	uint32_t block;

	(void)state;
	region = slab_region_new(BLOCKS);
	if (!region || !slab_region_claim(region, BLOCKS, &block))
		return -1;
	slab_region_back(region, block, BLOCKS);
	return 0;
}

/* All was given back: it is whole again. */
static int end(void **state)
{
	(void)state;
	assert_int_equal(slab_region_most(region), CHUNKS);
	slab_region_free(region);
	return 0;
}

static void drm_test_buddy_alloc_limit(void **state)
{
	uint32_t first;

	(void)state;
	assert_int_equal(slab_region_most(region), CHUNKS);
	first = slab_region_take(region, CHUNKS);
	assert_int_equal(first, 0);
	assert_int_equal(slab_region_count(region, first), CHUNKS);
	assert_int_equal(slab_region_most(region), 0);
	slab_region_give(region, first, CHUNKS);
}

/* One of each power of two leaves exactly one chunk. */
static void drm_test_buddy_alloc_optimistic(void **state)
{
	(void)state;
	for (unsigned i = 0; i < ORDERS; i++)
		firsts[i] = slab_region_take(region, 1u << (ORDERS - 1 - i));
	assert_int_equal(slab_region_most(region), 1);
	firsts[ORDERS] = slab_region_take(region, 1);
	assert_int_equal(slab_region_most(region), 0);
	slab_region_give(region, firsts[ORDERS], 1);
	for (unsigned i = 0; i < ORDERS; i++)
		slab_region_give(region, firsts[i], 1u << (ORDERS - 1 - i));
}

/* All is taken: what is freed has room for itself and for no more, until neighbours are free. */
static void drm_test_buddy_alloc_pessimistic(void **state)
{
	(void)state;
	for (unsigned i = 0; i < ORDERS; i++)
		firsts[i] = slab_region_take(region, 1u << i);
	firsts[ORDERS] = slab_region_take(region, 1);
	for (unsigned i = 0; i < ORDERS; i++) {
		slab_region_give(region, firsts[i], 1u << i);
		assert_int_equal(slab_region_most(region), 1u << i);
		assert_int_equal(slab_region_take(region, 1u << i), firsts[i]);
	}
	for (unsigned i = 0; i < ORDERS; i++) {
		slab_region_give(region, firsts[i], 1u << i);
		/* Those below it were free: they are one with it. */
		assert_int_equal(slab_region_most(region), (2u << i) - 1);
	}
	slab_region_give(region, firsts[ORDERS], 1);
}

/* Every other chunk is taken: half is free, and nothing above one chunk has room. */
static void drm_test_buddy_alloc_pathological(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < CHUNKS; i++)
		assert_int_equal(slab_region_take(region, 1), i);
	for (uint32_t i = 0; i < CHUNKS; i += 2)
		slab_region_give(region, i, 1);
	assert_int_equal(slab_region_most(region), 1);
	for (uint32_t i = 1; i < CHUNKS; i += 2)
		slab_region_give(region, i, 1);
}

static void drm_test_buddy_alloc_contiguous(void **state)
{
	enum { THIRD = CHUNKS / 3 };

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		firsts[i] = slab_region_take(region, THIRD);
	slab_region_give(region, firsts[0], THIRD);
	slab_region_give(region, firsts[2], THIRD);
	assert_true(slab_region_most(region) < THIRD + 3);
	assert_int_equal(slab_region_take(region, THIRD), firsts[0]);
	slab_region_give(region, firsts[1], THIRD);
	assert_true(slab_region_most(region) >= 2 * THIRD);
	assert_int_equal(slab_region_take(region, 2 * THIRD), firsts[1]);
	slab_region_give(region, firsts[0], THIRD);
	slab_region_give(region, firsts[1], 2 * THIRD);
}

/* Each chunk is served once, in a run of every length that there is. */
static void drm_test_buddy_alloc_range(void **state)
{
	static bool is_served[CHUNKS];
	uint32_t runs = 0, served = 0;

	(void)state;
	memset(is_served, 0, sizeof(is_served));
	for (uint32_t count = 1; slab_region_most(region) >= count; count++) {
		firsts[runs] = slab_region_take(region, count);
		for (uint32_t i = 0; i < count; i++) {
			assert_false(is_served[firsts[runs] + i]);
			is_served[firsts[runs] + i] = true;
		}
		counts[runs++] = count;
		served += count;
	}
	assert_int_equal(served + slab_region_most(region), CHUNKS);
	while (runs-- > 0)
		slab_region_give(region, firsts[runs], counts[runs]);
}

/* Random lengths until nothing has room, given back in another order. */
static void drm_test_buddy_alloc_smoke(void **state)
{
	unsigned seed = 3;

	(void)state;
	for (unsigned round = 0; round < 20; round++) {
		uint32_t runs = 0, sum = 0, most;

		while ((most = slab_region_most(region)) > 0) {
			uint32_t longest = most < 2000 ? most : 2000;

			counts[runs] = 1 + (uint32_t)rand_r(&seed) % longest;
			firsts[runs] = slab_region_take(region, counts[runs]);
			sum += counts[runs++];
		}
		assert_int_equal(sum, CHUNKS);
		while (runs > 0) {
			uint32_t i = (uint32_t)rand_r(&seed) % runs--;

			slab_region_give(region, firsts[i], counts[i]);
			firsts[i] = firsts[runs];
			counts[i] = counts[runs];
		}
		assert_int_equal(slab_region_most(region), CHUNKS);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(drm_test_buddy_alloc_limit),       TEST(drm_test_buddy_alloc_optimistic),
		TEST(drm_test_buddy_alloc_pessimistic), TEST(drm_test_buddy_alloc_pathological),
		TEST(drm_test_buddy_alloc_contiguous),  TEST(drm_test_buddy_alloc_range),
		TEST(drm_test_buddy_alloc_smoke),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
