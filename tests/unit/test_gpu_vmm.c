#include "drv/gpu_vmm.h"

#include "sim_gpu.h"

#define UNIT GPU_VMM_GRAIN_BYTES

static const struct cuda_ord ord = { 0 };

static uint64_t create(enum gpu_vmm_kind kind, uint64_t bytes)
{
	uint64_t handle = 0;

	CHECK_EQ(gpu_vmm_create(ord, kind, bytes, &handle), 0);
	CHECK(handle);
	return handle;
}

static unsigned long long access_of(uint64_t addr)
{
	CUmemLocation here = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 };
	unsigned long long flags = 99;

	SIM_OK(cuMemGetAccess(&flags, &here, addr));
	return flags;
}

static void bytes_follow_the_memory(void)
{
	uint64_t addr, device, host, start;
	unsigned value = 0;

	sim_gpu_start("mem=64m,context=8m");
	CHECK(gpu_vmm_is_there(ord));
	start = sim_gpu_free_bytes();
	CHECK_EQ(gpu_vmm_reserve(4 * UNIT, 64 * UNIT, &addr), 0);
	CHECK_EQ(addr % (64 * UNIT), 0);
	device = create(GPU_VMM_DEVICE, 2 * UNIT);
	host = create(GPU_VMM_HOST, 2 * UNIT);
	CHECK_EQ(start - sim_gpu_free_bytes(), 2 * UNIT);
	CHECK_EQ(gpu_vmm_map(addr, 2 * UNIT, device), 0);
	CHECK_EQ(gpu_vmm_map(addr + 2 * UNIT, 2 * UNIT, host), 0);
	CHECK_EQ(access_of(addr), CU_MEM_ACCESS_FLAGS_PROT_NONE);
	CHECK_EQ(gpu_vmm_allow(addr, 4 * UNIT, &ord, 1), 0);
	CHECK_EQ(access_of(addr + 2 * UNIT), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	SIM_OK(cuMemsetD32_v2(addr, 7, UNIT));
	SIM_OK(cuMemcpyDtoH_v2(&value, addr + 4 * UNIT - 4, 4));
	CHECK_EQ(value, 7);
	CHECK_EQ(gpu_vmm_unmap(addr, 4 * UNIT), 0);
	CHECK_EQ(gpu_vmm_map(addr, 2 * UNIT, host), 0);
	CHECK_EQ(gpu_vmm_allow(addr, 2 * UNIT, &ord, 1), 0);
	value = 0;
	SIM_OK(cuMemcpyDtoH_v2(&value, addr + UNIT, 4));
	CHECK_EQ(value, 7);
	CHECK_EQ(gpu_vmm_unmap(addr, 2 * UNIT), 0);
	CHECK_EQ(gpu_vmm_release(host), 0);
	CHECK_EQ(gpu_vmm_release(device), 0);
	CHECK_EQ(gpu_vmm_unreserve(addr, 4 * UNIT), 0);
	CHECK_EQ(sim_gpu_free_bytes(), start);
}

static void refusals_are_told_apart(void)
{
	uint64_t addr, handle;

	sim_gpu_start("mem=64m,context=8m");
	CHECK_EQ(gpu_vmm_create(ord, GPU_VMM_DEVICE, 128 * MIB, &handle), -ENOMEM);
	CHECK_EQ(gpu_vmm_create(ord, GPU_VMM_DEVICE, UNIT + 1, &handle), -EINVAL);
	CHECK_EQ(gpu_vmm_create((struct cuda_ord){ 9 }, GPU_VMM_DEVICE, UNIT, &handle), -EINVAL);
	CHECK(!gpu_vmm_is_there((struct cuda_ord){ 9 }));
	CHECK_EQ(gpu_vmm_reserve(UINT64_C(1) << 62, 0, &addr), -ENOMEM);
	CHECK_EQ(gpu_vmm_reserve(2 * UNIT, 0, &addr), 0);
	handle = create(GPU_VMM_DEVICE, 2 * UNIT);
	CHECK_EQ(gpu_vmm_map(addr, UNIT, handle), -ENOTSUP);
	CHECK_EQ(gpu_vmm_allow(addr, 2 * UNIT, &ord, 1), -EINVAL);
	CHECK_EQ(gpu_vmm_allow(addr, 2 * UNIT, &ord, 0), -EINVAL);
	CHECK_EQ(gpu_vmm_unmap(addr, 2 * UNIT), -EINVAL);
	CHECK_EQ(gpu_vmm_release(handle), 0);
	CHECK_EQ(gpu_vmm_release(handle), -EINVAL);
	real.cuMemCreate = NULL;
	CHECK(!gpu_vmm_is_there(ord));
	CHECK_EQ(gpu_vmm_create(ord, GPU_VMM_DEVICE, UNIT, &handle), -ENOTSUP);
}

static void a_capture_is_not_disturbed(void)
{
	uint64_t addr, handle;
	CUstream stream;
	CUgraph graph = NULL;

	sim_gpu_start("mem=64m,context=8m");
	SIM_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	SIM_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CHECK_EQ(gpu_vmm_reserve(UNIT, 0, &addr), 0);
	handle = create(GPU_VMM_DEVICE, UNIT);
	CHECK_EQ(gpu_vmm_map(addr, UNIT, handle), 0);
	CHECK_EQ(gpu_vmm_allow(addr, UNIT, &ord, 1), 0);
	CHECK_EQ(gpu_vmm_unmap(addr, UNIT), 0);
	CHECK_EQ(gpu_vmm_release(handle), 0);
	SIM_OK(cuStreamEndCapture(stream, &graph));
	CHECK(graph);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(bytes_follow_the_memory),
		fresh_test(refusals_are_told_apart),
		fresh_test(a_capture_is_not_disturbed),
	};

	return cmocka_run_group_tests_name("gpu_vmm", tests, NULL, NULL);
}
