#include "drv/gpu_fence.h"

#include "../../examples/kernels.h"
#include "base/clock.h"
#include "drv/capture.h"
#include "plug.h"

#include <errno.h>
#include <pthread.h>

#define MACHINE "mem=512m,context=8m,sms=64"

static const struct cuda_ord ord0 = { 0 };

static CUfunction fill;
static struct plug plug = PLUG_INIT;

static CUcontext start(void)
{
	CUcontext ctx = sim_gpu_start(MACHINE);

	gpu_fence_init();
	gpu_fence_add_context(ctx, ord0, true);
	return ctx;
}

/* Functions of the current context. */
static void load(void)
{
	CUmodule module;

	SIM_OK(cuModuleLoadData(&module, kernels_ptx));
	SIM_OK(cuModuleGetFunction(&fill, module, "fill"));
}

static void wait_for(struct gpu_fence *fence)
{
	int64_t end_ns = clock_now_ns() + 10 * NSEC_PER_SEC;

	while (gpu_fence_poll(fence) == -EAGAIN) {
		CHECK(clock_now_ns() < end_ns);
		clock_sleep_ns(NSEC_PER_MSEC);
	}
	CHECK_EQ(gpu_fence_poll(fence), 0);
}

/* What is in the stream is waited for. */
static void expect_to_wait(CUstream stream)
{
	struct gpu_fence fence = { NULL };

	CHECK_EQ(gpu_fence_record(&fence), 0);
	CHECK_EQ(gpu_fence_poll(&fence), -EAGAIN);
	plug_pull(&plug);
	wait_for(&fence);
	if (stream)
		SIM_OK(cuStreamQuery(stream));
}

static void all_streams_of_all_contexts(bool has_whole_events)
{
	CUcontext ctx = start(), other;
	CUstream stream, blocking;
	struct gpu_fence fence = { NULL };

	if (!has_whole_events)
		real.cuCtxRecordEvent = NULL;
	CHECK_EQ(gpu_fence_wants_streams(), !has_whole_events);
	load();
	CHECK(!gpu_fence_is_used());
	CHECK_EQ(gpu_fence_record(&fence), 0);
	CHECK(gpu_fence_is_used());
	wait_for(&fence);
	plug_put(&plug, NULL);
	expect_to_wait(CU_STREAM_LEGACY);
	SIM_OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	gpu_fence_add_stream(ctx, blocking, CU_STREAM_DEFAULT);
	plug_put(&plug, blocking);
	expect_to_wait(blocking);
	SIM_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	gpu_fence_add_stream(ctx, stream, CU_STREAM_NON_BLOCKING);
	plug_put(&plug, stream);
	expect_to_wait(stream);
	plug_put(&plug, CU_STREAM_PER_THREAD);
	expect_to_wait(CU_STREAM_PER_THREAD);
	/* In another context, while the thread has the first. */
	SIM_OK(cuCtxCreate_v2(&other, 0, 0));
	gpu_fence_add_context(other, ord0, false);
	load();
	plug_put(&plug, NULL);
	SIM_OK(cuCtxSetCurrent(ctx));
	expect_to_wait(NULL);
}

static void all_streams_of_all_contexts_are_waited_for(void)
{
	all_streams_of_all_contexts(true);
}

static void so_are_they_with_an_older_driver(void)
{
	all_streams_of_all_contexts(false);
}

static void what_a_destroyed_stream_does_is_waited_for(void)
{
	CUcontext ctx = start();
	CUstream stream;

	real.cuCtxRecordEvent = NULL;
	load();
	SIM_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	gpu_fence_add_stream(ctx, stream, CU_STREAM_NON_BLOCKING);
	plug_put(&plug, stream);
	gpu_fence_drop_stream(stream);
	SIM_OK(cuStreamDestroy_v2(stream));
	expect_to_wait(NULL);
	/* One that is not known is no harm. */
	gpu_fence_drop_stream(stream);
}

/* With that alone no fence can be had: its work would not be waited for. */
static void a_stream_of_an_unknown_context_is_not_passed_over(void)
{
	struct gpu_fence fence = { NULL };
	CUstream stream;

	start();
	real.cuCtxRecordEvent = NULL;
	SIM_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	gpu_fence_add_stream(NULL, stream, CU_STREAM_NON_BLOCKING);
	CHECK_EQ(gpu_fence_record(&fence), -EBUSY);
}

static void what_green_contexts_do_is_waited_for(void)
{
	CUdevResource all, group;
	CUdevResourceDesc desc;
	unsigned count = 1;
	CUgreenCtx green;
	CUstream stream;

	sim_gpu_start(MACHINE);
	gpu_fence_init();
	load();
	SIM_OK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
	SIM_OK(cuDevSmResourceSplitByCount(&group, &count, &all, NULL, 0, 8));
	SIM_OK(cuDevResourceGenerateDesc(&desc, &group, 1));
	SIM_OK(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	gpu_fence_add_primary(ord0);
	SIM_OK(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
	plug_put(&plug, stream);
	expect_to_wait(stream);
}

static void an_ended_context_is_waited_for_no_longer(void)
{
	CUcontext ctx = start(), other;
	struct gpu_fence fence = { NULL }, later = { NULL };
	uint64_t serial, again;

	SIM_OK(cuCtxCreate_v2(&other, 0, 0));
	gpu_fence_add_context(other, ord0, false);
	load();
	plug_put(&plug, NULL);
	CHECK_EQ(gpu_fence_record(&fence), 0);
	gpu_fence_ending(other);
	CHECK_EQ(gpu_fence_record(&later), -EAGAIN);
	CHECK_EQ(gpu_fence_poll(&fence), -EAGAIN);
	/* It did not end after all. */
	gpu_fence_ended(other, false);
	CHECK_EQ(gpu_fence_record(&later), 0);
	gpu_fence_end(&later);
	plug_pull(&plug);
	gpu_fence_ending(other);
	SIM_OK(cuCtxDestroy_v2(other));
	gpu_fence_ended(other, true);
	CHECK_EQ(gpu_fence_poll(&fence), 0);
	CHECK_EQ(gpu_fence_record(&later), 0);
	SIM_OK(cuCtxSetCurrent(ctx));
	wait_for(&later);
	CHECK(gpu_fence_context(ord0, &serial) == ctx);
	/* The handle may come again: it is another one. */
	gpu_fence_ending(ctx);
	CHECK(!gpu_fence_context(ord0, &again));
	gpu_fence_add_context(ctx, ord0, true);
	gpu_fence_ended(ctx, true);
	CHECK(gpu_fence_context(ord0, &again) == ctx);
	CHECK(again != serial);
}

static void a_failed_context_is_waited_for_no_longer(void)
{
	uint64_t nowhere = 4096, words = 1;
	uint32_t value = 1;
	void *params[] = { &nowhere, &value, &words };
	struct gpu_fence fence = { NULL };
	CUcontext ctx = start(), other;
	CUstream stream;

	SIM_OK(cuCtxCreate_v2(&other, 0, 0));
	gpu_fence_add_context(other, ord0, false);
	load();
	plug_put(&plug, NULL);
	SIM_OK(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	CHECK_EQ(gpu_fence_record(&fence), 0);
	CHECK_EQ(gpu_fence_poll(&fence), -EAGAIN);
	plug_pull(&plug);
	wait_for(&fence);
	CHECK_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	/* The others go on. */
	SIM_OK(cuCtxSetCurrent(ctx));
	load();
	SIM_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	plug_put(&plug, stream);
	expect_to_wait(stream);
}

static void a_capture_is_not_disturbed(void)
{
	struct gpu_fence before = { NULL }, fence = { NULL };
	CUstream stream;
	CUgraph graph = NULL;

	start();
	load();
	SIM_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	plug_put(&plug, stream);
	CHECK_EQ(gpu_fence_record(&before), 0);
	capture_begin();
	SIM_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CHECK_EQ(gpu_fence_record(&fence), -EAGAIN);
	CHECK_EQ(gpu_fence_poll(&before), -EAGAIN);
	plug_pull(&plug);
	wait_for(&before);
	SIM_OK(cuStreamEndCapture(stream, &graph));
	CHECK(graph);
	capture_end();
	CHECK_EQ(gpu_fence_record(&fence), 0);
	wait_for(&fence);
}

static void in_child(void *arg)
{
	(void)arg;
	CHECK(!gpu_fence_is_used());
	CHECK(!gpu_fence_wants_streams());
}

static void a_fork_child_begins_with_nothing(void)
{
	struct gpu_fence fence = { NULL };

	start();
	CHECK_EQ(gpu_fence_record(&fence), 0);
	wait_for(&fence);
	child_run(in_child, NULL);
}

/* Nothing is kept where memory does not move. */
static void without_a_start_nothing_is_noted(void)
{
	struct gpu_fence fence = { NULL };
	CUcontext ctx = sim_gpu_start(MACHINE);
	uint64_t serial;

	gpu_fence_add_context(ctx, ord0, true);
	CHECK(!gpu_fence_context(ord0, &serial));
	CHECK_EQ(gpu_fence_record(&fence), 0);
	CHECK_EQ(gpu_fence_poll(&fence), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(all_streams_of_all_contexts_are_waited_for),
		fresh_test(so_are_they_with_an_older_driver),
		fresh_test(what_a_destroyed_stream_does_is_waited_for),
		fresh_test(a_stream_of_an_unknown_context_is_not_passed_over),
		fresh_test(what_green_contexts_do_is_waited_for),
		fresh_test(an_ended_context_is_waited_for_no_longer),
		fresh_test(a_failed_context_is_waited_for_no_longer),
		fresh_test(a_capture_is_not_disturbed),
		fresh_test(a_fork_child_begins_with_nothing),
		fresh_test(without_a_start_nothing_is_noted),
	};

	return cmocka_run_group_tests_name("gpu_fence", tests, NULL, NULL);
}
