/*
 * Arguments that a driver is thought to refuse, on the model driver, which looks at none of them:
 * what it gives all the same counts, and is given back where the limit says no.
 */
#include "hook/enter.h"

#include "member.h"
#include "model_driver.h"

#define MIB (UINT64_C(1) << 20)

enum { NO_FLAGS = 0, NO_ELEMENT = 3 };

static CUcontext primary;

static void begin(const char *limit)
{
	model_start(256 * MIB);
	model_join(scratch_path("region"), limit);
	CHECK(hook_cuDevicePrimaryCtxRetain(&primary, 0) == CUDA_SUCCESS);
	model_set_current(primary);
}

static void managed_memory_without_flags(void)
{
	CUdeviceptr addr, more;

	begin("100m");
	CHECK(hook_cuMemAllocManaged(&addr, 8 * MIB, NO_FLAGS) == CUDA_SUCCESS);
	CHECK_EQ(quota_held(dev0, QUOTA_DATA), 8 * MIB);
	CHECK(hook_cuMemAllocManaged(&more, 200 * MIB, NO_FLAGS) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_EQ(model_look().managed_bytes, 8 * MIB);
	CHECK(hook_cuMemFree_v2(addr) == CUDA_SUCCESS);
	CHECK_EQ(quota_held(dev0, QUOTA_DATA), 0);
}

static void rows_of_odd_elements(void)
{
	CUdeviceptr addr, more;
	size_t pitch;

	begin("100m");
	CHECK(hook_cuMemAllocPitch_v2(&addr, &pitch, MIB, 8, NO_ELEMENT) == CUDA_SUCCESS);
	CHECK_EQ(quota_held(dev0, QUOTA_DATA), 8 * MIB);
	CHECK(hook_cuMemAllocPitch_v2(&more, &pitch, MIB, 120, NO_ELEMENT) ==
	      CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_EQ(model_look().blocks_bytes, 8 * MIB);
	CHECK(hook_cuMemFree_v2(addr) == CUDA_SUCCESS);
	CHECK_EQ(quota_held(dev0, QUOTA_DATA), 0);
	CHECK_EQ(model_look().blocks_bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fresh_test(managed_memory_without_flags),
		fresh_test(rows_of_odd_elements),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
