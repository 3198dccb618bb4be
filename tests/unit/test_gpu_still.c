#include "drv/gpu_still.h"

#include "base/clock.h"
#include "core/gate.h"
#include "drv/capture.h"
#include "drv/gpu_fence.h"
#include "plug.h"

#include <errno.h>
#include <pthread.h>

static const struct cuda_ord ord0 = { 0 };
static const struct gpu_still_waits waits = { .shut_ns = 50 * NSEC_PER_MSEC,
					      .done_ns = 50 * NSEC_PER_MSEC };
static const struct gpu_still_waits longer = { .shut_ns = 10 * NSEC_PER_SEC,
					       .done_ns = 10 * NSEC_PER_SEC };

static _Atomic bool may_leave, has_passed;

static void start(void)
{
	CUcontext ctx = sim_gpu_start("mem=64m,context=8m");

	gpu_fence_init();
	gpu_still_init();
	gpu_fence_add_context(ctx, ord0, true);
}

static void *pass(void *arg)
{
	(void)arg;
	gate_leave(gate_enter());
	atomic_store(&has_passed, true);
	return NULL;
}

static void no_gate_is_shut(void)
{
	pthread_t thread;

	atomic_store(&has_passed, false);
	CHECK_EQ(pthread_create(&thread, NULL, pass, NULL), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK(atomic_load(&has_passed));
}

static void others_wait_until_the_last_end(void)
{
	pthread_t thread;

	start();
	CHECK(!gpu_still_is_mine());
	CHECK_EQ(gpu_still_begin(&waits), 0);
	CHECK_EQ(gpu_still_begin(&waits), 0);
	CHECK(gpu_still_is_mine());
	atomic_store(&has_passed, false);
	CHECK_EQ(pthread_create(&thread, NULL, pass, NULL), 0);
	/* One's own calls go through. */
	gate_leave(gate_enter());
	gpu_still_end();
	CHECK(gpu_still_is_mine());
	clock_sleep_ns(20 * NSEC_PER_MSEC);
	CHECK(!atomic_load(&has_passed));
	gpu_still_end();
	CHECK(!gpu_still_is_mine());
	CHECK_EQ(pthread_join(thread, NULL), 0);
	/* An end too many is no harm. */
	gpu_still_end();
	no_gate_is_shut();
}

static void *stay_inside(void *arg)
{
	uint32_t was_in = gate_enter();

	(void)arg;
	atomic_store(&has_passed, true);
	while (!atomic_load(&may_leave))
		clock_sleep_ns(NSEC_PER_MSEC);
	gate_leave(was_in);
	return NULL;
}

static void a_thread_that_stays_inside_is_not_waited_for_long(void)
{
	pthread_t thread;

	start();
	CHECK_EQ(pthread_create(&thread, NULL, stay_inside, NULL), 0);
	while (!atomic_load(&has_passed))
		clock_sleep_ns(NSEC_PER_MSEC);
	CHECK_EQ(gpu_still_begin(&waits), -EBUSY);
	CHECK(!gpu_still_is_mine());
	no_gate_is_shut();
	atomic_store(&may_leave, true);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(gpu_still_begin(&longer), 0);
	gpu_still_end();
}

static void *shut_the_gate(void *arg)
{
	(void)arg;
	CHECK_EQ(gate_close(NSEC_PER_SEC), 0);
	atomic_store(&has_passed, true);
	while (!atomic_load(&may_leave))
		clock_sleep_ns(NSEC_PER_MSEC);
	gate_open();
	return NULL;
}

static void another_who_has_it_shut_is_not_waited_for_long(void)
{
	pthread_t thread;

	start();
	CHECK_EQ(pthread_create(&thread, NULL, shut_the_gate, NULL), 0);
	while (!atomic_load(&has_passed))
		clock_sleep_ns(NSEC_PER_MSEC);
	CHECK_EQ(gpu_still_begin(&waits), -EBUSY);
	CHECK(!gpu_still_is_mine());
	atomic_store(&may_leave, true);
	CHECK_EQ(gpu_still_begin(&longer), 0);
	gpu_still_end();
	CHECK_EQ(pthread_join(thread, NULL), 0);
	no_gate_is_shut();
}

static void work_that_goes_on_is_not_waited_for_long(void)
{
	static struct plug plug = PLUG_INIT;

	start();
	plug_put(&plug, NULL);
	CHECK_EQ(gpu_still_begin(&waits), -EBUSY);
	CHECK_EQ(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	no_gate_is_shut();
	plug_pull(&plug);
	SIM_OK(cuCtxSynchronize());
	CHECK_EQ(gpu_still_begin(&longer), 0);
	gpu_still_end();
}

/* What is asked while work is waited for, which does not end. */
static struct {
	_Atomic unsigned times, last; /* with the last it is over; 0: never */
} asked;

static bool is_over(void *arg)
{
	CHECK(arg == &asked);
	return atomic_fetch_add(&asked.times, 1) + 1 == atomic_load(&asked.last);
}

static const struct gpu_still_waits for_ever = {
	.shut_ns = 10 * NSEC_PER_SEC,
	.done_ns = INT64_C(100000) * NSEC_PER_SEC,
	.is_over = is_over,
	.arg = &asked,
};

static void a_long_wait_ends_when_it_should(void)
{
	static struct plug plug = PLUG_INIT;

	start();
	plug_put(&plug, NULL);
	atomic_store(&asked.last, 3);
	CHECK_EQ(gpu_still_begin(&for_ever), -EBUSY);
	CHECK_EQ(atomic_load(&asked.times), 3);
	no_gate_is_shut();
	plug_pull(&plug);
	SIM_OK(cuCtxSynchronize());
	/* Nobody is asked where nothing is waited for. */
	CHECK_EQ(gpu_still_begin(&for_ever), 0);
	CHECK(atomic_load(&asked.times) <= 4);
	gpu_still_end();
}

static void *want_the_gate(void *arg)
{
	(void)arg;
	while (atomic_load(&asked.times) < 2)
		clock_sleep_ns(NSEC_PER_MSEC);
	CHECK_EQ(gate_close(0), -EBUSY);
	return NULL;
}

static void a_long_wait_ends_when_another_wants_the_gate(void)
{
	static struct plug plug = PLUG_INIT;
	struct gpu_still_waits polite = for_ever;
	pthread_t thread;

	polite.gives_way = true;
	start();
	plug_put(&plug, NULL);
	CHECK_EQ(pthread_create(&thread, NULL, want_the_gate, NULL), 0);
	CHECK_EQ(gpu_still_begin(&polite), -EBUSY);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	no_gate_is_shut();
	plug_pull(&plug);
}

/* With the gate shut all along, and whoever is let through may give the device work again. */
static void some_may_go_on_before_all_stands_still(void)
{
	static struct plug plug = PLUG_INIT;
	pthread_t thread;

	start();
	plug_put(&plug, NULL);
	CHECK_EQ(gpu_still_shut(&waits), 0);
	CHECK_EQ(gpu_still_wait(&waits), -EBUSY);
	CHECK(!gpu_still_is_mine());
	CHECK_EQ(pthread_create(&thread, NULL, stay_inside, NULL), 0);
	clock_sleep_ns(20 * NSEC_PER_MSEC);
	CHECK(!atomic_load(&has_passed));
	gpu_still_let(1, NULL, 10 * NSEC_PER_SEC);
	while (!atomic_load(&has_passed))
		clock_sleep_ns(NSEC_PER_MSEC);
	plug_pull(&plug);
	CHECK_EQ(gpu_still_wait(&waits), -EBUSY);
	atomic_store(&may_leave, true);
	CHECK_EQ(gpu_still_wait(&longer), 0);
	CHECK(gpu_still_is_mine());
	CHECK_EQ(pthread_join(thread, NULL), 0);
	/* Who lets some pass has it no more. */
	gpu_still_let(1, NULL, NSEC_PER_MSEC);
	CHECK(!gpu_still_is_mine());
	gpu_still_open();
	no_gate_is_shut();
}

static void a_capture_comes_first(void)
{
	start();
	capture_begin();
	CHECK_EQ(gpu_still_begin(&waits), -EAGAIN);
	no_gate_is_shut();
	capture_end();
	CHECK_EQ(gpu_still_begin(&waits), 0);
	gpu_still_end();
	/* One end too many counts nothing. */
	capture_end();
	CHECK(!capture_any());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(others_wait_until_the_last_end),
		fresh_test(a_thread_that_stays_inside_is_not_waited_for_long),
		fresh_test(another_who_has_it_shut_is_not_waited_for_long),
		fresh_test(work_that_goes_on_is_not_waited_for_long),
		fresh_test(a_long_wait_ends_when_it_should),
		fresh_test(a_long_wait_ends_when_another_wants_the_gate),
		fresh_test(some_may_go_on_before_all_stands_still),
		fresh_test(a_capture_comes_first),
	};

	return cmocka_run_group_tests_name("gpu_still", tests, NULL, NULL);
}
