/* What the driver's own functions that kernels call take of a context, as an H200 does it. */
#include "check.h"

#define IMAGE(extern) \
	".version 6.0\n.target sm_50\n.address_size 64\n" extern ".visible .entry empty()\n{\n\tret;\n}\n"

static const char print_image[] = IMAGE(
	".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n");
static const char heap_image[] = IMAGE(
	".extern .func (.param .b64 r) malloc\n(\n.param .b64 n\n)\n;\n");
static const char assert_image[] = IMAGE(".extern .func __assertfail (.param .b64 a);\n");
static const char launch_image[] = IMAGE(
	".extern .func (.param .b32 r) cudaLaunchDeviceV2 (.param .b64 a);\n");

/* Whole blocks for the threads of two multiprocessors. */
static uint64_t stack_bytes(uint64_t thread_bytes)
{
	return (thread_bytes * 2048 * 2 + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
}

/* One thread of it launched takes so much; loading it so much more than `took`. */
static CUmodule load(const char *image, uint64_t took)
{
	uint64_t before = check_free_bytes();
	CUmodule module = NULL;

	OK(cuModuleLoadData(&module, image));
	TRUE(before - check_free_bytes() == took);
	return module;
}

static void launch(CUmodule module, uint64_t took)
{
	uint64_t before = check_free_bytes();
	CUfunction func = NULL;

	OK(cuModuleGetFunction(&func, module, "empty"));
	OK(check_launch(func, NULL, NULL));
	OK(cuCtxSynchronize());
	/* with its code */
	TRUE(before - check_free_bytes() == took + 2 * MIB);
}

static int with_launches(void *arg)
{
	CUcontext ctx;
	CUmodule module;
	uint64_t start;
	size_t value = 0;

	(void)arg;
	check_start("mem=1g,context=64m,sms=2");
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	start = check_free_bytes();
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 100 * MIB));
	OK(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 64 * MIB));
	TRUE(check_free_bytes() == start);
	launch(load(IMAGE(""), 0), 0);
	OK(cuModuleUnload(load(print_image, stack_bytes(240))));
	EXPECT(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 8 * MIB), CUDA_ERROR_INVALID_VALUE);
	load(assert_image, stack_bytes(341) - stack_bytes(240));
	module = load(heap_image, stack_bytes(528) - stack_bytes(341));
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 128 * MIB));
	launch(module, 130 * MIB);
	EXPECT(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 128 * MIB), CUDA_ERROR_INVALID_VALUE);
	launch(load(heap_image, 0), 0);
	OK(cuCtxDestroy_v2(ctx));
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	TRUE(check_free_bytes() == start);
	OK(cuCtxGetLimit(&value, CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT));
	TRUE(value == 2048);
	OK(cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 4096));
	TRUE(check_free_bytes() == start);
	load(launch_image, stack_bytes(318) + 38 * MIB);
	OK(cuCtxDestroy_v2(ctx));
	return check_end();
}

static int with_limits(void *arg)
{
	CUcontext ctx;
	CUdeviceptr all;
	uint64_t start;
	size_t value = 0;

	(void)arg;
	check_start("mem=1g,context=64m,sms=2,heap=set");
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	start = check_free_bytes();
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, MIB));
	TRUE(check_free_bytes() == start);
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 108 * MIB));
	TRUE(check_free_bytes() == start - 100 * MIB);
	OK(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 10 * MIB));
	TRUE(check_free_bytes() == start - 102 * MIB);
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 8 * MIB));
	TRUE(check_free_bytes() == start - 2 * MIB);
	OK(cuMemAlloc_v2(&all, check_free_bytes()));
	EXPECT(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 9 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
	TRUE(value == 8 * MIB);
	OK(cuMemFree_v2(all));
	OK(cuCtxDestroy_v2(ctx));
	return check_end();
}

int main(void)
{
	TRUE(check_child(with_launches, NULL));
	TRUE(check_child(with_limits, NULL));
	return check_failures ? 1 : 0;
}
