#include "shm/residency.h"

#include "base/units.h"
#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

enum { THREADS = 8, ROUNDS = 4000 };

static struct ration_region *make(void)
{
	struct ration_region *own = aligned_alloc(64, sizeof(*own));

	assert_non_null(own);
	memset(own, 0, sizeof(*own));
	memset(own->hint, 1, THREADS);
	return own;
}

static void test_the_sum_has_a_bound(void **state)
{
	struct ration_region *own = make();

	(void)state;
	assert_int_equal(residency_add(own, 0, 3, 6 * MIB, 8 * MIB), 0);
	assert_int_equal(residency_add(own, 1, 3, 3 * MIB, 8 * MIB), -EDQUOT);
	assert_int_equal(residency_add(own, 1, 3, 2 * MIB, 8 * MIB), 0);
	assert_int_equal(residency_sum(own, 3), 8 * MIB);
	assert_int_equal(residency_sum(own, 2), 0);
	assert_int_equal(residency_add(own, 1, RESIDENCY_HOST, 3 * MIB, UINT64_MAX), 0);
	assert_int_equal(residency_add(own, 1, RESIDENCY_HOST, UINT64_MAX - MIB, UINT64_MAX),
			 -EDQUOT);
	residency_clear(own, 1);
	assert_int_equal(residency_sum(own, 3), 6 * MIB);
	assert_int_equal(residency_sum(own, RESIDENCY_HOST), 0);
	residency_sub(own, 0, 3, 6 * MIB);
	assert_int_equal(residency_sum(own, 3), 0);
	free(own);
}

/* What is kept at hand counts, and is free to whoever asks. */
static void test_what_is_kept_can_be_had(void **state)
{
	struct ration_region *own = make();

	(void)state;
	own->flags = RATION_FLAG_OVERSUBSCRIBE;
	own->host_bytes = 8 * MIB;
	assert_int_equal(residency_add(own, 0, RESIDENCY_HOST, 6 * MIB, 8 * MIB), 0);
	assert_int_equal(residency_free(own, 0, MIB), 3 * MIB);
	residency_keep(own, 0, 4 * MIB);
	assert_int_equal(residency_free(own, 0, MIB), 7 * MIB);
	assert_int_equal(residency_sum(own, RESIDENCY_HOST), 6 * MIB);
	assert_int_equal(residency_kept(own, HAMI_SLOTS), 4 * MIB);
	assert_int_equal(residency_kept(own, 0), 0);
	residency_keep(own, 0, -(int64_t)MIB);
	assert_int_equal(residency_kept(own, 1), 3 * MIB);
	residency_clear(own, 0);
	assert_int_equal(residency_kept(own, HAMI_SLOTS), 0);
	free(own);
}

static struct {
	struct ration_region *own;
	uint64_t granted_bytes, worst_bytes;
} crowd;

static void *be_member(void *arg)
{
	unsigned slot = (unsigned)(uintptr_t)arg;

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t now, worst;

		if (residency_add(crowd.own, slot, 0, MIB, 3 * MIB) < 0)
			continue;
		now = __atomic_add_fetch(&crowd.granted_bytes, MIB, __ATOMIC_SEQ_CST);
		worst = __atomic_load_n(&crowd.worst_bytes, __ATOMIC_RELAXED);
		while (now > worst &&
		       !__atomic_compare_exchange_n(&crowd.worst_bytes, &worst, now, true,
						    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			;
		__atomic_sub_fetch(&crowd.granted_bytes, MIB, __ATOMIC_SEQ_CST);
		residency_sub(crowd.own, slot, 0, MIB);
	}
	return NULL;
}

/* Of each card by itself; who has no hint, and a tenant whose memory does not move, has none. */
static void test_what_is_idle_on_a_card(void **state)
{
	struct ration_region *own = make();

	(void)state;
	residency_set_idle(own, 0, 1, 7);
	assert_int_equal(residency_idle_but(own, HAMI_SLOTS, 1), 0);
	own->flags = RATION_FLAG_MOVABLE;
	residency_set_idle(own, 5, 1, 3);
	residency_set_idle(own, 5, 31, 2);
	residency_set_idle(own, 900, 1, 100);
	assert_int_equal(residency_idle(own, 0, 1), 14 * MIB);
	assert_int_equal(residency_idle_but(own, HAMI_SLOTS, 1), 20 * MIB);
	assert_int_equal(residency_idle_but(own, 0, 1), 6 * MIB);
	assert_int_equal(residency_idle_but(own, 5, 1), 14 * MIB);
	assert_int_equal(residency_idle_but(own, HAMI_SLOTS, 31), 4 * MIB);
	assert_int_equal(residency_idle_but(own, HAMI_SLOTS, 0), 0);
	own->hint[900] = 1;
	assert_int_equal(residency_idle_but(own, HAMI_SLOTS, 1), 220 * MIB);
	own->hint[1023] = 1;
	residency_set_idle(own, 1023, 1, UINT64_MAX);
	assert_int_equal(residency_idle(own, 1023, 1), 2 * MIB * UINT32_MAX);
	residency_clear(own, 1023);
	residency_clear(own, 0);
	residency_set_idle(own, 5, 1, 0);
	assert_int_equal(residency_idle_but(own, HAMI_SLOTS, 1), 200 * MIB);
	free(own);
}

/* Who was asked in vain has none to give until it answers that, or more. */
static void test_who_does_not_answer_has_nothing_idle(void **state)
{
	struct ration_region *own = make();

	(void)state;
	own->flags = RATION_FLAG_MOVABLE;
	residency_set_idle(own, 0, 1, 7);
	residency_set_idle(own, 5, 1, 3);
	residency_set_idle(own, 5, 2, 4);
	for (uint32_t wanted = 1; wanted < 5; wanted++) {
		residency_answer(own, 0, wanted - 1);
		residency_answer(own, 5, wanted);
		residency_miss(own, HAMI_SLOTS, 1, wanted);
		assert_int_equal(residency_idle(own, 0, 1), 0);
		assert_int_equal(residency_idle_but(own, HAMI_SLOTS, 1), 6 * MIB);
		assert_int_equal(residency_kept_idle_but(own, HAMI_SLOTS, 1), 20 * MIB);
		residency_answer(own, 0, wanted);
		assert_int_equal(residency_idle_but(own, HAMI_SLOTS, 1), 20 * MIB);
	}
	/* Not who asks, nor who has none there. */
	residency_miss(own, 0, 2, 10);
	assert_int_equal(residency_idle(own, 0, 1), 14 * MIB);
	assert_int_equal(residency_idle(own, 5, 1), 0);
	residency_miss(own, 5, 1, 10);
	assert_int_equal(residency_idle(own, 0, 1), 0);
	/* So it is with host memory. */
	own->flags = RATION_FLAG_OVERSUBSCRIBE;
	own->host_bytes = 100 * MIB;
	assert_int_equal(residency_add(own, 0, RESIDENCY_HOST, 40 * MIB, UINT64_MAX), 0);
	residency_answer(own, 0, 10);
	residency_miss(own, HAMI_SLOTS, RESIDENCY_HOST, 11);
	residency_keep(own, 0, 30 * MIB);
	assert_int_equal(residency_free(own, 1, 0), 90 * MIB);
	residency_miss(own, HAMI_SLOTS, RESIDENCY_HOST, 11);
	assert_int_equal(residency_free(own, 1, 0), 60 * MIB);
	residency_answer(own, 0, 11);
	assert_int_equal(residency_free(own, 1, 0), 90 * MIB);
	/* Its next owner begins anew. */
	residency_clear(own, 0);
	residency_set_idle(own, 0, 1, 1);
	assert_int_equal(residency_idle(own, 0, 1), 2 * MIB);
	free(own);
}

static void test_a_crowd_never_passes_it(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	crowd.own = make();
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, be_member, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_true(crowd.worst_bytes >= MIB && crowd.worst_bytes <= 3 * MIB);
	assert_int_equal(residency_sum(crowd.own, 0), 0);
	free(crowd.own);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_sum_has_a_bound),
		cmocka_unit_test(test_what_is_kept_can_be_had),
		cmocka_unit_test(test_what_is_idle_on_a_card),
		cmocka_unit_test(test_who_does_not_answer_has_nothing_idle),
		cmocka_unit_test(test_a_crowd_never_passes_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
