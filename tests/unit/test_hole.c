#include "core/hole.h"

#include "base/clock.h"
#include "core/pool.h"
#include "fresh.h"

#include <pthread.h>
#include <stdatomic.h>

#define STEP POOL_STEP_BYTES

static const char pool_a, pool_b;

static void freed(uint64_t addr, uint64_t stream)
{
	hole_free_begin(addr, stream);
	hole_free_end(addr, true);
}

static void what_a_stream_has_freed(void)
{
	hole_init();
	CHECK(!hole_any());
	hole_given(&pool_a, 0x1000, STEP);
	CHECK(!hole_any());
	freed(0x1000, 1);
	CHECK(!hole_find(&pool_a, 1, 1));
	hole_given(&pool_a, STEP, 3 * STEP);
	CHECK(hole_any() && !hole_find(&pool_a, 1, 1));
	/* Not before the driver has freed it. */
	hole_free_begin(STEP, 1);
	CHECK(!hole_find(&pool_a, 1, STEP));
	hole_free_end(STEP, true);
	CHECK(hole_find(&pool_a, 1, 3 * STEP) && !hole_find(&pool_a, 1, 3 * STEP + 1));
	CHECK(!hole_find(&pool_a, 2, STEP) && !hole_find(&pool_b, 1, STEP));
	/* Of a stream that nobody can name there is none. */
	hole_given(&pool_b, 100 * STEP, 3 * STEP);
	freed(100 * STEP, 0);
	CHECK(!hole_find(&pool_b, 0, STEP));
	hole_drop(&pool_b);
	CHECK(hole_find(&pool_a, 1, 3 * STEP));
	hole_drop(NULL);
	CHECK(!hole_any());
}

/* The larger end of what is left; nothing when that is small. */
static void what_is_given_out_is_no_hole(void)
{
	hole_init();
	hole_given(&pool_a, 0, 8 * STEP);
	freed(0, 1);
	hole_given(&pool_a, 0, 512);
	CHECK(hole_find(&pool_a, 1, 8 * STEP - 512) && !hole_find(&pool_a, 1, 8 * STEP));
	hole_given(&pool_a, 7 * STEP, STEP);
	CHECK(hole_find(&pool_a, 1, 7 * STEP - 512) && !hole_find(&pool_a, 1, 7 * STEP));
	hole_given(&pool_a, 3 * STEP, 2 * STEP);
	CHECK(hole_find(&pool_a, 1, 3 * STEP - 512) && !hole_find(&pool_a, 1, 3 * STEP));
	/* What is behind it or before it does not matter. */
	hole_given(&pool_a, 3 * STEP, STEP);
	hole_given(&pool_a, 90 * STEP, STEP);
	CHECK(hole_find(&pool_a, 1, 3 * STEP - 512));
	hole_given(&pool_a, STEP, STEP);
	CHECK(!hole_find(&pool_a, 1, 1));
}

/* Freed where nobody saw it: small things that lie there since are no holes when they are freed. */
static void what_was_freed_unseen(void)
{
	hole_init();
	for (uint64_t at = 0; at < 4; at++) {
		hole_given(&pool_a, 10 * STEP, 4 * STEP);
		hole_given(&pool_a, (10 + at) * STEP, 512);
		freed((10 + at) * STEP, 1);
		freed(10 * STEP, 1);
		CHECK(!hole_find(&pool_a, 1, 1) && !hole_any());
	}
	hole_given(&pool_a, 10 * STEP, 2 * STEP);
	hole_given(&pool_a, 14 * STEP, 2 * STEP);
	hole_given(&pool_a, 12 * STEP, 2 * STEP);
	hole_given(&pool_a, 11 * STEP, 4 * STEP);
	freed(10 * STEP, 1);
	freed(12 * STEP, 1);
	freed(14 * STEP, 1);
	CHECK(!hole_find(&pool_a, 1, 1));
	freed(11 * STEP, 1);
	CHECK(hole_find(&pool_a, 1, 4 * STEP));
}

/* Another thread has it before its free is over; a free that failed; one that was not seen. */
static void frees_that_are_overtaken(void)
{
	hole_init();
	hole_given(&pool_a, STEP, 4 * STEP);
	hole_free_begin(STEP, 1);
	hole_given(&pool_a, STEP, 4 * STEP);
	hole_free_end(STEP, true);
	CHECK(!hole_find(&pool_a, 1, 1));
	hole_free_begin(STEP, 1);
	hole_free_end(STEP, false);
	CHECK(!hole_find(&pool_a, 1, 1));
	freed(STEP, 1);
	CHECK(hole_find(&pool_a, 1, 4 * STEP));
	/* Its address is another's now. */
	hole_given(&pool_b, STEP, 2 * STEP);
	hole_given(&pool_b, STEP, 3 * STEP);
	freed(STEP, 2);
	CHECK(hole_find(&pool_b, 2, 3 * STEP) && !hole_find(&pool_a, 1, 1));
	/* The oldest are forgotten. */
	for (uint64_t i = 10; i < 200; i++) {
		hole_given(&pool_a, 10 * i * STEP, 2 * STEP);
		freed(10 * i * STEP, i);
	}
	CHECK(hole_find(&pool_a, 199, 2 * STEP) && !hole_find(&pool_a, 10, 1));
	hole_drop(NULL);
	CHECK(!hole_any());
}

enum { THREADS = 4, ROUNDS = 3000 };

static _Atomic int inside, alone;

static void *call_or_be_alone(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;

	for (int i = 0; i < ROUNDS; i++) {
		if (rand_r(&seed) % 16) {
			hole_call_begin();
			atomic_fetch_add(&inside, 1);
			CHECK_EQ(atomic_load(&alone), 0);
			atomic_fetch_sub(&inside, 1);
			hole_call_end();
		} else if (hole_alone_begin()) {
			CHECK_EQ(atomic_fetch_add(&alone, 1), 0);
			CHECK_EQ(atomic_load(&inside), 0);
			atomic_fetch_sub(&alone, 1);
			hole_alone_end();
		}
	}
	return NULL;
}

static void who_is_alone_is_alone(void)
{
	pthread_t threads[THREADS];

	hole_init();
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, call_or_be_alone, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	/* Not while a call lasts. */
	hole_call_begin();
	CHECK(!hole_alone_begin());
	hole_call_end();
	CHECK(hole_alone_begin());
	/* A call of the same thread's, as a trim's, does not wait for itself. */
	hole_call_begin();
	hole_call_end();
	hole_alone_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(what_a_stream_has_freed), fresh_test(what_is_given_out_is_no_hole),
		fresh_test(what_was_freed_unseen),   fresh_test(frees_that_are_overtaken),
		fresh_test(who_is_alone_is_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
