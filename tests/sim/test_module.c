/* Modules, libraries, functions, occupancy. */
#include "check.h"

static void modules(void)
{
	unsigned char elf[] = { 0x7f, 'E', 'L', 'F', 2, 1, 1, 0 };
	uint64_t start = check_free_bytes();
	CUmodule module = NULL, again;
	CUfunction func, list[32];
	unsigned count = 0;
	CUdeviceptr address;
	size_t bytes;

	EXPECT(cuModuleLoadData(NULL, kernels_ptx), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuModuleLoadData(&module, NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuModuleLoadData(&module, "no image"), CUDA_ERROR_INVALID_IMAGE);
	EXPECT(cuModuleLoadDataEx(&module, kernels_ptx, 1, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuModuleLoad(&module, "/no/such/file"), CUDA_ERROR_FILE_NOT_FOUND);
	EXPECT(cuModuleUnload((CUmodule)&module), CUDA_ERROR_INVALID_HANDLE);
	OK(cuModuleLoadData(&module, kernels_ptx));
	TRUE(check_free_bytes() == start - 2 * MIB);
	OK(cuModuleLoadFatBinary(&again, elf));
	TRUE(check_free_bytes() == start - 4 * MIB);
	OK(cuModuleGetFunction(&func, module, "fill"));
	EXPECT(cuModuleGetFunction(&func, module, "no_such_kernel"), CUDA_ERROR_NOT_FOUND);
	EXPECT(cuModuleGetFunction(NULL, module, "fill"), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuModuleGetFunction(&func, module, NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuModuleGetFunction(&func, (CUmodule)&module, "fill"), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuModuleGetGlobal_v2(&address, &bytes, module, "x"), CUDA_ERROR_NOT_FOUND);
	OK(cuModuleGetFunctionCount(&count, module));
	TRUE(count == 6);
	OK(cuModuleEnumerateFunctions(list, count, module));
	OK(cuModuleUnload(again));
	OK(cuModuleUnload(module));
	EXPECT(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuFuncLoad(func), CUDA_ERROR_INVALID_HANDLE);
	TRUE(check_free_bytes() == start);
}

static void file(void)
{
	char path[] = "/tmp/test-module-XXXXXX";
	int fd = mkstemp(path);
	CUmodule module;
	CUlibrary library;

	TRUE(fd >= 0);
	TRUE(write(fd, kernels_ptx, sizeof(kernels_ptx)) == (ssize_t)sizeof(kernels_ptx));
	close(fd);
	OK(cuModuleLoad(&module, path));
	OK(cuModuleUnload(module));
	OK(cuLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryUnload(library));
	unlink(path);
}

static void functions(void)
{
	CUfunction func = check_kernel("fill");
	CUmodule module = NULL;
	const char *name = "";
	int value;

	OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, func));
	TRUE(value == 1024);
	OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, func));
	TRUE(value == 0);
	EXPECT(cuFuncGetAttribute(&value, (CUfunction_attribute)99, func),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuFuncGetAttribute(NULL, CU_FUNC_ATTRIBUTE_NUM_REGS, func),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, (CUfunction)&func),
	       CUDA_ERROR_INVALID_HANDLE);
	OK(cuFuncSetAttribute(func, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000));
	OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, func));
	TRUE(value == 100000);
	EXPECT(cuFuncSetAttribute(func, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 20),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuFuncSetAttribute(func, CU_FUNC_ATTRIBUTE_NUM_REGS, 1), CUDA_ERROR_INVALID_VALUE);
	OK(cuFuncGetName(&name, func));
	TRUE(strcmp(name, "fill") == 0);
	OK(cuFuncGetModule(&module, func));
	OK(cuModuleUnload(module));
}

/* A library becomes a module in each context that uses it. */
static void libraries(void)
{
	uint64_t start = check_free_bytes(), words = 1;
	size_t offset = 0, bytes = 0;
	CUlibrary library = NULL, owner = NULL;
	CUkernel kernel = NULL;
	CUfunction func;
	CUmodule module, same;
	CUdeviceptr word;
	unsigned value = 6, got = 0;
	void *params[] = { &word, &value, &words };

	EXPECT(cuLibraryLoadData(NULL, kernels_ptx, NULL, NULL, 0, NULL, NULL, 0),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuLibraryLoadData(&library, "x", NULL, NULL, 0, NULL, NULL, 0),
	       CUDA_ERROR_INVALID_IMAGE);
	OK(cuLibraryLoadData(&library, kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
	TRUE(check_free_bytes() == start);
	OK(cuLibraryGetKernel(&kernel, library, "fill"));
	EXPECT(cuLibraryGetKernel(&kernel, library, "none"), CUDA_ERROR_NOT_FOUND);
	EXPECT(cuLibraryGetKernel(&kernel, (CUlibrary)&kernel, "fill"), CUDA_ERROR_INVALID_HANDLE);
	OK(cuKernelGetLibrary(&owner, kernel));
	TRUE(owner == library);
	OK(cuKernelGetParamInfo(kernel, 1, &offset, &bytes));
	TRUE(offset == 8 && bytes == 4);
	OK(cuKernelGetParamInfo(kernel, 2, &offset, &bytes));
	TRUE(offset == 16 && bytes == 8);
	EXPECT(cuKernelGetParamInfo(kernel, 3, &offset, &bytes), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuFuncGetAttribute(&(int){ 0 }, CU_FUNC_ATTRIBUTE_NUM_REGS, (CUfunction)kernel),
	       CUDA_ERROR_INVALID_HANDLE);
	OK(cuKernelGetParamCount(kernel, &bytes));
	TRUE(bytes == 3);
	OK(cuMemAlloc_v2(&word, 4));
	EXPECT(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 60000, NULL, params, NULL),
	       CUDA_ERROR_INVALID_VALUE);
	OK(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60000, kernel, 0));
	OK(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 60000, NULL, params, NULL));
	OK(check_launch((CUfunction)kernel, NULL, params));
	OK(cuMemcpyDtoH_v2(&got, word, 4));
	TRUE(got == 6);
	OK(cuMemFree_v2(word));
	TRUE(check_free_bytes() == start - 2 * MIB);
	OK(cuKernelGetFunction(&func, kernel));
	OK(cuFuncGetModule(&module, func));
	OK(cuLibraryGetModule(&same, library));
	TRUE(module == same);
	EXPECT(cuModuleUnload(module), CUDA_ERROR_NOT_PERMITTED);
	OK(cuLibraryUnload(library));
	EXPECT(cuLibraryUnload(library), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(check_launch((CUfunction)kernel, NULL, params), CUDA_ERROR_INVALID_HANDLE);
	TRUE(check_free_bytes() == start);
}

static void occupancy(void)
{
	CUfunction func = check_kernel("empty");
	int blocks = 0, grid = 0, block = 0;
	size_t bytes = 0;

	OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, func, 1024, 0));
	TRUE(blocks == 2);
	OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, func, 32, 0));
	TRUE(blocks == 32);
	OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, func, 32, 100000));
	TRUE(blocks == 2);
	EXPECT(cuOccupancyMaxActiveBlocksPerMultiprocessor(NULL, func, 32, 0),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, func, 0, 0),
	       CUDA_ERROR_INVALID_VALUE);
	OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, func, NULL, 0, 0));
	TRUE(block == 1024 && grid == 2 * 16);
	OK(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, func, 2, 1024));
	TRUE(bytes > 100000);
}

int main(void)
{
	check_start("count=1,mem=1g,sms=16");
	modules();
	file();
	functions();
	libraries();
	occupancy();
	return check_end();
}
