/* Objects that move while a program works with them, on the software GPU. */
#include "moving.h"
#include "plug.h"

#include "../../examples/kernels.h"
#include "core/bo_hold.h"
#include "core/bo_swap.h"
#include "drv/capture.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>

#define MACHINE "mem=512m,context=8m"
enum {
	OBJECTS = 16,
	MOVES = BUILD_SANITIZED ? 100 : 10000,
	THREADS = 3,
	ROUNDS = BUILD_SANITIZED ? 12 : 40
};

static const struct gpu_bo_setup short_waits = {
	.still = { .shut_ns = 100 * NSEC_PER_MSEC, .done_ns = 100 * NSEC_PER_MSEC },
	.copy_ns = 10 * NSEC_PER_SEC,
	.part_bytes = GRAIN,
};

static struct bo objects[OBJECTS];
static CUmodule module;

static CUfunction function_of(const char *name)
{
	CUfunction f;

	if (!module)
		SIM_OK(cuModuleLoadData(&module, kernels_ptx));
	SIM_OK(cuModuleGetFunction(&f, module, name));
	return f;
}

static uint32_t random_of(uint32_t *state, uint32_t below)
{
	*state = *state * 1664525 + 1013904223;
	return (uint32_t)(((uint64_t)*state * below) >> 32);
}

/* Moves some of them together. Where one of another place is among them, in both directions. */
static int move_some(struct bo *const *some, unsigned count, enum bo_place place)
{
	const struct bo_placement placement = { &moving_wants[place], 1 };
	struct bo_ctx ctx = { 0 };
	int rc;

	for (unsigned i = 0; i < count; i++)
		CHECK_EQ(bo_reserve(some[i], NULL), 0);
	rc = bo_validate_all(some, count, &placement, &ctx);
	for (unsigned i = 0; i < count; i++)
		bo_unreserve(some[i]);
	return rc;
}

/* In one place or another, in new company each time; now and then somebody writes. */
static void bytes_survive_thousands_of_moves(void)
{
	uint32_t state = 1, seeds[OBJECTS], moved = 0;

	moving_start(MACHINE, NULL, 4 * OBJECTS * GRAIN);
	for (unsigned i = 0; i < OBJECTS; i++) {
		seeds[i] = i + 1;
		moving_make(&objects[i], 2 * i * GRAIN, GRAIN, BO_VRAM);
		moving_fill(&objects[i], seeds[i]);
	}
	while (moved < MOVES) {
		unsigned first = random_of(&state, OBJECTS);
		unsigned count = 1 + random_of(&state, 8);
		enum bo_place place = BO_VRAM + random_of(&state, 3);
		struct bo *some[8];
		int rc;

		for (unsigned i = 0; i < count; i++) {
			some[i] = &objects[(first + i) % OBJECTS];
			moved += some[i]->place != place;
		}
		while ((rc = move_some(some, count, place)) == -EBUSY)
			;
		CHECK_EQ(rc, 0);
		if (place == BO_SYSTEM)
			continue;
		CHECK(moving_holds(some[0], seeds[first]));
		if (random_of(&state, 20) == 0) {
			CHECK(moving_holds(some[0], seeds[first]));
			moving_fill(some[0], seeds[first] += OBJECTS);
		}
	}
	for (unsigned i = 0; i < OBJECTS; i++) {
		CHECK_EQ(moving_put_at_last(&objects[i], BO_VRAM), 0);
		CHECK(moving_holds(&objects[i], seeds[i]));
		bo_put(&objects[i]);
	}
	CHECK_EQ(bo_device_fini(&gpu.device), 0);
}

/* Half of them have room: others come in the place of some, again and again, with their bytes. */
static void objects_change_places(void)
{
	enum { NEAR = OBJECTS / 2, TIMES = BUILD_SANITIZED ? 15 : 150 };
	struct bo_swap goes[NEAR], comes[NEAR];
	uint32_t state = 7;

	moving_start(MACHINE, NULL, 4 * OBJECTS * GRAIN);
	bo_device_set_limit(&gpu.device, BO_VRAM, NEAR * GRAIN);
	for (unsigned i = 0; i < OBJECTS; i++) {
		moving_make(&objects[i], 2 * i * GRAIN, GRAIN, i < NEAR ? BO_VRAM : BO_GTT);
		moving_fill(&objects[i], i + 1);
	}
	for (unsigned time = 0; time < TIMES; time++) {
		unsigned most = 1 + random_of(&state, NEAR), out = 0, in = 0;
		unsigned first = random_of(&state, OBJECTS);

		for (unsigned k = 0; k < OBJECTS; k++) {
			struct bo *bo = &objects[(first + k) % OBJECTS];

			if (bo->place == BO_VRAM && out < most)
				goes[out++].bo = bo;
			else if (bo->place == BO_GTT && in < most)
				comes[in++].bo = bo;
		}
		CHECK_EQ(bo_swap(&gpu.device, goes, out, comes, in, NULL), 0);
		CHECK(!gpu_still_is_mine());
		for (unsigned k = 0; k < most; k++)
			CHECK(goes[k].bo->place == BO_GTT && comes[k].bo->place == BO_VRAM);
		for (unsigned i = 0; i < OBJECTS; i++)
			CHECK(moving_holds(&objects[i], i + 1));
	}
	for (unsigned i = 0; i < OBJECTS; i++) {
		CHECK(moving_holds(&objects[i], i + 1));
		bo_put(&objects[i]);
	}
	CHECK_EQ(bo_device_fini(&gpu.device), 0);
}

/* One thread's own objects: it counts in them by kernels, without waiting for each. */
struct worker {
	pthread_t thread;
	struct bo *counter;
	unsigned added;
};

static struct bo one; /* floats of 1 */
static _Atomic bool stop;
static CUfunction add;

static void *count_up(void *arg)
{
	uint64_t words = 4096;
	struct worker *w = arg;
	CUstream stream;

	SIM_OK(cuCtxSetCurrent(gpu.ctx));
	SIM_OK(GATE_CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)));
	while (!atomic_load(&stop)) {
		uint64_t counter = w->counter->addr, ones = one.addr;
		void *params[] = { &counter, &counter, &ones, &words };

		SIM_OK(GATE_CALL(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL)));
		w->added++;
		if (w->added % 64 == 0)
			SIM_OK(cuStreamSynchronize(stream));
	}
	SIM_OK(cuStreamSynchronize(stream));
	return NULL;
}

static float first_of(const struct bo *bo)
{
	float value = -1;

	SIM_OK(cuMemcpyDtoH_v2(&value, bo->addr, sizeof(value)));
	return value;
}

static void start_counting(struct worker *workers)
{
	add = function_of("add");
	moving_make(&one, 0, GRAIN, BO_VRAM);
	SIM_OK(cuMemsetD32_v2(one.addr, 0x3f800000, GRAIN / 4));
	for (unsigned i = 0; i < THREADS; i++) {
		moving_make(&objects[i], (i + 1) * GRAIN, GRAIN, BO_VRAM);
		SIM_OK(cuMemsetD32_v2(objects[i].addr, 0, GRAIN / 4));
		/* Their streams do not wait for it. */
		SIM_OK(cuCtxSynchronize());
		workers[i] = (struct worker){ .counter = &objects[i] };
		CHECK_EQ(pthread_create(&workers[i].thread, NULL, count_up, &workers[i]), 0);
	}
}

static void stop_counting(struct worker *workers)
{
	atomic_store(&stop, true);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	for (unsigned i = 0; i < THREADS; i++) {
		CHECK(workers[i].added > 0);
		CHECK_EQ((unsigned)first_of(&objects[i]), workers[i].added);
	}
}

static void threads_go_on_launching(void)
{
	struct worker workers[THREADS];
	unsigned moved = 0;

	moving_start(MACHINE, NULL, 8 * GRAIN);
	start_counting(workers);
	for (unsigned i = 0; moved < ROUNDS; i++) {
		struct bo *some[] = { &one, &objects[i % THREADS] };
		int rc = move_some(some, 2, i % 2 ? BO_VRAM : BO_GTT);

		CHECK(rc == 0 || rc == -EBUSY);
		moved += rc == 0;
	}
	stop_counting(workers);
}

static void all_leaves_and_comes_back_under_launching_threads(void)
{
	const struct gpu_still_waits waits = GPU_STILL_SUSPEND_WAITS;
	struct worker workers[THREADS];

	moving_start(MACHINE, NULL, 8 * GRAIN);
	start_counting(workers);
	for (unsigned i = 0; i < ROUNDS / 4; i++) {
		struct bo_ctx ctx = { 0 };

		while (gpu_still_begin(&waits) < 0)
			;
		CHECK_EQ(bo_hold(&gpu.device, &ctx), 0);
		CHECK_EQ(bo_device_used(&gpu.device, BO_VRAM), 0);
		clock_sleep_ns(2 * NSEC_PER_MSEC);
		CHECK_EQ(bo_unhold(&gpu.device, &ctx), 0);
		gpu_still_end();
		sched_yield();
	}
	stop_counting(workers);
}

/* Moves the objects of all threads to and fro, as one that brings what is used to the device. */
static void *move_about(void *arg)
{
	uint32_t state = (uint32_t)(uintptr_t)arg;

	SIM_OK(cuCtxSetCurrent(gpu.ctx));
	while (!atomic_load(&stop)) {
		struct bo *bo = &objects[random_of(&state, OBJECTS)];
		int rc = moving_put(bo, random_of(&state, 2) ? BO_VRAM : BO_GTT);

		CHECK(rc == 0 || rc == -EBUSY || rc == -EAGAIN);
	}
	return NULL;
}

/* Takes fresh memory and gives it back. */
static void *take_and_give(void *arg)
{
	uint64_t offset = (2 * OBJECTS + (uintptr_t)arg) * GRAIN;
	struct bo bo;

	SIM_OK(cuCtxSetCurrent(gpu.ctx));
	while (!atomic_load(&stop)) {
		moving_make(&bo, offset, GRAIN, BO_VRAM);
		bo_add_fence(&bo, epoch_open());
		bo_put(&bo);
		while (__atomic_load_n(&bo.user, __ATOMIC_ACQUIRE))
			bo_reap(&gpu.device);
	}
	return NULL;
}

/* As the worker does: until all is back, whatever it takes. */
static void hold_once(unsigned *held)
{
	const struct gpu_still_waits waits = GPU_STILL_SUSPEND_WAITS;
	struct bo_ctx ctx = { 0 };
	int rc = gpu_still_begin(&waits);

	if (rc < 0) {
		CHECK(rc == -EBUSY || rc == -EAGAIN);
		return;
	}
	rc = bo_hold(&gpu.device, &ctx);
	CHECK(rc == 0 || rc == -EBUSY);
	*held += rc == 0;
	for (int tries = 0; bo_unhold(&gpu.device, &ctx) < 0; tries++)
		CHECK(tries < 3);
	gpu_still_end();
}

static void movers_and_a_suspension_do_not_wait_for_one_another(void)
{
	pthread_t threads[4];
	unsigned held = 0;

	moving_start(MACHINE, NULL, (2 * OBJECTS + 8) * GRAIN);
	for (unsigned i = 0; i < OBJECTS; i++) {
		moving_make(&objects[i], 2 * i * GRAIN, GRAIN, BO_VRAM);
		moving_fill(&objects[i], i + 1);
	}
	for (uintptr_t i = 0; i < 4; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, i % 2 ? move_about : take_and_give,
					(void *)(i + 1)),
			 0);
	for (unsigned i = 0; i < ROUNDS || held == 0; i++) {
		hold_once(&held);
		sched_yield();
	}
	atomic_store(&stop, true);
	for (unsigned i = 0; i < 4; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	for (unsigned i = 0; i < OBJECTS; i++)
		CHECK(moving_holds(&objects[i], i + 1));
}

/* A kernel that does not end in time: said soon, and nothing is held up any longer. */
static void a_hung_kernel_puts_the_move_off(void)
{
	static struct plug plug = PLUG_INIT;

	moving_start(MACHINE, &short_waits, 8 * GRAIN);
	moving_make(&objects[0], 0, GRAIN, BO_VRAM);
	moving_fill(&objects[0], 1);
	plug_put(&plug, NULL);
	CHECK_EQ(moving_put(&objects[0], BO_GTT), -EBUSY);
	plug_pull(&plug);
	SIM_OK(cuCtxSynchronize());
	CHECK_EQ(objects[0].place, BO_VRAM);
	CHECK_EQ(gate_close(0), 0);
	gate_open();
	CHECK_EQ(moving_put_at_last(&objects[0], BO_GTT), 0);
	CHECK(moving_holds(&objects[0], 1));
}

/* Another device of the process may use it, and reaches it where it lies afterwards. */
static void work_on_another_device_is_waited_for(void)
{
	static struct plug plug = PLUG_INIT;
	uint64_t from, to, bytes = GRAIN;
	void *params[] = { &to, &from, &bytes };
	CUcontext peer;
	struct bo bo;

	moving_start(MACHINE ",count=2", &short_waits, 8 * GRAIN);
	SIM_OK(cuDevicePrimaryCtxRetain(&peer, 1));
	gpu_fence_add_context(peer, (struct cuda_ord){ 1 }, true);
	CHECK(gpu_bo_has_gtt(gpu.owner));
	moving_make(&objects[0], 0, GRAIN, BO_VRAM);
	CHECK_EQ(gpu_bo_add_peer(gpu.owner, (struct cuda_ord){ 1 }), 0);
	CHECK_EQ(gpu_bo_add_peer(gpu.owner, (struct cuda_ord){ 1 }), 0);
	/* Not in host memory: atomic operations of two devices there are not atomic. */
	CHECK(!gpu_bo_has_gtt(gpu.owner));
	CHECK_EQ(moving_put(&objects[0], BO_GTT), -ENOMEM);
	CHECK_EQ(gpu_bo_allow(gpu.owner, objects[0].addr, GRAIN), 0);
	moving_make(&bo, GRAIN, GRAIN, BO_VRAM);
	moving_fill(&bo, 3);
	SIM_OK(cuCtxSetCurrent(peer));
	plug_put(&plug, NULL);
	CHECK_EQ(moving_put(&objects[0], BO_SYSTEM), -EBUSY);
	plug_pull(&plug);
	CHECK_EQ(moving_put_at_last(&objects[0], BO_SYSTEM), 0);
	CHECK_EQ(moving_put_at_last(&objects[0], BO_VRAM), 0);
	module = NULL;
	from = bo.addr;
	to = objects[0].addr;
	SIM_OK(cuLaunchKernel(function_of("copy"), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	SIM_OK(cuCtxSynchronize());
	SIM_OK(cuCtxSetCurrent(gpu.ctx));
	CHECK(moving_holds(&objects[0], 3));
}

/* As hooks do: counted before it begins. */
static void a_capture_puts_the_move_off(void)
{
	uint32_t value = 0;
	CUstream stream;
	CUgraphExec exec;
	CUgraph graph;

	moving_start(MACHINE, &short_waits, 8 * GRAIN);
	moving_make(&objects[0], 0, GRAIN, BO_VRAM);
	SIM_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	capture_begin();
	SIM_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CHECK_EQ(moving_put(&objects[0], BO_GTT), -EAGAIN);
	SIM_OK(cuMemsetD32Async(objects[0].addr, 7, GRAIN / 4, stream));
	/* Fresh memory and fences are no harm to it. */
	moving_make(&objects[1], GRAIN, GRAIN, BO_VRAM);
	CHECK(!epoch_is_done(epoch_open()));
	SIM_OK(cuStreamEndCapture(stream, &graph));
	capture_end();
	SIM_OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	/* The graph works where the object is now. */
	CHECK_EQ(moving_put_at_last(&objects[0], BO_GTT), 0);
	SIM_OK(cuGraphLaunch(exec, stream));
	SIM_OK(cuStreamSynchronize(stream));
	SIM_OK(cuMemcpyDtoH_v2(&value, objects[0].addr + GRAIN - 4, 4));
	CHECK_EQ(value, 7);
	CHECK(epoch_is_done(epoch_open()));
}

/* What is freed while a kernel uses it waits for that, without anybody waiting for a context. */
static void freed_memory_waits_for_its_work(void)
{
	static struct plug plug = PLUG_INIT;
	uint64_t epoch;

	moving_start(MACHINE, &short_waits, 8 * GRAIN);
	epoch = epoch_open();
	CHECK(epoch > 0);
	CHECK_EQ(epoch_wait(epoch, clock_now_ns() + NSEC_PER_SEC), 0);
	moving_make(&objects[0], 0, GRAIN, BO_VRAM);
	plug_put(&plug, NULL);
	epoch = epoch_open();
	CHECK(!epoch_is_done(epoch));
	bo_add_fence(&objects[0], epoch);
	bo_put(&objects[0]);
	CHECK_EQ(bo_device_used(&gpu.device, BO_VRAM), GRAIN);
	plug_pull(&plug);
	CHECK_EQ(epoch_wait(epoch, clock_now_ns() + 10 * NSEC_PER_SEC), 0);
	CHECK(!bo_reap(&gpu.device));
	CHECK_EQ(bo_device_used(&gpu.device, BO_VRAM), 0);
	CHECK(epoch_open() > epoch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(bytes_survive_thousands_of_moves),
		fresh_test(objects_change_places),
		fresh_test(threads_go_on_launching),
		fresh_test(all_leaves_and_comes_back_under_launching_threads),
		fresh_test(movers_and_a_suspension_do_not_wait_for_one_another),
		fresh_test(a_hung_kernel_puts_the_move_off),
		fresh_test(work_on_another_device_is_waited_for),
		fresh_test(a_capture_puts_the_move_off),
		fresh_test(freed_memory_waits_for_its_work),
	};

	return cmocka_run_group_tests_name("moving", tests, NULL, NULL);
}
