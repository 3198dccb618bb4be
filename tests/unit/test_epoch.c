#include "drv/epoch.h"

#include "base/clock.h"
#include "core/gate.h"
#include "drv/capture.h"
#include "drv/gpu_fence.h"
#include "failing_driver.h"
#include "plug.h"

#include <errno.h>
#include <pthread.h>

enum { THREADS = 4, FREES = 2000 };

static struct plug plug = PLUG_INIT, other = PLUG_INIT;

static void start(void)
{
	CUcontext ctx = sim_gpu_start("mem=64m,context=8m");

	gpu_fence_init();
	epoch_init();
	gpu_fence_add_context(ctx, (struct cuda_ord){ 0 }, true);
	failing_start();
}

static int64_t soon(void)
{
	return clock_now_ns() + 10 * NSEC_PER_SEC;
}

static void a_free_asks_the_driver_nothing(void)
{
	uint64_t first;

	start();
	failing_none();
	CHECK_EQ(epoch_done(), 0);
	first = epoch_open();
	CHECK(first > 0);
	CHECK_EQ(epoch_open(), first);
	CHECK_EQ(failing.calls, 0);
	CHECK_EQ(epoch_wait(first, soon()), 0);
	CHECK(failing.calls > 0);
	/* What is known to be done is not asked again, nor anything while nothing was freed. */
	failing_none();
	CHECK(epoch_is_done(first));
	CHECK(epoch_is_done(0));
	CHECK_EQ(epoch_done(), first);
	CHECK_EQ(failing.calls, 0);
	CHECK(epoch_open() > first);
}

static void the_first_is_done_before_the_second(void)
{
	uint64_t first, second;

	start();
	plug_put(&plug, NULL);
	first = epoch_open();
	CHECK(!epoch_is_done(first));
	plug_put(&other, NULL);
	second = epoch_open();
	CHECK(second > first);
	CHECK(!epoch_is_done(second));
	plug_pull(&plug);
	CHECK_EQ(epoch_wait(first, soon()), 0);
	CHECK_EQ(epoch_wait(second, 0), -EBUSY);
	plug_pull(&other);
	CHECK_EQ(epoch_wait(second, soon()), 0);
}

/* Many more than are kept under way. */
static void those_that_wait_share_a_fence(void)
{
	uint64_t epoch = 0, last = 0;

	start();
	plug_put(&plug, NULL);
	for (int i = 0; i < 100; i++) {
		epoch = epoch_open();
		CHECK(epoch >= last);
		CHECK(!epoch_is_done(epoch));
		last = epoch;
	}
	CHECK(last < 20);
	plug_pull(&plug);
	CHECK_EQ(epoch_wait(last, soon()), 0);
}

static void during_a_capture_what_is_freed_waits(void)
{
	CUstream stream;
	CUgraph graph;
	uint64_t epoch;

	start();
	SIM_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	capture_begin();
	SIM_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	epoch = epoch_open();
	CHECK(!epoch_is_done(epoch));
	CHECK_EQ(epoch_wait(epoch, clock_now_ns() + 5 * NSEC_PER_MSEC), -EBUSY);
	SIM_OK(cuStreamEndCapture(stream, &graph));
	capture_end();
	CHECK_EQ(epoch_wait(epoch, soon()), 0);
}

static void a_call_that_fails_is_made_again(void)
{
	uint64_t epoch;

	start();
	for (unsigned at = 1; at <= 6; at++) {
		plug_put(&plug, NULL);
		epoch = epoch_open();
		failing_from(at, at, CUDA_ERROR_OUT_OF_MEMORY);
		CHECK(!epoch_is_done(epoch));
		plug_pull(&plug);
		CHECK_EQ(epoch_wait(epoch, soon()), 0);
		failing_none();
		SIM_OK(cuStreamQuery(NULL));
	}
}

/* Until somebody passes the gate again, and whenever the end of the work was seen. */
static void it_is_idle_when_all_is_done(void)
{
	uint64_t epoch;

	start();
	CHECK(!epoch_is_idle());
	GATE_CALL((plug_put(&plug, NULL), 0));
	epoch = epoch_open();
	CHECK(!epoch_is_done(epoch));
	CHECK(!epoch_is_idle());
	plug_pull(&plug);
	CHECK_EQ(epoch_wait(epoch, soon()), 0);
	CHECK(epoch_is_idle());
	GATE_ASK(cuStreamQuery(NULL));
	CHECK(epoch_is_idle());
	GATE_CALL((plug_put(&plug, NULL), 0));
	CHECK(!epoch_is_idle());
	plug_pull(&plug);
	CHECK_EQ(epoch_wait(epoch_open(), soon()), 0);
	CHECK(epoch_is_idle());
}

/* Its own work, which it is about to submit, is none that a fence of its could be for. */
static void who_asks_from_inside_does_not_see_it_idle(void)
{
	uint32_t was_in;

	start();
	was_in = gate_enter();
	CHECK_EQ(epoch_wait(epoch_open(), soon()), 0);
	CHECK(!epoch_is_idle());
	gate_leave(was_in);
	CHECK(!epoch_is_idle());
}

static void *free_and_wait(void *ctx)
{
	SIM_OK(cuCtxSetCurrent(ctx));
	for (unsigned i = 0; i < FREES; i++) {
		uint64_t epoch = epoch_open();

		if (i % 100 == 0)
			CHECK_EQ(epoch_wait(epoch, soon()), 0);
	}
	return NULL;
}

static void threads_share_them(void)
{
	pthread_t threads[THREADS];
	CUcontext ctx;

	start();
	SIM_OK(cuCtxGetCurrent(&ctx));
	real = failing.real;
	for (unsigned i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, free_and_wait, ctx), 0);
	for (unsigned i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	CHECK_EQ(epoch_wait(epoch_open(), soon()), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(a_free_asks_the_driver_nothing),
		fresh_test(the_first_is_done_before_the_second),
		fresh_test(those_that_wait_share_a_fence),
		fresh_test(during_a_capture_what_is_freed_waits),
		fresh_test(a_call_that_fails_is_made_again),
		fresh_test(it_is_idle_when_all_is_done),
		fresh_test(who_asks_from_inside_does_not_see_it_idle),
		fresh_test(threads_share_them),
	};

	return cmocka_run_group_tests_name("epoch", tests, NULL, NULL);
}
