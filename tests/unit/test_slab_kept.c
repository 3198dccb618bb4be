#include "core/slab_kept.h"

#include "check.h"

static struct slab_kept_run run(uint32_t chunk, uint32_t count)
{
	return (struct slab_kept_run){ .chunk = chunk, .count = count };
}

static void the_last_of_a_length_comes_first(void **unused)
{
	struct slab_kept kept = { 0 };
	struct slab_kept_run got;

	(void)unused;
	slab_kept_put(&kept, run(1, 8));
	slab_kept_put(&kept, run(2, 9));
	slab_kept_put(&kept, run(3, 8));
	assert_false(slab_kept_take(&kept, 7, &got));
	assert_true(slab_kept_take(&kept, 8, &got));
	assert_int_equal(got.chunk, 3);
	assert_true(slab_kept_take(&kept, 8, &got));
	assert_int_equal(got.chunk, 1);
	assert_false(slab_kept_take(&kept, 8, &got));
	assert_true(slab_kept_pop(&kept, &got));
	assert_int_equal(got.chunk, 2);
	assert_false(slab_kept_pop(&kept, &got));
	assert_int_equal(kept.chunks, 0);
}

static void few_are_kept_and_little_in_them(void **unused)
{
	struct slab_kept kept = { 0 };
	struct slab_kept_run got;

	(void)unused;
	for (uint32_t i = 0; i < SLAB_KEPT_RUNS; i++) {
		assert_false(slab_kept_give_way(&kept, 1, &got));
		slab_kept_put(&kept, run(i, 1));
	}
	assert_true(slab_kept_give_way(&kept, 1, &got));
	assert_int_equal(got.chunk, 0);
	assert_false(slab_kept_give_way(&kept, 1, &got));
	assert_true(slab_kept_takes(SLAB_KEPT_CHUNKS));
	assert_false(slab_kept_takes(SLAB_KEPT_CHUNKS + 1));
	for (uint32_t i = 1; i < SLAB_KEPT_RUNS; i++) {
		assert_true(slab_kept_give_way(&kept, SLAB_KEPT_CHUNKS, &got));
		assert_int_equal(got.chunk, i);
	}
	assert_false(slab_kept_give_way(&kept, SLAB_KEPT_CHUNKS, &got));
	slab_kept_put(&kept, run(99, SLAB_KEPT_CHUNKS));
	assert_true(slab_kept_give_way(&kept, 1, &got));
	assert_int_equal(got.chunk, 99);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_of_a_length_comes_first),
		cmocka_unit_test(few_are_kept_and_little_in_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
