/*
 * Random programs against a model that looks at every chunk of a small region.
 */
#include "core/slab_region.h"

#include "check.h"

#include <stdlib.h>

enum { BLOCKS = 11, CHUNKS = BLOCKS * SLAB_BLOCK_CHUNKS, STEPS = BUILD_SANITIZED ? 400 : 2500 };

static struct {
	bool has_memory[BLOCKS], is_claimed[BLOCKS];
	uint32_t extent[BLOCKS]; /* its first block */
	/* By chunk: 0 free or without memory, else its run's first chunk + 1; and is that gone? */
	uint32_t run[CHUNKS];
	bool is_gone[CHUNKS];
} model;

static struct slab_region *region;
static unsigned seed;

static unsigned dice(unsigned count)
{
	return (unsigned)rand_r(&seed) % count;
}

static bool is_free(uint32_t chunk)
{
	return model.has_memory[chunk / SLAB_BLOCK_CHUNKS] && !model.run[chunk];
}

/* The first chunk of `count` free ones; CHUNKS when there are none. *out_most: the longest run. */
static uint32_t first_fit(uint32_t count, uint32_t *out_most)
{
	uint32_t found = CHUNKS, length = 0;

	*out_most = 0;
	for (uint32_t i = 0; i < CHUNKS; i++) {
		length = is_free(i) ? length + 1 : 0;
		if (length > *out_most)
			*out_most = length;
		if (length == count && found == CHUNKS)
			found = i + 1 - count;
	}
	if (*out_most > SLAB_RUN_CHUNKS)
		*out_most = SLAB_RUN_CHUNKS;
	return found;
}

static uint32_t run_count(uint32_t chunk)
{
	uint32_t end = chunk;

	while (end < CHUNKS && model.run[end] == chunk + 1)
		end++;
	return end - chunk;
}

static void set_run(uint32_t chunk, uint32_t count, uint32_t value)
{
	for (uint32_t i = chunk; i < chunk + count; i++)
		model.run[i] = value;
}

static void try_take(void)
{
	static const unsigned most_chunks[] = { 3, 64, 200, 5000, SLAB_RUN_CHUNKS };
	uint32_t count = 1 + dice(most_chunks[dice(5)]), most, place = first_fit(count, &most);

	assert_int_equal(slab_region_most(region), most);
	if (place == CHUNKS) {
		assert_true(most < count);
		return;
	}
	assert_int_equal(slab_region_take(region, count), place);
	set_run(place, count, place + 1);
	model.is_gone[place] = false;
}

/* Some run, as if by a random address; false when there is nothing at it. */
static bool any_run(uint32_t *out_chunk)
{
	uint32_t chunk = dice(CHUNKS), first = CHUNKS;
	bool is_run = model.run[chunk] && !model.is_gone[model.run[chunk] - 1];

	assert_int_equal(slab_region_first(region, chunk, &first), is_run);
	if (is_run)
		assert_int_equal(first, model.run[chunk] - 1);
	assert_int_equal(slab_region_is_run(region, chunk), is_run && first == chunk);
	if (!model.run[chunk])
		return false;
	*out_chunk = model.run[chunk] - 1;
	assert_int_equal(slab_region_count(region, *out_chunk), run_count(*out_chunk));
	return true;
}

static void try_give(void)
{
	uint32_t chunk, count;

	if (!any_run(&chunk))
		return;
	if (!model.is_gone[chunk] && dice(2)) {
		slab_region_retire(region, chunk);
		model.is_gone[chunk] = true;
		return;
	}
	count = run_count(chunk);
	slab_region_give(region, chunk, count);
	set_run(chunk, count, 0);
}

static void try_back(void)
{
	uint32_t count = 1 + dice(3), block, place = BLOCKS, length = 0;

	for (uint32_t i = 0; i < BLOCKS && place == BLOCKS; i++) {
		length = model.has_memory[i] || model.is_claimed[i] ? 0 : length + 1;
		if (length == count)
			place = i + 1 - count;
	}
	assert_int_equal(slab_region_claim(region, count, &block), place < BLOCKS);
	if (place == BLOCKS)
		return;
	assert_int_equal(block, place);
	assert_true(slab_region_is_used(region));
	if (dice(4) == 0) {
		slab_region_unclaim(region, block, count);
		return;
	}
	slab_region_back(region, block, count);
	for (uint32_t i = block; i < block + count; i++) {
		model.has_memory[i] = true;
		model.extent[i] = block;
	}
}

static bool is_unused(uint32_t block)
{
	if (!model.has_memory[block])
		return false;
	for (uint32_t i = 0; i < CHUNKS; i++)
		if (model.run[i] && model.extent[i / SLAB_BLOCK_CHUNKS] == model.extent[block] &&
		    model.has_memory[i / SLAB_BLOCK_CHUNKS])
			return false;
	return true;
}

/* The last extent with nothing in it goes. */
static void try_bare(void)
{
	uint32_t block, count, unused = 0, last = BLOCKS;

	for (uint32_t i = 0; i < BLOCKS; i++)
		if (is_unused(i)) {
			unused++;
			last = model.extent[i];
		}
	assert_int_equal(region->unused_blocks, unused);
	count = slab_region_claim_unused(region, &block);
	assert_int_equal(count > 0, unused > 0);
	if (!count)
		return;
	assert_int_equal(block, last);
	for (uint32_t i = block; i < block + count; i++) {
		assert_int_equal(model.extent[i], block);
		model.has_memory[i] = false;
	}
	if (dice(2)) {
		slab_region_unclaim(region, block, count);
		return;
	}
	slab_region_back(region, block, count);
	for (uint32_t i = block; i < block + count; i++)
		model.has_memory[i] = true;
}

static void programs(void **state)
{
	(void)state;
	for (unsigned round = 1; round <= 4; round++) {
		seed = round;
		memset(&model, 0, sizeof(model));
		region = slab_region_new(BLOCKS);
		assert_non_null(region);
		assert_false(slab_region_is_used(region));
		assert_int_equal(slab_region_most(region), 0);
		for (unsigned i = 0; i < STEPS; i++) {
			/* It fills for a while, then drains for a while. */
			unsigned way = dice(i / 200 % 2 ? 16 : 8);

			if (way < 4)
				try_take();
			else if (way == 4)
				try_back();
			else if (way == 5 && dice(4) == 0)
				try_bare();
			else
				try_give();
		}
		slab_region_free(region);
	}
}

/* One run over all that a run can be, from one end of the region to the other. */
static void the_longest_run(void **state)
{
	uint32_t block, chunk;

	(void)state;
	region = slab_region_new(SLAB_REGION_BLOCKS);
	assert_non_null(region);
	assert_true(slab_region_claim(region, SLAB_REGION_BLOCKS, &block));
	slab_region_back(region, block, SLAB_REGION_BLOCKS);
	for (uint32_t i = 0; i < SLAB_REGION_BLOCKS / 8; i++) {
		assert_int_equal(slab_region_most(region), SLAB_RUN_CHUNKS);
		chunk = slab_region_take(region, SLAB_RUN_CHUNKS);
		assert_int_equal(chunk, i * SLAB_RUN_CHUNKS);
		assert_int_equal(slab_region_count(region, chunk), SLAB_RUN_CHUNKS);
		assert_true(slab_region_first(region, chunk + SLAB_RUN_CHUNKS - 1, &chunk));
		assert_int_equal(chunk, i * SLAB_RUN_CHUNKS);
	}
	assert_int_equal(slab_region_most(region), 0);
	assert_false(slab_region_claim(region, 1, &block));
	assert_int_equal(slab_region_claim_unused(region, &block), 0);
	slab_region_give(region, SLAB_RUN_CHUNKS, SLAB_RUN_CHUNKS);
	assert_int_equal(slab_region_claim_unused(region, &block), 0);
	for (uint32_t i = 0; i < SLAB_REGION_BLOCKS / 8; i++)
		if (i != 1)
			slab_region_give(region, i * SLAB_RUN_CHUNKS, SLAB_RUN_CHUNKS);
	assert_int_equal(slab_region_claim_unused(region, &block), SLAB_REGION_BLOCKS);
	slab_region_free(region);
}

/* Runs up to the end of a region, which is not where the tree ends. */
static void the_last_run(void **state)
{
	enum { LAST = 3 * SLAB_BLOCK_CHUNKS - 1 };
	uint32_t block, chunk;

	(void)state;
	region = slab_region_new(3);
	assert_non_null(region);
	assert_true(slab_region_claim(region, 3, &block));
	slab_region_back(region, block, 3);
	assert_int_equal(slab_region_take(region, LAST - 200), 0);
	assert_int_equal(slab_region_most(region), 201);
	assert_int_equal(slab_region_take(region, 200), LAST - 200);
	assert_int_equal(slab_region_take(region, 1), LAST);
	assert_int_equal(slab_region_most(region), 0);
	assert_int_equal(slab_region_count(region, LAST - 200), 200);
	assert_int_equal(slab_region_count(region, LAST), 1);
	assert_true(slab_region_first(region, LAST, &chunk));
	assert_int_equal(chunk, LAST);
	slab_region_give(region, LAST, 1);
	slab_region_give(region, LAST - 200, 200);
	assert_int_equal(slab_region_take(region, 201), LAST - 200);
	assert_int_equal(slab_region_count(region, LAST - 200), 201);
	slab_region_free(region);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(programs),
		cmocka_unit_test(the_longest_run),
		cmocka_unit_test(the_last_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
