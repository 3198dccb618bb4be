/*
 * The kernel's cases for having an object, by their names, for ours.
 *
 * A ticket that must not wait is no mistake here, as it is there: it has what is free.
 */
#include "core/bo_reserve.h"

#include "base/clock.h"
#include "check.h"
#include "core/bo_device.h"
#include "core/bo_ticket.h"
#include "fake_owner.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#define MIB(n) (UINT64_C(n) << 20)

/* A thread that has an object, or waits for it. */
struct waiter {
	pthread_t thread;
	struct bo *bo;
	struct bo_ticket *ticket;
	bool is_back; /* atomic */
	int rc;
};

static void *wait_for_it(void *arg)
{
	struct waiter *waiter = arg;
	struct bo_ctx ctx = { .ticket = waiter->ticket };

	waiter->rc = bo_reserve(waiter->bo, &ctx);
	__atomic_store_n(&waiter->is_back, true, __ATOMIC_RELEASE);
	return NULL;
}

static void begin_waiting(struct waiter *waiter, struct bo *bo, struct bo_ticket *ticket)
{
	*waiter = (struct waiter){ .bo = bo, .ticket = ticket };
	assert_int_equal(pthread_create(&waiter->thread, NULL, wait_for_it, waiter), 0);
}

/* Until so many wait on the device. */
static void until_they_wait(struct bo_device *device, unsigned count)
{
	unsigned waiters = 0;

	while (waiters < count) {
		bo_device_lock(device);
		waiters = device->waiters;
		bo_device_unlock(device);
		clock_sleep_ns(NSEC_PER_USEC);
	}
}

static void ttm_bo_reserve_optimistic_no_ticket(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx waits = { .ticket = NULL }, does_not = { .no_wait = true };
	struct bo_ctx *all[] = { NULL, &waits, &does_not };
	struct owned a;

	owner_make(owner, &a, MIB(2));
	for (unsigned i = 0; i < 3; i++) {
		assert_ok(bo_reserve(&a.bo, all[i]));
		assert_true(a.bo.is_reserved);
		bo_unreserve(&a.bo);
		assert_false(a.bo.is_reserved);
	}
	bo_put(&a.bo);
}

static void ttm_bo_reserve_locked_no_sleep(void **state)
{
	struct owner *owner = *state;
	struct bo_ctx ctx = { .no_wait = true };
	struct owned a;

	owner_make(owner, &a, MIB(2));
	assert_ok(bo_reserve(&a.bo, NULL));
	assert_int_equal(bo_reserve(&a.bo, &ctx), -EBUSY);
	bo_unreserve(&a.bo);
	bo_put(&a.bo);
}

static void ttm_bo_reserve_no_wait_ticket(void **state)
{
	struct owner *owner = *state;
	struct bo_ticket older, younger;
	struct bo_ctx first = { .ticket = &older }, second = { .ticket = &younger };
	struct owned a, b;

	owner_make(owner, &a, MIB(2));
	owner_make(owner, &b, MIB(2));
	bo_ticket_begin(&older);
	bo_ticket_begin(&younger);
	second.no_wait = true;
	assert_ok(bo_reserve(&a.bo, &first));
	assert_int_equal(bo_reserve(&a.bo, &second), -EBUSY);
	/* Nor is it asked to give back what it has. */
	assert_ok(bo_reserve(&b.bo, &second));
	assert_int_equal(bo_reserve(&a.bo, &second), -EBUSY);
	assert_null(younger.lost);
	bo_unreserve(&a.bo);
	bo_unreserve(&b.bo);
	bo_ticket_end(&older);
	bo_ticket_end(&younger);
	bo_put(&a.bo);
	bo_put(&b.bo);
}

static void ttm_bo_reserve_double_resv(void **state)
{
	struct owner *owner = *state;
	struct bo_ticket ticket;
	struct bo_ctx ctx = { .ticket = &ticket };
	struct owned a;

	owner_make(owner, &a, MIB(2));
	bo_ticket_begin(&ticket);
	assert_ok(bo_reserve(&a.bo, &ctx));
	assert_int_equal(bo_reserve(&a.bo, &ctx), -EALREADY);
	assert_int_equal(ticket.held, 1);
	bo_unreserve(&a.bo);
	assert_int_equal(ticket.held, 0);
	bo_ticket_end(&ticket);
	bo_put(&a.bo);
}

static void on_signal(int number)
{
	(void)number;
}

/*
 * There, a signal ends a wait. Here the program's own handler has run, and its call goes on: nobody
 * in a program expects an allocation to be interrupted.
 */
static void ttm_bo_reserve_interrupted(void **state)
{
	struct owner *owner = *state;
	struct sigaction action = { .sa_handler = on_signal }, before;
	struct waiter waiter;
	struct owned a;

	owner_make(owner, &a, MIB(2));
	assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
	assert_ok(bo_reserve(&a.bo, NULL));
	begin_waiting(&waiter, &a.bo, NULL);
	until_they_wait(&owner->device, 1);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(pthread_kill(waiter.thread, SIGUSR1), 0);
	assert_false(__atomic_load_n(&waiter.is_back, __ATOMIC_ACQUIRE));
	bo_unreserve(&a.bo);
	assert_int_equal(pthread_join(waiter.thread, NULL), 0);
	assert_ok(waiter.rc);
	assert_true(a.bo.is_reserved);
	bo_unreserve(&a.bo);
	assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
	bo_put(&a.bo);
}

static void ttm_bo_reserve_deadlock(void **state)
{
	struct owner *owner = *state;
	struct bo_ticket older, younger;
	struct bo_ctx first = { .ticket = &older }, second = { .ticket = &younger };
	struct waiter waiter;
	struct owned a, b;

	owner_make(owner, &a, MIB(2));
	owner_make(owner, &b, MIB(2));
	bo_ticket_begin(&older);
	bo_ticket_begin(&younger);
	assert_ok(bo_reserve(&a.bo, &first));
	assert_ok(bo_reserve(&b.bo, &second));
	assert_int_equal(bo_reserve(&a.bo, &second), -EDEADLK);
	assert_ptr_equal(younger.lost, &a.bo);
	/* The older one waits, and has it when the younger backs off. */
	begin_waiting(&waiter, &b.bo, &older);
	until_they_wait(&owner->device, 1);
	bo_unreserve(&b.bo);
	assert_int_equal(pthread_join(waiter.thread, NULL), 0);
	assert_ok(waiter.rc);
	assert_ptr_equal(b.bo.holder, &older);
	bo_unreserve(&b.bo);
	bo_unreserve(&a.bo);
	/* With nothing in hand the younger may have it. */
	assert_ok(bo_reserve(&a.bo, &second));
	bo_unreserve(&a.bo);
	bo_ticket_end(&older);
	bo_ticket_end(&younger);
	bo_put(&a.bo);
	bo_put(&b.bo);
}

/* Else somebody who comes again and again keeps it from the one who waits. */
static void nobody_overtakes_an_older_one(void **state)
{
	struct owner *owner = *state;
	struct bo_ticket older, younger;
	struct bo_ctx second = { .ticket = &younger, .no_wait = true };
	struct bo_ctx without = { .no_wait = true };
	struct waiter waiter;
	struct owned a, b;
	bool is_free;

	owner_make(owner, &a, MIB(2));
	owner_make(owner, &b, MIB(2));
	bo_ticket_begin(&older);
	bo_ticket_begin(&younger);
	assert_ok(bo_reserve(&a.bo, &second));
	begin_waiting(&waiter, &a.bo, &older);
	until_they_wait(&owner->device, 1);
	assert_ptr_equal(a.bo.heir, &older);
	/* Between the end of one and the beginning of the other, with the mutex. */
	bo_device_lock(&owner->device);
	bo_reserve_end(&a.bo);
	is_free = bo_reserve_try(&a.bo, &younger) || bo_reserve_try(&a.bo, NULL);
	bo_device_unlock(&owner->device);
	assert_false(is_free);
	assert_int_equal(pthread_join(waiter.thread, NULL), 0);
	assert_ok(waiter.rc);
	assert_null(a.bo.heir);
	assert_int_equal(bo_reserve(&a.bo, &without), -EBUSY);
	bo_unreserve(&a.bo);
	bo_ticket_end(&older);
	bo_ticket_end(&younger);
	bo_put(&a.bo);
	bo_put(&b.bo);
}

/* Who has something backs off as well from what an older one only waits for. */
static void who_waits_counts_as_who_has(void **state)
{
	struct owner *owner = *state;
	struct bo_ticket older, younger;
	struct bo_ctx second = { .ticket = &younger };
	struct waiter waiter;
	struct owned a, b;

	owner_make(owner, &a, MIB(2));
	owner_make(owner, &b, MIB(2));
	bo_ticket_begin(&older);
	bo_ticket_begin(&younger);
	assert_ok(bo_reserve(&a.bo, NULL));
	assert_ok(bo_reserve(&b.bo, &second));
	begin_waiting(&waiter, &a.bo, &older);
	until_they_wait(&owner->device, 1);
	assert_int_equal(bo_reserve(&a.bo, &second), -EDEADLK);
	bo_unreserve(&b.bo);
	bo_unreserve(&a.bo);
	assert_int_equal(pthread_join(waiter.thread, NULL), 0);
	assert_ok(waiter.rc);
	bo_unreserve(&a.bo);
	bo_ticket_end(&older);
	bo_ticket_end(&younger);
	bo_put(&a.bo);
	bo_put(&b.bo);
}

static void a_wait_has_an_end(void **state)
{
	struct owner *owner = *state;
	struct bo_ticket ticket;
	struct owned a;

	owner_make(owner, &a, MIB(2));
	bo_ticket_begin(&ticket);
	assert_ok(bo_reserve(&a.bo, NULL));
	assert_int_equal(bo_reserve_until(&a.bo, NULL, clock_now_ns() + NSEC_PER_MSEC), -EBUSY);
	assert_int_equal(bo_reserve_until(&a.bo, &ticket, clock_now_ns() + NSEC_PER_MSEC), -EBUSY);
	assert_null(a.bo.heir);
	bo_unreserve(&a.bo);
	bo_ticket_end(&ticket);
	bo_put(&a.bo);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, owner_setup, owner_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ttm_bo_reserve_optimistic_no_ticket),
		TEST(ttm_bo_reserve_locked_no_sleep),
		TEST(ttm_bo_reserve_no_wait_ticket),
		TEST(ttm_bo_reserve_double_resv),
		TEST(ttm_bo_reserve_interrupted),
		TEST(ttm_bo_reserve_deadlock),
		TEST(nobody_overtakes_an_older_one),
		TEST(who_waits_counts_as_who_has),
		TEST(a_wait_has_an_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
