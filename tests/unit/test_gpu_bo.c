#include "drv/gpu_bo.h"

#include "core/bo_hold.h"
#include "failing_driver.h"
#include "moving.h"

#include <errno.h>

#define MACHINE "mem=256m,context=8m"

static void bytes_move_with_the_object(void)
{
	static const enum bo_place way[] = { BO_GTT,    BO_VRAM, BO_SYSTEM, BO_VRAM,
					     BO_SYSTEM, BO_GTT,  BO_SYSTEM, BO_VRAM };
	uint64_t free_bytes;
	struct bo bo;

	moving_start(MACHINE, NULL, 4 * GRAIN);
	CHECK(gpu_bo_has_gtt(gpu.owner));
	free_bytes = sim_gpu_free_bytes();
	moving_make(&bo, GRAIN, 2 * GRAIN, BO_VRAM);
	moving_fill(&bo, 1);
	for (unsigned i = 0; i < sizeof(way) / sizeof(*way); i++) {
		CHECK_EQ(moving_put(&bo, way[i]), 0);
		CHECK_EQ(bo.place, way[i]);
		CHECK_EQ(free_bytes - sim_gpu_free_bytes(), way[i] == BO_VRAM ? 2 * GRAIN : 0);
		if (way[i] == BO_SYSTEM)
			CHECK_EQ(cuMemsetD8_v2(bo.addr, 0, 1), CUDA_ERROR_INVALID_VALUE);
		else
			CHECK(moving_holds(&bo, 1));
	}
	bo_put(&bo);
	CHECK_EQ(sim_gpu_free_bytes(), free_bytes);
	CHECK_EQ(bo_device_fini(&gpu.device), 0);
}

enum { MADE_MOST = 16 };

/* Calls of the driver for memory and mappings. */
static struct {
	struct real real;
	unsigned calls;
	CUmemGenericAllocationHandle hosts[MADE_MOST]; /* handles of host memory */
	uint64_t host_at[MADE_MOST];                   /* where some is mapped */
	unsigned of_host, host_maps, host_unmaps;
} made;

static CUresult count_made(CUmemGenericAllocationHandle *h, size_t n, const CUmemAllocationProp *p,
			   unsigned long long f)
{
	CUresult res = made.real.cuMemCreate(h, n, p, f);

	made.calls++;
	if (p->location.type != CU_MEM_LOCATION_TYPE_DEVICE && res == CUDA_SUCCESS)
		made.hosts[made.of_host++] = *h;
	return res;
}

static CUresult count_mapped(CUdeviceptr a, size_t n, size_t o, CUmemGenericAllocationHandle h,
			     unsigned long long f)
{
	made.calls++;
	for (unsigned i = 0; i < made.of_host; i++)
		if (made.hosts[i] == h)
			made.host_at[made.host_maps++ % MADE_MOST] = a;
	return made.real.cuMemMap(a, n, o, h, f);
}

static CUresult count_unmapped(CUdeviceptr a, size_t n)
{
	made.calls++;
	for (unsigned i = 0; i < MADE_MOST; i++)
		if (made.host_at[i] == a) {
			made.host_unmaps++;
			made.host_at[i] = 0;
		}
	return made.real.cuMemUnmap(a, n);
}

static CUresult count_allowed(CUdeviceptr a, size_t n, const CUmemAccessDesc *d, size_t c)
{
	made.calls++;
	return made.real.cuMemSetAccess(a, n, d, c);
}

static CUresult count_released(CUmemGenericAllocationHandle h)
{
	made.calls++;
	return made.real.cuMemRelease(h);
}

static void count_from_now(void)
{
	made.real = real;
	real.cuMemCreate = count_made;
	real.cuMemMap = count_mapped;
	real.cuMemUnmap = count_unmapped;
	real.cuMemSetAccess = count_allowed;
	real.cuMemRelease = count_released;
}

/* Pinning and mapping host memory is what a suspension costs: the first does it for the next. */
static void a_second_suspension_pins_and_maps_nothing(void)
{
	struct bo_ctx ctx = { .ticket = NULL };
	struct bo objects[4];

	moving_start(MACHINE, NULL, 16 * GRAIN);
	for (unsigned i = 0; i < 4; i++) {
		moving_make(&objects[i], i * 4 * GRAIN, (i + 1) * GRAIN, BO_VRAM);
		moving_fill(&objects[i], i);
	}
	count_from_now();
	for (unsigned round = 0; round < 3; round++) {
		made.calls = 0;
		CHECK_EQ(bo_hold(&gpu.device, &ctx), 0);
		/* Device memory is unmapped and released, four times, and no more. */
		CHECK(round == 0 || made.calls == 8);
		made.calls = 0;
		CHECK_EQ(bo_unhold(&gpu.device, &ctx), 0);
		/* Made, mapped and allowed. */
		CHECK_EQ(made.calls, 12);
		CHECK_EQ(made.of_host, 4);
		CHECK_EQ(made.host_maps, 4);
		CHECK_EQ(made.host_unmaps, 0);
	}
	for (unsigned i = 0; i < 4; i++) {
		CHECK(moving_holds(&objects[i], i));
		bo_put(&objects[i]);
	}
}

/* Neighbours share a call to unmap them, and one to allow them. */
static void neighbours_go_together(void)
{
	struct bo_ctx ctx = { .ticket = NULL };
	struct bo objects[4];

	moving_start(MACHINE, NULL, 16 * GRAIN);
	for (unsigned i = 0; i < 4; i++) {
		moving_make(&objects[i], i * GRAIN, GRAIN, BO_VRAM);
		moving_fill(&objects[i], i);
	}
	CHECK_EQ(bo_hold(&gpu.device, &ctx), 0);
	CHECK_EQ(bo_unhold(&gpu.device, &ctx), 0);
	count_from_now();
	CHECK_EQ(bo_hold(&gpu.device, &ctx), 0);
	CHECK_EQ(made.calls, 1 + 4);
	made.calls = 0;
	CHECK_EQ(bo_unhold(&gpu.device, &ctx), 0);
	CHECK_EQ(made.calls, 4 + 4 + 1);
	for (unsigned i = 0; i < 4; i++)
		CHECK(moving_holds(&objects[i], i));
}

/* Where work is to reach it in host memory it is mapped there, and nowhere else. */
static void host_memory_is_mapped_where_an_object_is(void)
{
	struct bo bo;

	moving_start(MACHINE, NULL, 4 * GRAIN);
	moving_make(&bo, 0, GRAIN, BO_VRAM);
	moving_fill(&bo, 3);
	count_from_now();
	for (unsigned round = 0; round < 3; round++) {
		CHECK_EQ(moving_put(&bo, BO_GTT), 0);
		CHECK_EQ(made.host_maps, round + 2);
		CHECK_EQ(made.host_unmaps, round);
		CHECK(moving_holds(&bo, 3));
		CHECK_EQ(moving_put(&bo, BO_VRAM), 0);
		CHECK_EQ(made.host_unmaps, round + 1);
		CHECK(moving_holds(&bo, 3));
	}
	CHECK_EQ(made.of_host, 1);
}

/* Before a checkpoint: with host memory of the driver's a process could not be restored from it. */
static void no_host_memory_of_the_driver_is_left(void)
{
	static const enum bo_place places[] = { BO_VRAM, BO_GTT, BO_VRAM, BO_GTT, BO_SYSTEM };
	struct bo_ctx ctx = { .ticket = NULL };
	struct bo objects[5];

	moving_start(MACHINE, NULL, 16 * GRAIN);
	for (unsigned i = 0; i < 5; i++) {
		moving_make(&objects[i], i * 3 * GRAIN, (i % 3 + 1) * GRAIN, BO_VRAM);
		moving_fill(&objects[i], i);
		CHECK_EQ(moving_put(&objects[i], places[i]), 0);
	}
	for (unsigned round = 0; round < 2; round++) {
		CHECK_EQ(gpu_bo_drop_host(), -EBUSY);
		CHECK_EQ(bo_unhold(&gpu.device, &ctx), 0);
		gpu_bo_use_pages(true);
		CHECK_EQ(bo_hold_all(&gpu.device, &ctx), 0);
		CHECK_EQ(gpu_bo_drop_host(), 0);
		gpu_bo_use_pages(false);
		CHECK_EQ(bo_unhold(&gpu.device, &ctx), 0);
		for (unsigned i = 0; i < 5; i++)
			CHECK(moving_holds(&objects[i], i));
		CHECK_EQ(gpu_bo_drop_host(), 0);
		for (unsigned i = 0; i < 5; i++)
			CHECK_EQ(moving_put(&objects[i], places[i]), 0);
	}
	for (unsigned i = 0; i < 5; i++)
		bo_put(&objects[i]);
	CHECK_EQ(gpu_bo_drop_host(), 0);
}

/* What the driver does not let go of is not taken for gone. */
static void host_memory_that_stays_mapped_is_told(void)
{
	moving_start(MACHINE, NULL, GRAIN);
	CHECK_EQ(gpu_bo_drop_host(), 0);
	failing_start();
	failing_from(1, 100, CUDA_ERROR_UNKNOWN);
	CHECK(gpu_vmm_unmap_surely(gpu.start, GRAIN) < 0);
	failing_none();
	CHECK_EQ(gpu_bo_drop_host(), -EIO);
}

static struct {
	uint64_t free_bytes;  /* of the card before */
	bool is_outside;      /* fresh memory was in hand, and who had it was not inside the gate */
	unsigned were_inside; /* looks at some */
} look;

static void look_at_hand(const struct bo_device *device)
{
	bool is_inside = atomic_load(&gate_cell->in) & 1;

	if (!device->managers[BO_VRAM].pending_bytes || sim_gpu_free_bytes() == look.free_bytes)
		return;
	if (is_inside)
		look.were_inside++;
	else
		look.is_outside = true;
}

/* Who shuts the gate finds fresh memory with an object or with nobody. */
static void fresh_memory_is_taken_and_mapped_in_one_pass(void)
{
	struct bo bo;

	moving_start(MACHINE, NULL, 16 * GRAIN);
	bo_init(&bo, &gpu.device, gpu.start, GRAIN, 0);
	bo.user = &gpu;
	look.free_bytes = sim_gpu_free_bytes();
	failing_start();
	/* Each step fails: memory, its mapping, the access to it. */
	for (unsigned at = 1; at <= 3; at++) {
		failing_from(at, at, CUDA_ERROR_OUT_OF_MEMORY);
		gpu.device.on_change = look_at_hand;
		moving_put(&bo, BO_VRAM);
		gpu.device.on_change = moving_changed;
		CHECK_EQ(moving_put(&bo, BO_NONE), 0);
		CHECK(!(atomic_load(&gate_cell->in) & 1));
		CHECK_EQ(sim_gpu_free_bytes(), look.free_bytes);
	}
	CHECK(look.were_inside > 2 && !look.is_outside);
	failing_none();
	CHECK_EQ(moving_put(&bo, BO_VRAM), 0);
	bo_put(&bo);
	CHECK(!(atomic_load(&gate_cell->in) & 1));
	CHECK_EQ(gate_close(NSEC_PER_SEC), 0);
	gate_open();
}

static void *shut_it(void *arg)
{
	_Atomic unsigned *is_shut = arg;

	CHECK_EQ(gate_close(NSEC_PER_SEC), 0);
	atomic_store(is_shut, 1);
	while (atomic_load(is_shut) == 1)
		clock_sleep_ns(NSEC_PER_MSEC);
	gate_open();
	return NULL;
}

/* Who suspends waits for who gives memory back: that one must not wait at the gate. */
static void who_ends_objects_does_not_wait_at_the_gate(void)
{
	static _Atomic unsigned is_shut;
	pthread_t thread;
	struct bo bo;

	moving_start(MACHINE, NULL, 16 * GRAIN);
	moving_make(&bo, 0, GRAIN, BO_VRAM);
	CHECK_EQ(pthread_create(&thread, NULL, shut_it, &is_shut), 0);
	while (!atomic_load(&is_shut))
		clock_sleep_ns(NSEC_PER_MSEC);
	/* Work that is not known to be done. */
	bo_add_fence(&bo, epoch_open());
	bo_put(&bo);
	CHECK(bo_reap(&gpu.device));
	atomic_store(&is_shut, 2);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	while (bo_reap(&gpu.device))
		clock_sleep_ns(NSEC_PER_MSEC);
	moving_make(&bo, 0, GRAIN, BO_VRAM);
	atomic_store(&is_shut, 0);
	CHECK_EQ(pthread_create(&thread, NULL, shut_it, &is_shut), 0);
	while (!atomic_load(&is_shut))
		clock_sleep_ns(NSEC_PER_MSEC);
	bo_put(&bo);
	CHECK(!bo_reap(&gpu.device));
	atomic_store(&is_shut, 2);
	CHECK_EQ(pthread_join(thread, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(bytes_move_with_the_object),
		fresh_test(a_second_suspension_pins_and_maps_nothing),
		fresh_test(neighbours_go_together),
		fresh_test(host_memory_is_mapped_where_an_object_is),
		fresh_test(no_host_memory_of_the_driver_is_left),
		fresh_test(host_memory_that_stays_mapped_is_told),
		fresh_test(fresh_memory_is_taken_and_mapped_in_one_pass),
		fresh_test(who_ends_objects_does_not_wait_at_the_gate),
	};

	return cmocka_run_group_tests_name("gpu_bo", tests, NULL, NULL);
}
