/*
 * The kernel's cases for pages that are kept, by their names, for handles that are.
 *
 * Without a meaning here: ttm_pool_alloc_basic_dma_addr (addresses of pages for a device).
 */
#include "core/bo_pool.h"

#include "check.h"

#include <pthread.h>
#include <stdlib.h>

#define MIB(n) (UINT64_C(n) << 20)

static struct bo_pool pool;

static int begin(void **state)
{
	(void)state;
	bo_pool_init(&pool, MIB(4096));
	return 0;
}

static int end(void **state)
{
	struct bo_pool_handle out[16];

	(void)state;
	while (bo_pool_trim(&pool, 0, out, 16) == 16)
		;
	assert_int_equal(bo_pool_kept(&pool), 0);
	bo_pool_fini(&pool);
	return 0;
}

/* Of any size that memory has, and of that size again. */
static void ttm_pool_alloc_basic(void **state)
{
	static const uint64_t sizes[] = { MIB(2), MIB(30), MIB(256), MIB(510), MIB(1024) };
	uint64_t handle;

	(void)state;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		assert_true(bo_pool_give(&pool, sizes[i], i + 1));
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		assert_true(bo_pool_take(&pool, sizes[i], &handle));
		assert_int_equal(handle, i + 1);
		assert_false(bo_pool_take(&pool, sizes[i], &handle));
	}
}

static void ttm_pool_alloc_order_caching_match(void **state)
{
	uint64_t handle;

	(void)state;
	assert_true(bo_pool_give(&pool, MIB(2), 11));
	assert_true(bo_pool_give(&pool, MIB(2), 12));
	assert_int_equal(bo_pool_kept(&pool), MIB(4));
	assert_true(bo_pool_take(&pool, MIB(2), &handle));
	assert_int_equal(handle, 12);
	assert_true(bo_pool_take(&pool, MIB(2), &handle));
	assert_int_equal(handle, 11);
	assert_false(bo_pool_take(&pool, MIB(2), &handle));
	assert_int_equal(bo_pool_kept(&pool), 0);
}

/* What caching is there is the place here: each has its own pool. */
static void ttm_pool_alloc_caching_mismatch(void **state)
{
	struct bo_pool other;
	uint64_t handle;

	(void)state;
	bo_pool_init(&other, MIB(64));
	assert_true(bo_pool_give(&pool, MIB(2), 1));
	assert_false(bo_pool_take(&other, MIB(2), &handle));
	assert_int_equal(bo_pool_kept(&pool), MIB(2));
	bo_pool_fini(&other);
}

static void ttm_pool_alloc_order_mismatch(void **state)
{
	uint64_t handle;

	(void)state;
	assert_true(bo_pool_give(&pool, MIB(64), 1));
	assert_false(bo_pool_take(&pool, MIB(2), &handle));
	assert_false(bo_pool_take(&pool, MIB(32), &handle));
	assert_false(bo_pool_take(&pool, MIB(512), &handle));
	assert_true(bo_pool_take(&pool, MIB(64), &handle));
}

static void ttm_pool_free_dma_alloc(void **state)
{
	(void)state;
	assert_true(bo_pool_give(&pool, MIB(512), 1));
	assert_true(bo_pool_give(&pool, MIB(32), 2));
	assert_int_equal(bo_pool_kept(&pool), MIB(544));
}

/* What is not kept is the caller's to release. */
static void ttm_pool_free_no_dma_alloc(void **state)
{
	uint64_t handle;

	(void)state;
	assert_false(bo_pool_give(&pool, MIB(3), 1));
	assert_false(bo_pool_give(&pool, MIB(1026), 1));
	assert_false(bo_pool_give(&pool, 0, 1));
	assert_false(bo_pool_take(&pool, MIB(3), &handle));
	bo_pool_set_bound(&pool, MIB(66));
	assert_true(bo_pool_give(&pool, MIB(64), 1));
	assert_true(bo_pool_give(&pool, MIB(2), 2));
	assert_false(bo_pool_give(&pool, MIB(2), 3));
	bo_pool_set_bound(&pool, MIB(32));
	assert_int_equal(bo_pool_kept(&pool), MIB(66));
	assert_true(bo_pool_take(&pool, MIB(2), &handle));
	assert_int_equal(handle, 2);
	assert_false(bo_pool_give(&pool, MIB(2), 2));
}

static void ttm_pool_fini_basic(void **state)
{
	struct bo_pool_handle out[8];
	uint64_t sum = 0;

	(void)state;
	for (unsigned i = 1; i <= 5; i++)
		assert_true(bo_pool_give(&pool, i % 2 ? MIB(2) : MIB(32), i));
	assert_int_equal(bo_pool_trim(&pool, 0, out, 8), 5);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(out[i].bytes, out[i].handle % 2 ? MIB(2) : MIB(32));
		sum += out[i].handle;
	}
	assert_int_equal(sum, 1 + 2 + 3 + 4 + 5);
	assert_int_equal(bo_pool_kept(&pool), 0);
}

static void what_is_oldest_is_trimmed_first(void **state)
{
	struct bo_pool_handle out[8];

	(void)state;
	assert_true(bo_pool_give(&pool, MIB(2), 1));
	assert_true(bo_pool_give(&pool, MIB(32), 2));
	assert_int_equal(bo_pool_tick(&pool, 5, out, 8), 0);
	assert_true(bo_pool_give(&pool, MIB(64), 3));
	assert_true(bo_pool_give(&pool, MIB(2), 4));
	assert_int_equal(bo_pool_trim(&pool, MIB(90), out, 8), 2);
	assert_int_equal(out[0].handle, 1);
	assert_int_equal(out[1].handle, 2);
	assert_int_equal(bo_pool_trim(&pool, 0, out, 1), 1);
	assert_int_equal(out[0].handle, 3);
	assert_int_equal(bo_pool_kept(&pool), MIB(2));
	assert_int_equal(bo_pool_trim(&pool, MIB(2), out, 8), 0);
}

static void what_lies_for_long_goes(void **state)
{
	struct bo_pool_handle out[8];
	uint64_t handle;

	(void)state;
	assert_true(bo_pool_give(&pool, MIB(2), 1));
	assert_true(bo_pool_give(&pool, MIB(2), 2));
	assert_int_equal(bo_pool_tick(&pool, 2, out, 8), 0);
	assert_true(bo_pool_take(&pool, MIB(2), &handle));
	assert_true(bo_pool_give(&pool, MIB(2), handle));
	assert_int_equal(bo_pool_tick(&pool, 2, out, 8), 0);
	/* The one that was used meanwhile is younger. */
	assert_int_equal(bo_pool_tick(&pool, 2, out, 8), 1);
	assert_int_equal(out[0].handle, 1);
	assert_int_equal(bo_pool_tick(&pool, 2, out, 8), 1);
	assert_int_equal(out[0].handle, 2);
	assert_int_equal(bo_pool_tick(&pool, 0, out, 8), 0);
}

enum { HANDLES = 64, THREADS = 3, TIMES = BUILD_SANITIZED ? 2000 : 20000 };

struct user {
	pthread_t thread;
	unsigned seed;
	unsigned *holders; /* of each handle: who has it, 0: the pool */
	bool is_wrong;
};

static void hand_over(struct user *user, uint64_t handle, unsigned from, unsigned to)
{
	if (__atomic_exchange_n(&user->holders[handle], to, __ATOMIC_RELAXED) != from)
		user->is_wrong = true;
}

static void *use(void *arg)
{
	struct user *user = arg;
	unsigned self = user->seed;

	for (unsigned i = 0; i < TIMES; i++) {
		struct bo_pool_handle out[4];
		uint64_t bytes = rand_r(&user->seed) % 2 ? MIB(2) : MIB(32);
		unsigned count = 0;

		switch (rand_r(&user->seed) % 4) {
		case 0:
			count = bo_pool_trim(&pool, MIB((unsigned)rand_r(&user->seed) % 512), out,
					     4);
			break;
		case 1:
			count = bo_pool_tick(&pool, 3, out, 4);
			break;
		default:
			out[0].bytes = bytes;
			count = bo_pool_take(&pool, bytes, &out[0].handle);
		}
		for (unsigned k = 0; k < count; k++)
			hand_over(user, out[k].handle, 0, self);
		for (unsigned k = 0; k < count; k++) {
			hand_over(user, out[k].handle, self, 0);
			if (!bo_pool_give(&pool, out[k].bytes, out[k].handle))
				user->is_wrong = true;
		}
	}
	return NULL;
}

static void a_handle_has_one_holder(void **state)
{
	unsigned holders[HANDLES] = { 0 };
	struct user users[THREADS];

	(void)state;
	for (unsigned i = 0; i < HANDLES; i++)
		assert_true(bo_pool_give(&pool, i % 2 ? MIB(2) : MIB(32), i));
	for (unsigned i = 0; i < THREADS; i++) {
		users[i] = (struct user){ .seed = i + 1, .holders = holders };
		assert_int_equal(pthread_create(&users[i].thread, NULL, use, &users[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(users[i].thread, NULL), 0);
		assert_false(users[i].is_wrong);
	}
	assert_int_equal(bo_pool_kept(&pool), MIB(34) * HANDLES / 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ttm_pool_alloc_basic),
		TEST(ttm_pool_alloc_order_caching_match),
		TEST(ttm_pool_alloc_caching_mismatch),
		TEST(ttm_pool_alloc_order_mismatch),
		TEST(ttm_pool_free_dma_alloc),
		TEST(ttm_pool_free_no_dma_alloc),
		TEST(ttm_pool_fini_basic),
		TEST(what_is_oldest_is_trimmed_first),
		TEST(what_lies_for_long_goes),
		TEST(a_handle_has_one_holder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
