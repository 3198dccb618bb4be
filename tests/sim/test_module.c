/* Modules, libraries, functions, occupancy. */
#include "check.h"

#include "../unit/image_build.h"

static void modules(void)
{
	static const struct image_section section = { ".text.k", 100, 0 };
	struct image_build elf = image_build_elf(&section, 1);
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
	EXPECT(cuModuleLoadData(
		       &again,
		       "\177ELF\2\1\1 and so on, but of no device: much more than a header's "
		       "sixty-four bytes"),
	       CUDA_ERROR_INVALID_IMAGE);
	OK(cuModuleLoadFatBinary(&again, elf.at));
	TRUE(check_free_bytes() == start);
	OK(cuModuleGetFunction(&func, module, "fill"));
	TRUE(check_free_bytes() == start - 2 * MIB);
	OK(cuModuleGetFunction(&func, module, "empty"));
	TRUE(check_free_bytes() == start - 2 * MIB);
	OK(cuModuleGetFunction(&func, again, "fill"));
	TRUE(check_free_bytes() == start - 4 * MIB);
	EXPECT(cuModuleGetFunction(&func, module, "no_such_kernel"), CUDA_ERROR_NOT_FOUND);
	EXPECT(cuModuleGetFunction(NULL, module, "fill"), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuModuleGetFunction(&func, module, NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuModuleGetFunction(&func, (CUmodule)&module, "fill"), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuModuleGetGlobal_v2(&address, &bytes, module, "x"), CUDA_ERROR_NOT_FOUND);
	OK(cuModuleGetFunctionCount(&count, module));
	TRUE(count == 7);
	OK(cuModuleEnumerateFunctions(list, count, module));
	OK(cuModuleUnload(again));
	OK(cuModuleUnload(module));
	EXPECT(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuFuncLoad(func), CUDA_ERROR_INVALID_HANDLE);
	TRUE(check_free_bytes() == start);
	free(elf.at);
}

/* Machine code for the device counts, else text; what is packed is unpacked. */
static void fat_binaries(void)
{
	static const struct image_section sections[] = { { ".text.k", 5 * MIB, 0 },
							 { ".nv.global", 32 * MIB, 1 } };
	struct image_build elf = image_build_elf(sections, 2), b = image_build_fatbin();
	struct image_build packed = image_build_lz4(elf.at, elf.bytes);
	struct image_build text = { (unsigned char *)(uintptr_t)kernels_ptx, strlen(kernels_ptx) };
	uint64_t start = check_free_bytes();
	CUmodule module;
	CUfunction func;

	EXPECT(cuModuleLoadData(&module, b.at), CUDA_ERROR_NO_BINARY_FOR_GPU);
	image_build_member(&b, IMAGE_ELF, 20, &elf, 0, 0);
	EXPECT(cuModuleLoadData(&module, b.at), CUDA_ERROR_NO_BINARY_FOR_GPU);
	image_build_member(&b, IMAGE_TEXT, 50, &text, 0, 0);
	OK(cuModuleLoadData(&module, b.at));
	TRUE(check_free_bytes() == start);
	OK(cuModuleUnload(module));
	image_build_member(&b, IMAGE_ELF, 90, &packed, elf.bytes, IMAGE_PACKED);
	OK(cuModuleLoadData(&module, b.at));
	TRUE(check_free_bytes() == start - 32 * MIB);
	OK(cuModuleGetFunction(&func, module, "fill"));
	TRUE(check_free_bytes() == start - 32 * MIB - 6 * MIB);
	OK(cuModuleUnload(module));
	TRUE(check_free_bytes() == start);
	free(b.at);
	free(packed.at);
	free(elf.at);
}

static CUfunctionLoadingState state_of(CUfunction func)
{
	CUfunctionLoadingState state = (CUfunctionLoadingState)99;

	OK(cuFuncIsLoaded(&state, func));
	return state;
}

/* Code comes to the device with the first function that is asked for, loaded or launched. */
static void lazy(void)
{
	uint64_t start = check_free_bytes();
	CUmoduleLoadingMode mode = 0;
	CUmodule module = NULL;
	CUfunction list[6];
	const char *name;
	size_t offset, bytes;
	int value;

	OK(cuModuleGetLoadingMode(&mode));
	TRUE(mode == CU_MODULE_LAZY_LOADING);
	OK(cuModuleLoadData(&module, kernels_ptx));
	OK(cuModuleEnumerateFunctions(list, 6, module));
	for (int i = 0; i < 6; i++)
		TRUE(state_of(list[i]) == CU_FUNCTION_LOADING_STATE_UNLOADED);
	OK(cuFuncGetName(&name, list[3]));
	TRUE(strcmp(name, "empty") == 0);
	OK(cuFuncGetParamInfo(list[4], 1, &offset, &bytes));
	TRUE(offset == 8 && bytes == 4);
	OK(cuFuncGetParamInfo(list[4], 2, &offset, NULL));
	TRUE(offset == 16);
	EXPECT(cuFuncGetParamInfo(list[4], 3, &offset, &bytes), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuFuncGetParamInfo(list[4], 0, NULL, &bytes), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuFuncGetParamInfo((CUfunction)&name, 0, &offset, &bytes),
	       CUDA_ERROR_INVALID_HANDLE);
	OK(cuFuncGetParamCount(list[4], &bytes));
	TRUE(bytes == 3);
	TRUE(check_free_bytes() == start);
	OK(check_launch(list[3], NULL, NULL));
	TRUE(check_free_bytes() == start - 2 * MIB);
	TRUE(state_of(list[3]) == CU_FUNCTION_LOADING_STATE_LOADED);
	TRUE(state_of(list[4]) == CU_FUNCTION_LOADING_STATE_UNLOADED);
	OK(cuFuncLoad(list[4]));
	TRUE(state_of(list[4]) == CU_FUNCTION_LOADING_STATE_LOADED);
	OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, list[5]));
	TRUE(state_of(list[5]) == CU_FUNCTION_LOADING_STATE_LOADED);
	OK(cuModuleUnload(module));
	TRUE(check_free_bytes() == start);
}

/* There is no room for the code when it is needed. */
static void lazy_without_room(void)
{
	CUmodule module = NULL;
	CUdeviceptr all;
	CUfunction func[6];

	OK(cuModuleLoadData(&module, kernels_ptx));
	OK(cuModuleEnumerateFunctions(func, 6, module));
	OK(cuMemAlloc_v2(&all, check_free_bytes()));
	EXPECT(cuModuleGetFunction(&func[0], module, "empty"), CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT(check_launch(func[3], NULL, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemFree_v2(all));
	OK(check_launch(func[3], NULL, NULL));
	OK(cuCtxSynchronize());
	OK(cuModuleUnload(module));
}

/* As it was before, and still is when asked for: all at once. */
static int eager(void *arg)
{
	CUmoduleLoadingMode mode = 0;
	CUmodule module;
	CUfunction func[6];
	uint64_t start;

	if (!arg)
		setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	check_start(arg ? arg : "count=1,mem=1g");
	start = check_free_bytes();
	OK(cuModuleGetLoadingMode(&mode));
	TRUE(mode == CU_MODULE_EAGER_LOADING);
	OK(cuModuleLoadData(&module, kernels_ptx));
	TRUE(check_free_bytes() == start - 2 * MIB);
	OK(cuModuleEnumerateFunctions(func, 6, module));
	TRUE(state_of(func[0]) == CU_FUNCTION_LOADING_STATE_LOADED);
	OK(check_launch(func[3], NULL, NULL));
	TRUE(check_free_bytes() == start - 2 * MIB);
	return check_end();
}

static int asked_for_lazy(void *arg)
{
	CUmoduleLoadingMode mode = 0;

	(void)arg;
	setenv("CUDA_MODULE_LOADING", "LAZY", 1);
	check_start("count=1,mem=1g,driver=11.8");
	OK(cuModuleGetLoadingMode(&mode));
	TRUE(mode == CU_MODULE_LAZY_LOADING);
	return check_end();
}

static const char variables_ptx[] = ".version 6.0\n"
				    ".target sm_50 // .global .b8 not_this[5];\n"
				    ".address_size 64\n"
				    "/* .global .b8 nor_this[5]; */\n"
				    ".extern .global .align 4 .b8 elsewhere[16];\n"
				    ".visible .global .align 16 .b8 big[67108864];\n"
				    ".global .u32 word = 0;\n"
				    ".visible .global .align 8 .v2 .f32 pairs[3][4];\n"
				    ".visible .entry empty()\n"
				    "{\n"
				    "	.local .align 8 .b8 depot[4096];\n"
				    "	.reg .u32 %r<2>;\n"
				    "	ld.global.u32 %r1, [word];\n"
				    "	ret;\n"
				    "}\n"
				    ".visible .entry spin(.param .u64 ns)\n"
				    "{\n"
				    "	ret;\n"
				    "}\n";

/* A module's variables are device memory from its load on. */
static void variables(void)
{
	uint64_t start = check_free_bytes();
	CUdeviceptr big = 0, word = 0, pairs = 0, of_library = 0;
	CUmodule module = NULL;
	CUlibrary library;
	size_t bytes = 0;

	OK(cuModuleLoadData(&module, variables_ptx));
	TRUE(check_free_bytes() == start - 66 * MIB);
	OK(cuModuleGetGlobal_v2(&big, &bytes, module, "big"));
	TRUE(bytes == 64 * MIB && big % 16 == 0);
	OK(cuModuleGetGlobal_v2(&word, &bytes, module, "word"));
	TRUE(bytes == 4 && word == big + 64 * MIB);
	OK(cuModuleGetGlobal_v2(&pairs, &bytes, module, "pairs"));
	TRUE(bytes == 96 && pairs % 8 == 0 && pairs >= word + 4);
	OK(cuModuleGetGlobal_v2(NULL, &bytes, module, "big"));
	OK(cuModuleGetGlobal_v2(&big, NULL, module, "big"));
	EXPECT(cuModuleGetGlobal_v2(NULL, NULL, module, "big"), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuModuleGetGlobal_v2(&word, &bytes, module, NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuModuleGetGlobal_v2(&word, &bytes, module, "not_this"), CUDA_ERROR_NOT_FOUND);
	EXPECT(cuModuleGetGlobal_v2(&word, &bytes, module, "nor_this"), CUDA_ERROR_NOT_FOUND);
	EXPECT(cuModuleGetGlobal_v2(&word, &bytes, module, "elsewhere"), CUDA_ERROR_NOT_FOUND);
	EXPECT(cuModuleGetGlobal_v2(&word, &bytes, module, "depot"), CUDA_ERROR_NOT_FOUND);
	OK(cuMemsetD32_v2(big, 7, 1));
	EXPECT(cuMemFree_v2(big), CUDA_ERROR_INVALID_VALUE);
	OK(cuModuleUnload(module));
	TRUE(check_free_bytes() == start);
	OK(cuLibraryLoadData(&library, variables_ptx, NULL, NULL, 0, NULL, NULL, 0));
	TRUE(check_free_bytes() == start);
	OK(cuLibraryGetGlobal(&of_library, &bytes, library, "big"));
	TRUE(bytes == 64 * MIB && check_free_bytes() == start - 66 * MIB);
	EXPECT(cuLibraryGetGlobal(&of_library, &bytes, library, "none"), CUDA_ERROR_NOT_FOUND);
	OK(cuLibraryUnload(library));
	TRUE(check_free_bytes() == start);
}

/* A variable begins as zero, also where something was before. */
static void zeros(void)
{
	static const char image[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
				    ".visible .global .align 8 .b8 small[64];\n"
				    ".visible .entry empty() { ret; }\n";
	CUdeviceptr first, second, address = 0;
	CUmodule module = NULL;
	uint64_t word = 1;

	OK(cuMemAlloc_v2(&first, 4096));
	OK(cuMemAlloc_v2(&second, 4096));
	OK(cuMemsetD8_v2(first, 0xff, 4096));
	OK(cuCtxSynchronize());
	OK(cuMemFree_v2(first));
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetGlobal_v2(&address, NULL, module, "small"));
	TRUE(address == first);
	OK(cuMemcpyDtoH_v2(&word, address, 8));
	TRUE(word == 0);
	OK(cuModuleUnload(module));
	OK(cuMemFree_v2(second));
}

/* Local memory has room for all threads that can be resident, from the first launch on. */
static void local_memory(void)
{
	const uint64_t cost = (4096 - 1024) * 2048 * 16ull;
	CUlibrary library = NULL;
	CUmodule module = NULL;
	CUkernel kernel = NULL;
	CUfunction func, spin;
	uint64_t start, ns = 1;
	void *params[] = { &ns };
	CUcontext ctx;
	int value = 0;

	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuModuleLoadData(&module, variables_ptx));
	OK(cuModuleGetFunction(&func, module, "empty"));
	OK(cuModuleGetFunction(&spin, module, "spin"));
	OK(cuLibraryLoadData(&library, variables_ptx, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetKernel(&kernel, library, "empty"));
	OK(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, kernel, 0));
	TRUE(value == 4096);
	OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, spin));
	TRUE(value == 0);
	start = check_free_bytes();
	OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, func));
	TRUE(value == 4096);
	OK(check_launch(spin, NULL, params));
	TRUE(check_free_bytes() == start);
	OK(check_launch(func, NULL, NULL));
	TRUE(check_free_bytes() == start - cost);
	OK(check_launch(func, NULL, NULL));
	OK(cuCtxSynchronize());
	TRUE(check_free_bytes() == start - cost);
	OK(cuLibraryUnload(library));
	OK(cuCtxDestroy_v2(ctx));
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

/* A kernel runs in the context of its stream or of its node, and its library comes there. */
static void kernels_elsewhere(void)
{
	CUDA_KERNEL_NODE_PARAMS node_params = { .gridDimX = 1,
						.gridDimY = 1,
						.gridDimZ = 1,
						.blockDimX = 1,
						.blockDimY = 1,
						.blockDimZ = 1 };
	CUDA_KERNEL_NODE_PARAMS got = { 0 };
	CUfunction func = check_kernel("empty");
	CUcontext there = NULL, popped = NULL;
	CUlibrary library[2] = { NULL };
	CUkernel kernel[2] = { NULL };
	CUgraph graph = NULL;
	CUgraphNode node = NULL;
	CUstream stream = NULL;
	uint64_t start;

	for (int i = 0; i < 2; i++) {
		OK(cuLibraryLoadData(&library[i], kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
		OK(cuLibraryGetKernel(&kernel[i], library[i], "empty"));
	}
	OK(cuCtxCreate_v2(&there, 0, 0));
	OK(cuStreamCreate(&stream, 0));
	OK(cuCtxPopCurrent_v2(&popped));
	start = check_free_bytes();
	EXPECT(check_launch(func, stream, NULL), CUDA_ERROR_INVALID_HANDLE);
	OK(check_launch((CUfunction)kernel[0], stream, NULL));
	TRUE(check_free_bytes() == start - 2 * MIB);
	OK(check_launch((CUfunction)kernel[0], NULL, NULL));
	TRUE(check_free_bytes() == start - 4 * MIB);
	node_params.kern = kernel[1];
	node_params.ctx = there;
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &node_params));
	TRUE(check_free_bytes() == start - 6 * MIB);
	OK(cuGraphKernelNodeGetParams_v2(node, &got));
	TRUE(got.kern == kernel[1] && got.ctx == there);
	OK(cuGraphDestroy(graph));
	OK(cuCtxSynchronize());
	OK(cuCtxDestroy_v2(there));
	OK(cuLibraryUnload(library[0]));
	OK(cuLibraryUnload(library[1]));
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
	TRUE(check_child(eager, NULL));
	TRUE(check_child(eager, "count=1,mem=1g,driver=12.1"));
	TRUE(check_child(asked_for_lazy, NULL));
	check_start("count=1,mem=1g,sms=16");
	modules();
	fat_binaries();
	lazy();
	lazy_without_room();
	variables();
	zeros();
	local_memory();
	file();
	functions();
	libraries();
	kernels_elsewhere();
	occupancy();
	return check_end();
}
