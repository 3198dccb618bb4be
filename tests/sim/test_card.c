/*
 * What was measured on a real card (docs/real-gpu.md) and is no other test's: what NVML says of a
 * process, what outlives a context, what an ended or forked one is told.
 */
#include "nvml.h"

#define CONTEXT_BYTES (64 * MIB)

static nvmlDevice_t card;

static int64_t own_bytes(void)
{
	return nvml_process_bytes(card, (unsigned)getpid());
}

static CUmemGenericAllocationHandle new_handle(uint64_t bytes)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemGenericAllocationHandle handle = 0;

	OK(cuMemCreate(&handle, bytes, &prop, 0));
	return handle;
}

static CUdeviceptr new_mapping(CUmemGenericAllocationHandle handle, uint64_t bytes)
{
	CUdeviceptr address = 0;

	OK(cuMemAddressReserve(&address, bytes, 0, 0, 0));
	OK(cuMemMap(address, bytes, 0, handle, 0));
	return address;
}

static CUcontext make_primary(void)
{
	CUcontext ctx = NULL;

	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	return ctx;
}

/* A process is listed only while it has a context; each further one costs the same. */
static void contexts(void)
{
	CUcontext ctx, other;
	CUdeviceptr a;

	TRUE(own_bytes() == -1);
	ctx = make_primary();
	TRUE(own_bytes() == (int64_t)CONTEXT_BYTES);
	OK(cuCtxCreate_v2(&other, 0, 0));
	TRUE(own_bytes() == (int64_t)(2 * CONTEXT_BYTES));
	OK(cuCtxDestroy_v2(other));
	TRUE(own_bytes() == (int64_t)CONTEXT_BYTES);
	EXPECT(cuCtxDestroy_v2(ctx), CUDA_ERROR_INVALID_CONTEXT);
	TRUE(own_bytes() == (int64_t)CONTEXT_BYTES);
	OK(cuCtxSetCurrent(ctx));
	OK(cuDevicePrimaryCtxReset_v2(0));
	EXPECT(cuMemAlloc_v2(&a, 1), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	EXPECT(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	TRUE(own_bytes() == -1);
}

/* The device lacks managed memory that is on it, but the process's figure does not show it. */
static void managed(void)
{
	uint64_t used_bytes;
	CUdeviceptr address;

	make_primary();
	used_bytes = nvml_used_bytes(card);
	OK(cuMemAllocManaged(&address, 100 * MIB, CU_MEM_ATTACH_GLOBAL));
	TRUE(own_bytes() == (int64_t)CONTEXT_BYTES);
	TRUE(nvml_used_bytes(card) == used_bytes);
	OK(cuMemPrefetchAsync(address, 100 * MIB, 0, NULL));
	OK(cuCtxSynchronize());
	TRUE(own_bytes() == (int64_t)CONTEXT_BYTES);
	TRUE(nvml_used_bytes(card) == used_bytes + 100 * MIB);
	OK(cuMemFree_v2(address));
	TRUE(own_bytes() == (int64_t)CONTEXT_BYTES);
	TRUE(nvml_used_bytes(card) == used_bytes);
	OK(cuDevicePrimaryCtxRelease_v2(0));
}

/* A handle needs no context and outlives one: its memory shows again with the next. */
static void handles(void)
{
	CUmemGenericAllocationHandle handle, same;
	CUdeviceptr first, second;

	OK(cuCtxSetCurrent(NULL));
	handle = new_handle(10 * MIB);
	TRUE(own_bytes() == -1);
	make_primary();
	TRUE(own_bytes() == (int64_t)(CONTEXT_BYTES + 10 * MIB));
	first = new_mapping(handle, 10 * MIB);
	second = new_mapping(handle, 10 * MIB);
	TRUE(own_bytes() == (int64_t)(CONTEXT_BYTES + 10 * MIB));
	OK(cuMemRetainAllocationHandle(&same, (void *)second));
	TRUE(same == handle);
	OK(cuMemRelease(same));
	OK(cuDevicePrimaryCtxReset_v2(0));
	TRUE(own_bytes() == -1);
	TRUE(nvml_used_bytes(card) == 10 * MIB);
	make_primary();
	TRUE(own_bytes() == (int64_t)(CONTEXT_BYTES + 10 * MIB));
	OK(cuMemRelease(handle));
	TRUE(own_bytes() == (int64_t)(CONTEXT_BYTES + 10 * MIB));
	EXPECT(cuMemUnmap(first, 2 * MIB), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemUnmap(first, 10 * MIB));
	TRUE(own_bytes() == (int64_t)(CONTEXT_BYTES + 10 * MIB));
	OK(cuMemUnmap(second, 10 * MIB));
	TRUE(own_bytes() == (int64_t)CONTEXT_BYTES);
	OK(cuMemAddressFree(first, 10 * MIB));
	OK(cuMemAddressFree(second, 10 * MIB));
	OK(cuDevicePrimaryCtxRelease_v2(0));
}

/* One unmap may cover several mappings. */
static void several(void)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;

	make_primary();
	OK(cuMemAddressReserve(&address, 6 * MIB, 0, 0, 0));
	for (int i = 0; i < 3; i++) {
		handle = new_handle(2 * MIB);
		OK(cuMemMap(address + (uint64_t)i * 2 * MIB, 2 * MIB, 0, handle, 0));
		OK(cuMemRelease(handle));
	}
	TRUE(own_bytes() == (int64_t)(CONTEXT_BYTES + 6 * MIB));
	OK(cuMemUnmap(address, 6 * MIB));
	TRUE(own_bytes() == (int64_t)CONTEXT_BYTES);
	OK(cuMemAddressFree(address, 6 * MIB));
	OK(cuDevicePrimaryCtxRelease_v2(0));
}

static void odd_arguments(void)
{
	unsigned narrow = 0;
	size_t wide;

	OK(cuDeviceTotalMem(&narrow, 0));
	TRUE(narrow == UINT32_MAX);
	EXPECT(cuDeviceTotalMem_v2(&wide, 99), CUDA_ERROR_INVALID_DEVICE);
	EXPECT(cuDeviceTotalMem_v2(&wide, -1), CUDA_ERROR_INVALID_DEVICE);
}

static void lookups(void)
{
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
	void *fn = &fn;

	OK(cuGetProcAddress_v2("cuNoSuchCall", &fn, 13000, 0, &status));
	TRUE(fn == NULL && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	fn = &fn;
	status = CU_GET_PROC_ADDRESS_SUCCESS;
	OK(cuGetProcAddress_v2("cuMemAlloc_v2", &fn, 13000, 0, &status));
	TRUE(fn == NULL && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	OK(cuGetProcAddress_v2("cuMemAlloc", &fn, 13000, 0, &status));
	TRUE(fn == (void *)cuMemAlloc_v2 && status == CU_GET_PROC_ADDRESS_SUCCESS);
}

/* A fork child of an initialised process has no driver and no NVML; lookups work. */
static int child(void *arg)
{
	CUdevice dev;
	CUcontext ctx;
	CUdeviceptr a;
	unsigned count;

	(void)arg;
	EXPECT(cuInit(0), CUDA_ERROR_NOT_INITIALIZED);
	EXPECT(cuDeviceGet(&dev, 0), CUDA_ERROR_NOT_INITIALIZED);
	EXPECT(cuCtxGetCurrent(&ctx), CUDA_ERROR_NOT_INITIALIZED);
	EXPECT(cuMemAlloc_v2(&a, 1), CUDA_ERROR_NOT_INITIALIZED);
	EXPECT(cuInit(0), CUDA_ERROR_NOT_INITIALIZED);
	lookups();
	TRUE(NVML(nvmlDeviceGetCount_v2, &count) == NVML_ERROR_UNINITIALIZED);
	TRUE(NVML(nvmlInit_v2) == NVML_SUCCESS);
	TRUE(NVML(nvmlDeviceGetCount_v2, &count) == NVML_SUCCESS && count == 1);
	return 0;
}

/* As an older driver does in a container: the list shows the host's pids, and none is ours. */
static int host_pids(void *arg)
{
	(void)arg;
	check_machine("count=1,mem=1g,context=64m,pids=host");
	OK(cuInit(0));
	card = nvml_start();
	make_primary();
	TRUE(own_bytes() == -1);
	TRUE(nvml_process_bytes(card, (unsigned)getpid() + 1000000) == (int64_t)CONTEXT_BYTES);
	return check_end();
}

int main(void)
{
	TRUE(check_child(host_pids, NULL));
	check_machine("count=1,mem=8g,context=64m");
	lookups();
	OK(cuInit(0));
	card = nvml_start();
	contexts();
	managed();
	handles();
	several();
	odd_arguments();
	TRUE(check_child(child, NULL));
	return check_end();
}
