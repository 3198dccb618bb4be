/*
 * Wrong calls of every kind: what is freed twice, foreign, in the middle of something, NULL; sizes
 * of 0 and past 64 bits; descriptors with absurd fields; handles of another context. Each line is a
 * call with its answer, and whether it wrote its output; the test compares them with the driver's
 * own.
 */
#include "client.h"

#define HUGE ((size_t)1 << 63)
#define UNSET 0xdeadbeefULL

static int call;

/* One wrong call, and one with an output that must be UNSET before it. */
#define TRY(expression) printf("%d " #expression " %d\n", ++call, (int)(expression))
#define TRY_OUT(out, expression)                                       \
	do {                                                           \
		(out) = (__typeof__(out))UNSET;                        \
		int try_res = (int)(expression);                       \
		printf("%d " #expression " %d %s\n", ++call, try_res,  \
		       (out) == (__typeof__(out))UNSET ? "untouched" : \
		       (out)                           ? "set" :       \
							 "cleared");                             \
	} while (0)

static const CUmemAllocationProp device_memory = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
};

/* Such that no object is behind it. */
static void *const nothing = (void *)0x10;
static CUcontext here, other;

/* No context is current any more; those that were pushed are off the stack. */
static void leave_contexts(void)
{
	CUcontext ctx;

	while (cuCtxPopCurrent_v2(&ctx) == CUDA_SUCCESS)
		;
}

static CUdeviceptr piece(size_t bytes)
{
	CUdeviceptr addr;

	OK(cuMemAlloc_v2(&addr, bytes));
	return addr;
}

static void sizes(void)
{
	CUdeviceptr addr;
	size_t pitch;

	TRY_OUT(addr, cuMemAlloc_v2(&addr, 0));
	TRY_OUT(addr, cuMemAlloc_v2(&addr, HUGE));
	TRY_OUT(addr, cuMemAlloc_v2(&addr, SIZE_MAX));
	TRY_OUT(addr, cuMemAlloc_v2(&addr, SIZE_MAX - 4096));
	TRY(cuMemAlloc_v2(NULL, 4096));
	TRY(cuMemAlloc_v2(NULL, 0));
	TRY_OUT(addr, cuMemAllocManaged(&addr, 0, CU_MEM_ATTACH_GLOBAL));
	TRY_OUT(addr, cuMemAllocManaged(&addr, HUGE, CU_MEM_ATTACH_GLOBAL));
	TRY_OUT(addr, cuMemAllocManaged(&addr, 4096, 0));
	TRY_OUT(addr, cuMemAllocManaged(&addr, 4096, 77));
	TRY_OUT(addr, cuMemAllocManaged(&addr, SIZE_MAX, 77));
	TRY(cuMemAllocManaged(NULL, 4096, CU_MEM_ATTACH_GLOBAL));
	TRY_OUT(addr, cuMemAllocPitch_v2(&addr, &pitch, 0, 16, 4));
	TRY_OUT(addr, cuMemAllocPitch_v2(&addr, &pitch, 16, 0, 4));
	TRY_OUT(addr, cuMemAllocPitch_v2(&addr, &pitch, 16, 16, 0));
	TRY_OUT(addr, cuMemAllocPitch_v2(&addr, &pitch, 16, 16, 3));
	TRY_OUT(addr, cuMemAllocPitch_v2(&addr, &pitch, 16, 16, 32));
	TRY_OUT(addr, cuMemAllocPitch_v2(&addr, &pitch, HUGE, HUGE, 4));
	TRY_OUT(addr, cuMemAllocPitch_v2(&addr, &pitch, (size_t)1 << 32, (size_t)1 << 32, 4));
	TRY_OUT(addr, cuMemAllocPitch_v2(&addr, &pitch, (size_t)1 << 33, ((size_t)1 << 31) + 1, 4));
	TRY_OUT(addr, cuMemAllocPitch_v2(&addr, &pitch, SIZE_MAX, 1, 4));
	TRY_OUT(addr, cuMemAllocPitch_v2(&addr, &pitch, 1, SIZE_MAX, 4));
	TRY_OUT(pitch, cuMemAllocPitch_v2(&addr, &pitch, SIZE_MAX - 600, 2, 16));
	TRY(cuMemAllocPitch_v2(NULL, &pitch, 16, 16, 4));
	TRY(cuMemAllocPitch_v2(&addr, NULL, 16, 16, 4));
}

static void frees(void)
{
	CUdeviceptr a = piece(4096), b = piece(5 * MIB);
	char *host = malloc(100);

	TRY(cuMemFree_v2(0));
	TRY(cuMemFree_v2((CUdeviceptr)(uintptr_t)host));
	TRY(cuMemFree_v2((CUdeviceptr)(uintptr_t)&a));
	TRY(cuMemFree_v2(UINT64_MAX));
	TRY(cuMemFree_v2(a + 1));
	TRY(cuMemFree_v2(b + 2 * MIB));
	TRY(cuMemFreeAsync(0, NULL));
	TRY(cuMemFreeAsync(b + 512, NULL));
	TRY(cuMemFreeAsync((CUdeviceptr)(uintptr_t)host, NULL));
	TRY(cuMemFree_v2(a));
	TRY(cuMemFree_v2(a));
	TRY(cuMemFreeAsync(a, NULL));
	a = piece(3 * MIB);
	TRY(cuMemFreeAsync(a + MIB, NULL));
	TRY(cuMemFreeAsync(a, nothing));
	TRY(cuMemFreeAsync(a, CU_STREAM_PER_THREAD));
	TRY(cuMemFreeAsync(a, NULL));
	TRY(cuMemFree_v2(a));
	OK(cuCtxSetCurrent(other));
	TRY(cuMemFree_v2(b));
	TRY(cuMemFree_v2(b));
	leave_contexts();
	TRY(cuMemFree_v2(0));
	TRY(cuMemFree_v2(b));
	TRY_OUT(a, cuMemAlloc_v2(&a, 4096));
	TRY_OUT(a, cuMemAllocAsync(&a, 4096, NULL));
	OK(cuCtxSetCurrent(here));
	free(host);
}

static void handles(void)
{
	CUmemAllocationProp odd = device_memory;
	CUmemGenericAllocationHandle h, own;
	CUdeviceptr at, linear = piece(MIB);

	TRY_OUT(h, cuMemCreate(&h, 0, &device_memory, 0));
	TRY_OUT(h, cuMemCreate(&h, 4096, &device_memory, 0));
	TRY_OUT(h, cuMemCreate(&h, HUGE, &device_memory, 0));
	TRY_OUT(h, cuMemCreate(&h, SIZE_MAX, &device_memory, 0));
	TRY_OUT(h, cuMemCreate(&h, 2 * MIB, NULL, 0));
	TRY_OUT(h, cuMemCreate(&h, 2 * MIB, &device_memory, 1));
	TRY(cuMemCreate(NULL, 2 * MIB, &device_memory, 0));
	odd.location.id = 77;
	TRY_OUT(h, cuMemCreate(&h, 2 * MIB, &odd, 0));
	odd.location.id = -1;
	TRY_OUT(h, cuMemCreate(&h, 2 * MIB, &odd, 0));
	odd.location.type = 99;
	TRY_OUT(h, cuMemCreate(&h, 2 * MIB, &odd, 0));
	odd = device_memory;
	odd.type = 99;
	TRY_OUT(h, cuMemCreate(&h, 2 * MIB, &odd, 0));
	odd = device_memory;
	odd.requestedHandleTypes = 0x80;
	TRY_OUT(h, cuMemCreate(&h, 2 * MIB, &odd, 0));
	OK(cuMemCreate(&own, 2 * MIB, &device_memory, 0));
	OK(cuMemAddressReserve(&at, 8 * MIB, 0, 0, 0));
	TRY(cuMemMap(at, 2 * MIB, 0, 0, 0));
	TRY(cuMemMap(at, 2 * MIB, 0, 0xdead, 0));
	TRY(cuMemMap(0, 2 * MIB, 0, own, 0));
	TRY(cuMemMap(at, 0, 0, own, 0));
	TRY(cuMemMap(at, HUGE, 0, own, 0));
	TRY(cuMemMap(at, 4 * MIB, 0, own, 0));
	TRY(cuMemMap(at, 2 * MIB, 2 * MIB, own, 0));
	TRY(cuMemMap(at, 2 * MIB, SIZE_MAX, own, 0));
	TRY(cuMemMap(at + 4096, 2 * MIB, 0, own, 0));
	TRY(cuMemMap(linear, 2 * MIB, 0, own, 0));
	TRY(cuMemMap(at, 2 * MIB, 0, own, 1));
	OK(cuMemMap(at, 2 * MIB, 0, own, 0));
	TRY(cuMemMap(at, 2 * MIB, 0, own, 0));
	TRY(cuMemUnmap(0, 2 * MIB));
	TRY(cuMemUnmap(at, 0));
	TRY(cuMemUnmap(at, MIB));
	TRY(cuMemUnmap(at, 4 * MIB));
	TRY(cuMemUnmap(at + MIB, MIB));
	TRY(cuMemUnmap(at, SIZE_MAX));
	TRY(cuMemUnmap(linear, MIB));
	TRY(cuMemFree_v2(at));
	TRY(cuMemAddressFree(at, 8 * MIB));
	TRY_OUT(h, cuMemRetainAllocationHandle(&h, (void *)(uintptr_t)linear));
	TRY_OUT(h, cuMemRetainAllocationHandle(&h, NULL));
	TRY_OUT(h, cuMemRetainAllocationHandle(&h, (void *)(uintptr_t)(at + 4 * MIB)));
	TRY(cuMemRetainAllocationHandle(NULL, (void *)(uintptr_t)at));
	TRY_OUT(h, cuMemImportFromShareableHandle(&h, NULL, 1));
	TRY_OUT(h, cuMemImportFromShareableHandle(&h, (void *)(intptr_t)-1, 1));
	TRY_OUT(h, cuMemImportFromShareableHandle(&h, (void *)(intptr_t)0, 77));
	TRY(cuMemImportFromShareableHandle(NULL, nothing, 1));
	TRY(cuMemRelease(0));
	TRY(cuMemRelease(0xdead));
	TRY(cuMemRelease(own));
	TRY(cuMemRelease(own));
	TRY(cuMemUnmap(at, 2 * MIB));
	TRY(cuMemUnmap(at, 2 * MIB));
	TRY(cuMemRelease(own));
	OK(cuMemAddressFree(at, 8 * MIB));
	OK(cuMemFree_v2(linear));
}

static CUresult array_of(CUarray *out, size_t width, size_t height, CUarray_format format,
			 unsigned channels)
{
	const CUDA_ARRAY_DESCRIPTOR d = { width, height, format, channels };

	return cuArrayCreate_v2(out, &d);
}

static CUresult cube_of(CUarray *out, size_t side, unsigned flags)
{
	const CUDA_ARRAY3D_DESCRIPTOR d = { side, side, side, CU_AD_FORMAT_FLOAT, 1, flags };

	return cuArray3DCreate_v2(out, &d);
}

static CUresult mipmap_of(CUmipmappedArray *out, size_t side, unsigned levels)
{
	const CUDA_ARRAY3D_DESCRIPTOR d = { side, side, 0, CU_AD_FORMAT_FLOAT, 1, 0 };

	return cuMipmappedArrayCreate(out, &d, levels);
}

static void arrays(void)
{
	CUmipmappedArray mipmap;
	CUarray array;

	TRY_OUT(array, array_of(&array, 0, 0, CU_AD_FORMAT_FLOAT, 1));
	TRY_OUT(array, array_of(&array, HUGE, 0, CU_AD_FORMAT_FLOAT, 1));
	TRY_OUT(array, array_of(&array, HUGE, HUGE, CU_AD_FORMAT_FLOAT, 4));
	TRY_OUT(array, array_of(&array, (size_t)1 << 32, (size_t)1 << 32, CU_AD_FORMAT_FLOAT, 1));
	TRY_OUT(array, array_of(&array, 16, SIZE_MAX, CU_AD_FORMAT_FLOAT, 1));
	TRY_OUT(array, array_of(&array, 16, 16, CU_AD_FORMAT_FLOAT, 0));
	TRY_OUT(array, array_of(&array, 16, 16, CU_AD_FORMAT_FLOAT, 3));
	TRY_OUT(array, array_of(&array, 16, 16, CU_AD_FORMAT_FLOAT, UINT32_MAX));
	TRY_OUT(array, array_of(&array, 16, 16, 0, 1));
	TRY_OUT(array, array_of(&array, 16, 16, 0x7fffffff, 1));
	TRY_OUT(array, cuArrayCreate_v2(&array, NULL));
	TRY(array_of(NULL, 16, 16, CU_AD_FORMAT_FLOAT, 1));
	TRY_OUT(array, cube_of(&array, 0, 0));
	TRY_OUT(array, cube_of(&array, HUGE, 0));
	TRY_OUT(array, cube_of(&array, (size_t)1 << 22, 0));
	TRY_OUT(array, cube_of(&array, 16, 0x80000000));
	TRY_OUT(array, cuArray3DCreate_v2(&array, NULL));
	TRY(cube_of(NULL, 16, 0));
	TRY_OUT(mipmap, mipmap_of(&mipmap, 0, 3));
	TRY_OUT(mipmap, mipmap_of(&mipmap, 64, 0));
	TRY_OUT(mipmap, mipmap_of(&mipmap, HUGE, 3));
	TRY_OUT(mipmap, cuMipmappedArrayCreate(&mipmap, NULL, 3));
	TRY(mipmap_of(NULL, 64, 3));
	TRY(cuArrayDestroy(NULL));
	TRY(cuMipmappedArrayDestroy(NULL));
	OK(array_of(&array, 16, 16, CU_AD_FORMAT_FLOAT, 1));
	OK(mipmap_of(&mipmap, 64, UINT32_MAX));
	OK(cuCtxSetCurrent(other));
	TRY(cuArrayDestroy(array));
	TRY(cuMipmappedArrayDestroy(mipmap));
	OK(cuCtxSetCurrent(here));
}

static CUresult pool_of(CUmemoryPool *out, int type, int location, int id, size_t most)
{
	const CUmemPoolProps props = { .allocType = (CUmemAllocationType)type,
				       .location = { .type = (CUmemLocationType)location,
						     .id = id },
				       .maxSize = most };

	return cuMemPoolCreate(out, &props);
}

static void pools(void)
{
	CUmemoryPool pool, usual;
	CUdeviceptr addr;

	TRY_OUT(addr, cuMemAllocAsync(&addr, 0, NULL));
	TRY_OUT(addr, cuMemAllocAsync(&addr, HUGE, NULL));
	TRY_OUT(addr, cuMemAllocAsync(&addr, SIZE_MAX, NULL));
	TRY(cuMemAllocAsync(NULL, 4096, NULL));
	TRY_OUT(pool, pool_of(&pool, 99, CU_MEM_LOCATION_TYPE_DEVICE, 0, 0));
	TRY_OUT(pool, pool_of(&pool, CU_MEM_ALLOCATION_TYPE_PINNED, 99, 0, 0));
	TRY_OUT(pool,
		pool_of(&pool, CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE, 77, 0));
	TRY_OUT(pool,
		pool_of(&pool, CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE, -1, 0));
	TRY_OUT(pool, cuMemPoolCreate(&pool, NULL));
	TRY(pool_of(NULL, CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE, 0, 0));
	TRY(cuMemPoolCreate(NULL, NULL));
	TRY(cuMemPoolDestroy(NULL));
	TRY(cuMemPoolTrimTo(NULL, 0));
	TRY_OUT(addr, cuMemAllocFromPoolAsync(&addr, 4096, NULL, NULL));
	OK(cuDeviceGetDefaultMemPool(&usual, 0));
	TRY(cuMemPoolDestroy(usual));
	TRY(cuMemPoolTrimTo(usual, SIZE_MAX));
	OK(pool_of(&pool, CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE, 0, 0));
	TRY_OUT(addr, cuMemAllocFromPoolAsync(&addr, 0, pool, NULL));
	TRY_OUT(addr, cuMemAllocFromPoolAsync(&addr, HUGE, pool, NULL));
	TRY(cuMemAllocFromPoolAsync(NULL, 4096, pool, NULL));
	OK(cuMemAllocFromPoolAsync(&addr, 4096, pool, NULL));
	TRY(cuMemFreeAsync(addr + 1, NULL));
	TRY(cuMemFree_v2(addr + 1));
	TRY(cuMemFreeAsync(addr, NULL));
	TRY(cuMemFreeAsync(addr, NULL));
	TRY(cuMemFree_v2(addr));
	OK(cuStreamSynchronize(NULL));
	OK(cuMemPoolDestroy(pool));
	OK(cuMemPoolTrimTo(usual, 0));
}

static void graphs(void)
{
	CUgraphExec exec;
	CUgraph graph;

	OK(cuGraphCreate(&graph, 0));
	TRY_OUT(exec, cuGraphInstantiateWithFlags(&exec, NULL, 0));
	TRY_OUT(exec, cuGraphInstantiateWithFlags(&exec, graph, ~0ULL));
	TRY(cuGraphInstantiateWithFlags(NULL, graph, 0));
	TRY_OUT(exec, cuGraphInstantiateWithParams(&exec, graph, NULL));
	TRY(cuGraphLaunch(NULL, NULL));
	TRY(cuGraphUpload(NULL, NULL));
	TRY(cuGraphExecDestroy(NULL));
	TRY(cuDeviceGraphMemTrim(77));
	TRY(cuDeviceGraphMemTrim(-1));
	OK(cuGraphDestroy(graph));
}

static void modules(void)
{
	CUfunction function = NULL;
	CUlibrary library;
	CUmodule module;

	TRY_OUT(module, cuModuleLoadData(&module, NULL));
	TRY_OUT(module, cuModuleLoadData(&module, "this is no module"));
	TRY(cuModuleLoadData(NULL, CLIENT_MODULE));
	TRY_OUT(module, cuModuleLoad(&module, "/no/such/file"));
	TRY_OUT(module, cuModuleLoad(&module, NULL));
	TRY(cuModuleUnload(NULL));
	TRY_OUT(library, cuLibraryLoadData(&library, NULL, NULL, NULL, 0, NULL, NULL, 0));
	TRY(cuLibraryUnload(NULL));
	TRY(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	OK(cuModuleLoadData(&module, CLIENT_MODULE));
	OK(cuModuleGetFunction(&function, module, "empty"));
	TRY(cuLaunchKernel(function, 0, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	TRY(cuLaunchKernel(function, 1, 1, 1, UINT32_MAX, 1, 1, 0, NULL, NULL, NULL));
	TRY(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, UINT32_MAX, NULL, NULL, NULL));
	OK(cuModuleUnload(module));
}

static void contexts(void)
{
	size_t bytes, more;
	CUcontext ctx;

	TRY_OUT(ctx, cuCtxCreate_v2(&ctx, 0, 77));
	TRY_OUT(ctx, cuCtxCreate_v2(&ctx, 0, -1));
	TRY_OUT(ctx, cuCtxCreate_v2(&ctx, ~0u, 0));
	TRY(cuCtxCreate_v2(NULL, 0, 0));
	TRY(cuCtxDestroy_v2(NULL));
	TRY_OUT(ctx, cuDevicePrimaryCtxRetain(&ctx, 77));
	TRY_OUT(ctx, cuDevicePrimaryCtxRetain(&ctx, -1));
	TRY(cuDevicePrimaryCtxRetain(NULL, 0));
	TRY(cuDevicePrimaryCtxRelease_v2(77));
	TRY(cuDevicePrimaryCtxRelease_v2(1));
	TRY(cuDevicePrimaryCtxReset_v2(-1));
	TRY(cuCtxDetach(NULL));
	TRY(cuCtxSetLimit((CUlimit)99, 0));
	TRY(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, SIZE_MAX));
	TRY(cuCtxEnablePeerAccess(NULL, 0));
	TRY(cuCtxEnablePeerAccess(here, 0));
	TRY(cuCtxEnablePeerAccess(other, 77));
	TRY(cuMemGetInfo_v2(NULL, &bytes));
	TRY(cuMemGetInfo_v2(&bytes, NULL));
	TRY(cuMemGetInfo_v2(NULL, NULL));
	TRY_OUT(bytes, cuDeviceTotalMem_v2(&bytes, 77));
	TRY(cuDeviceTotalMem_v2(NULL, 0));
	leave_contexts();
	TRY_OUT(bytes, cuMemGetInfo_v2(&bytes, &more));
	OK(cuCtxSetCurrent(here));
}

static void work(void)
{
	CUdeviceptr addr = piece(4096);
	CUstream stream;
	char host[16];

	TRY(cuMemcpyHtoD_v2(0, host, 16));
	TRY(cuMemcpyHtoD_v2(addr, NULL, 16));
	TRY(cuMemcpyHtoD_v2(addr, host, HUGE));
	TRY(cuMemcpyHtoD_v2(addr + 4090, host, 16));
	TRY(cuMemcpyDtoH_v2(NULL, addr, 16));
	TRY(cuMemcpyDtoD_v2(addr, 0, 16));
	TRY(cuMemcpyDtoD_v2(addr, addr + 2048, SIZE_MAX));
	TRY(cuMemcpyPeer(addr, NULL, addr, here, 16));
	TRY(cuMemcpy2D_v2(NULL));
	TRY(cuMemcpy3D_v2(NULL));
	TRY(cuMemsetD8_v2(0, 1, 16));
	TRY(cuMemsetD8_v2(addr, 1, HUGE));
	TRY(cuMemsetD32_v2(addr + 1, 1, 4));
	TRY(cuMemsetD32_v2(addr, 1, SIZE_MAX / 2));
	TRY(cuMemsetD2D8_v2(addr, 1, 1, 64, 64));
	TRY_OUT(stream, cuStreamCreate(&stream, 77));
	TRY(cuStreamCreate(NULL, 0));
	TRY(cuStreamDestroy_v2(NULL));
	TRY(cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL));
	TRY(cuStreamWriteValue32_v2(NULL, 0, 1, 0));
	TRY(cuStreamWaitValue32_v2(NULL, addr + 1, 1, 0));
	TRY(cuStreamBatchMemOp_v2(NULL, 1, NULL, 0));
	TRY(cuPointerSetAttribute(NULL, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, addr));
	TRY(cuPointerSetAttribute(&call, (CUpointer_attribute)999, addr));
	OK(cuMemFree_v2(addr));
}

/* Wrong, and more than the limit leaves: wrong is said first. */
static void wrong_and_too_much(void)
{
	CUdeviceptr_v1 narrow;
	unsigned narrow_pitch;
	CUmemAllocationProp odd = device_memory;
	CUmemGenericAllocationHandle h;
	CUdeviceptr addr;
	CUarray array;
	size_t pitch;

	TRY_OUT(addr, cuMemAllocManaged(&addr, 1024 * MIB, 77));
	TRY_OUT(addr, cuMemAllocManaged(&addr, 1024 * MIB, CU_MEM_ATTACH_SINGLE));
	TRY_OUT(addr, cuMemAllocPitch_v2(&addr, &pitch, 1024 * MIB, 2, 5));
	TRY_OUT(addr, cuMemAllocPitch_v2(&addr, &pitch, (size_t)1 << 31, 1, 4));
	TRY_OUT(addr, cuMemAllocPitch_v2(&addr, &pitch, ((size_t)1 << 31) - 1, 9, 3));
	TRY_OUT(addr, cuMemAllocFromPoolAsync(&addr, 1024 * MIB, NULL, NULL));
	TRY_OUT(addr, cuMemAllocFromPoolAsync(&addr, HUGE, NULL, NULL));
	TRY_OUT(narrow, cuMemAlloc(&narrow, 1024 * MIB));
	TRY_OUT(narrow, cuMemAllocPitch(&narrow, &narrow_pitch, 1024 * MIB, 1, 4));
	TRY(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, (512 << 10) + 1));
	TRY(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, UINT32_MAX));
	TRY(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, SIZE_MAX));
	TRY_OUT(h, cuMemCreate(&h, 1024 * MIB + 1, &device_memory, 0));
	TRY_OUT(h, cuMemCreate(&h, 1024 * MIB, &device_memory, 3));
	odd.type = 99;
	TRY_OUT(h, cuMemCreate(&h, 1024 * MIB, &odd, 0));
	TRY_OUT(h, cuMemCreate(&h, 1024 * MIB + 1, &odd, 0));
	TRY_OUT(h, cuMemCreate(&h, 1024 * MIB, &odd, 1));
	odd = device_memory;
	odd.requestedHandleTypes = 0x80;
	TRY_OUT(h, cuMemCreate(&h, 1024 * MIB, &odd, 0));
	TRY_OUT(h, cuMemCreate(&h, 1024 * MIB + 1, &odd, 0));
	TRY_OUT(h, cuMemCreate(&h, 1024 * MIB, &odd, 1));
	TRY_OUT(array, array_of(&array, 65536, 32768, 0, 1));
	TRY_OUT(array, array_of(&array, 65536, 32768, CU_AD_FORMAT_FLOAT, 3));
	TRY_OUT(array, array_of(&array, 1 << 20, 1 << 20, CU_AD_FORMAT_FLOAT, 4));
	TRY_OUT(array, cube_of(&array, 1024, 0x80000000));
	TRY_OUT(array, cube_of(&array, 1 << 20, 0));
}

static void imports(void)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = { .type = 99, .size = HUGE };
	CUdeviceptr addr, own = piece(2 * MIB);
	CUipcMemHandle handle = { { 0 } };
	CUexternalMemory memory;

	TRY(cuIpcGetMemHandle(NULL, own));
	TRY(cuIpcGetMemHandle(&handle, 0));
	TRY(cuIpcGetMemHandle(&handle, UINT64_MAX));
	TRY_OUT(addr, cuIpcOpenMemHandle_v2(&addr, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	TRY_OUT(addr, cuIpcOpenMemHandle_v2(&addr, handle, 77));
	TRY(cuIpcOpenMemHandle_v2(NULL, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	TRY(cuIpcCloseMemHandle(0));
	TRY(cuIpcCloseMemHandle(own));
	TRY_OUT(memory, cuImportExternalMemory(&memory, &desc));
	TRY_OUT(memory, cuImportExternalMemory(&memory, NULL));
	TRY(cuImportExternalMemory(NULL, &desc));
	TRY(cuDestroyExternalMemory(NULL));
	OK(cuMemFree_v2(own));
}

int main(void)
{
	here = client_start();
	OK(cuCtxCreate_v2(&other, 0, 0));
	OK(cuCtxSetCurrent(here));
	client_pause("before");
	sizes();
	frees();
	handles();
	arrays();
	pools();
	graphs();
	modules();
	contexts();
	work();
	wrong_and_too_much();
	imports();
	OK(cuCtxSynchronize());
	client_pause("after");
	return 0;
}
