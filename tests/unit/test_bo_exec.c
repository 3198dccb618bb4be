/*
 * The kernel's cases for having many objects at once, by their names, for ours. What is prepared
 * there beyond having the objects, room for fences, is not needed here: of a fence one number is
 * kept.
 */
#include "core/bo_exec.h"

#include "check.h"
#include "fake_owner.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define MIB(n) (UINT64_C(n) << 20)

static void drm_exec_sanitycheck(void **state)
{
	struct bo_exec exec;

	(void)state;
	bo_exec_begin(&exec, false);
	assert_int_equal(exec.count, 0);
	assert_int_equal(exec.ticket.held, 0);
	bo_exec_end(&exec);
}

static void drm_exec_test_prepare(void **state)
{
	struct owner *owner = *state;
	struct bo_exec exec;
	struct owned a;

	owner_make_in(owner, &a, MIB(2), BO_VRAM);
	bo_exec_begin(&exec, false);
	assert_ok(bo_exec_reserve(&exec, &a.bo));
	bo_add_fence(&a.bo, 1);
	bo_exec_end(&exec);
	assert_int_equal(bo_wait(&a.bo, &(struct bo_ctx){ .no_wait = true }), -EBUSY);
	assert_ok(bo_wait(&a.bo, NULL));
	bo_put(&a.bo);
}

static void drm_exec_test_lock(void **state)
{
	struct owner *owner = *state;
	struct bo_exec exec;
	struct owned a;
	int rc;

	owner_make(owner, &a, MIB(2));
	bo_exec_begin(&exec, false);
	do
		rc = bo_exec_reserve(&exec, &a.bo);
	while (bo_exec_again(&exec, &rc));
	assert_ok(rc);
	assert_ptr_equal(a.bo.holder, &exec.ticket);
	bo_exec_end(&exec);
	assert_false(a.bo.is_reserved);
	bo_put(&a.bo);
}

static void drm_exec_test_lock_unlock(void **state)
{
	struct owner *owner = *state;
	struct bo_exec exec;
	struct owned a, b;

	owner_make(owner, &a, MIB(2));
	owner_make(owner, &b, MIB(2));
	bo_exec_begin(&exec, false);
	assert_ok(bo_exec_reserve(&exec, &a.bo));
	assert_ok(bo_exec_reserve(&exec, &b.bo));
	bo_exec_unreserve(&exec, &a.bo);
	assert_false(a.bo.is_reserved);
	bo_exec_unreserve(&exec, &a.bo);
	assert_ok(bo_exec_reserve(&exec, &a.bo));
	assert_true(a.bo.is_reserved && b.bo.is_reserved);
	bo_exec_end(&exec);
	bo_put(&a.bo);
	bo_put(&b.bo);
}

static void drm_exec_test_duplicates(void **state)
{
	struct owner *owner = *state;
	struct bo_exec exec;
	struct owned a;

	owner_make(owner, &a, MIB(2));
	bo_exec_begin(&exec, false);
	assert_ok(bo_exec_reserve(&exec, &a.bo));
	assert_ok(bo_exec_reserve(&exec, &a.bo));
	assert_int_equal(exec.count, 1);
	bo_exec_unreserve(&exec, &a.bo);
	assert_false(a.bo.is_reserved);
	bo_exec_end(&exec);
	bo_put(&a.bo);
}

static void drm_exec_test_prepare_array(void **state)
{
	enum { MANY = 3 * BO_EXEC_OWN };
	struct owner *owner = *state;
	struct owned all[MANY];
	struct bo *objects[MANY];
	struct bo_exec exec;

	for (unsigned i = 0; i < MANY; i++) {
		owner_make(owner, &all[i], MIB(2));
		objects[i] = &all[i].bo;
	}
	bo_exec_begin(&exec, false);
	assert_ok(bo_exec_reserve_all(&exec, objects, MANY));
	for (unsigned i = 0; i < MANY; i++)
		assert_ptr_equal(all[i].bo.holder, &exec.ticket);
	assert_int_equal(exec.ticket.held, MANY);
	bo_exec_end(&exec);
	assert_int_equal(exec.ticket.held, 0);
	for (unsigned i = 0; i < MANY; i++)
		bo_put(&all[i].bo);
}

static void drm_exec_test_multiple_loops(void **state)
{
	struct owner *owner = *state;
	struct bo_exec exec;
	struct owned a;

	owner_make(owner, &a, MIB(2));
	for (unsigned i = 0; i < 2; i++) {
		int rc = -EDEADLK;

		bo_exec_begin(&exec, false);
		assert_ok(bo_exec_reserve(&exec, &a.bo));
		assert_true(bo_exec_again(&exec, &rc));
		assert_ok(rc);
		assert_false(a.bo.is_reserved);
		assert_false(bo_exec_again(&exec, &rc));
		bo_exec_end(&exec);
	}
	bo_put(&a.bo);
}

static void it_keeps_what_it_has(void **state)
{
	struct owner *owner = *state;
	struct bo_exec exec;
	struct owned a;

	owner_make(owner, &a, MIB(2));
	bo_exec_begin(&exec, false);
	assert_ok(bo_exec_reserve(&exec, &a.bo));
	bo_put(&a.bo);
	assert_false(a.is_destroyed);
	bo_exec_end(&exec);
	assert_true(a.is_destroyed);
}

static void who_must_not_wait_does_not_begin_again(void **state)
{
	struct owner *owner = *state;
	struct bo_exec older, younger;
	struct owned a, b;
	int rc;

	owner_make(owner, &a, MIB(2));
	owner_make(owner, &b, MIB(2));
	bo_exec_begin(&older, false);
	bo_exec_begin(&younger, true);
	assert_ok(bo_exec_reserve(&older, &a.bo));
	assert_ok(bo_exec_reserve(&younger, &b.bo));
	rc = bo_exec_reserve(&younger, &a.bo);
	assert_int_equal(rc, -EBUSY);
	assert_false(bo_exec_again(&younger, &rc));
	assert_int_equal(rc, -EBUSY);
	bo_exec_end(&younger);
	bo_exec_end(&older);
	bo_put(&a.bo);
	bo_put(&b.bo);
}

static void an_attempt_too_many(void **state)
{
	struct owner *owner = *state;
	int rc = -EDEADLK;
	struct bo_exec exec;
	struct owned a;

	owner_make(owner, &a, MIB(2));
	bo_exec_begin(&exec, false);
	assert_ok(bo_exec_reserve(&exec, &a.bo));
	exec.begin_ns -= BO_WAIT_NS;
	assert_false(bo_exec_again(&exec, &rc));
	assert_int_equal(rc, -EBUSY);
	assert_false(a.bo.is_reserved);
	bo_exec_end(&exec);
	bo_put(&a.bo);
}

static void what_was_lost_is_had_first(void **state)
{
	struct owner *owner = *state;
	struct bo_exec older, younger;
	struct owned a, b;
	int rc;

	owner_make(owner, &a, MIB(2));
	owner_make(owner, &b, MIB(2));
	bo_exec_begin(&older, false);
	bo_exec_begin(&younger, false);
	assert_ok(bo_exec_reserve(&older, &a.bo));
	assert_ok(bo_exec_reserve(&younger, &b.bo));
	rc = bo_exec_reserve(&younger, &a.bo);
	assert_int_equal(rc, -EDEADLK);
	bo_exec_unreserve(&older, &a.bo);
	assert_true(bo_exec_again(&younger, &rc));
	assert_ptr_equal(a.bo.holder, &younger.ticket);
	assert_false(b.bo.is_reserved);
	assert_ok(bo_exec_reserve(&younger, &b.bo));
	assert_ok(bo_exec_reserve(&younger, &a.bo));
	assert_int_equal(younger.count, 2);
	bo_exec_end(&younger);
	bo_exec_end(&older);
	bo_put(&a.bo);
	bo_put(&b.bo);
}

enum { THREADS = 4, OBJECTS = 5, TIMES = BUILD_SANITIZED ? 200 : 2000 };

struct locker {
	pthread_t thread;
	struct owned *all;
	unsigned seed, times;
	unsigned *counts; /* of each object: its holder's */
	int rc;
};

static void *lock_many(void *arg)
{
	struct locker *locker = arg;

	for (unsigned i = 0; i < TIMES && locker->rc == 0; i++) {
		unsigned picked[3];
		struct bo_exec exec;

		for (unsigned k = 0; k < 3; k++)
			picked[k] = (unsigned)rand_r(&locker->seed) % OBJECTS;
		bo_exec_begin(&exec, false);
		do {
			locker->rc = 0;
			for (unsigned k = 0; k < 3 && locker->rc == 0; k++)
				locker->rc = bo_exec_reserve(&exec, &locker->all[picked[k]].bo);
		} while (bo_exec_again(&exec, &locker->rc));
		for (unsigned k = 0; k < 3 && locker->rc == 0; k++)
			locker->counts[picked[k]]++;
		bo_exec_end(&exec);
		locker->times++;
	}
	return NULL;
}

/* In any order, and each gets all of them each time. */
static void many_threads_have_what_they_want(void **state)
{
	struct owner *owner = *state;
	struct locker lockers[THREADS];
	unsigned counts[OBJECTS] = { 0 }, sum = 0;
	struct owned all[OBJECTS];

	for (unsigned i = 0; i < OBJECTS; i++)
		owner_make(owner, &all[i], MIB(2));
	for (unsigned i = 0; i < THREADS; i++) {
		lockers[i] = (struct locker){ .all = all, .seed = i, .counts = counts };
		assert_int_equal(pthread_create(&lockers[i].thread, NULL, lock_many, &lockers[i]),
				 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(lockers[i].thread, NULL), 0);
		assert_ok(lockers[i].rc);
		assert_int_equal(lockers[i].times, TIMES);
	}
	for (unsigned i = 0; i < OBJECTS; i++) {
		sum += counts[i];
		assert_null(all[i].bo.heir);
		bo_put(&all[i].bo);
	}
	assert_int_equal(sum, 3 * THREADS * TIMES);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, owner_setup, owner_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(drm_exec_sanitycheck),
		TEST(drm_exec_test_prepare),
		TEST(drm_exec_test_lock),
		TEST(drm_exec_test_lock_unlock),
		TEST(drm_exec_test_duplicates),
		TEST(drm_exec_test_prepare_array),
		TEST(drm_exec_test_multiple_loops),
		TEST(it_keeps_what_it_has),
		TEST(who_must_not_wait_does_not_begin_again),
		TEST(an_attempt_too_many),
		TEST(what_was_lost_is_had_first),
		TEST(many_threads_have_what_they_want),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
