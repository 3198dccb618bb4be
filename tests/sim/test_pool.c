/* Stream-ordered memory: growth, reuse, what pools hold and when they give it back. */
#include "check.h"

static cuuint64_t figure(CUmemoryPool pool, CUmemPool_attribute attribute)
{
	cuuint64_t value = 0;

	OK(cuMemPoolGetAttribute(pool, attribute, &value));
	return value;
}

static cuuint64_t reserved(CUmemoryPool pool)
{
	return figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
}

static CUmemoryPool default_pool(void)
{
	CUmemoryPool pool = NULL;

	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	return pool;
}

static void arguments(void)
{
	CUmemoryPool pool = default_pool();
	CUdeviceptr address;
	cuuint64_t one = 1;

	EXPECT(cuMemAllocAsync(NULL, 1, NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemAllocAsync(&address, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemAllocAsync(&address, (size_t)1 << 63, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT(cuMemAllocAsync(&address, SIZE_MAX, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT(cuMemAllocFromPoolAsync(&address, 1, (CUmemoryPool)&pool, NULL),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemFreeAsync(0x1000, NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemPoolDestroy(NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &one),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &one),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)99, &one),
	       CUDA_ERROR_INVALID_VALUE);
	OK(cuMemAllocAsync(&address, 5000, NULL));
	EXPECT(cuMemFreeAsync(address + 512, NULL), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFreeAsync(address, NULL));
	EXPECT(cuMemFreeAsync(address, NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
	OK(cuCtxSynchronize());
}

/* The default pool grows by 32 MiB and is empty again after a synchronise. */
static void growth(void)
{
	static const struct {
		uint64_t ask_bytes, reserved_mib;
	} steps[] = {
		{ 1024, 32 }, { MIB, 32 }, { 3 * MIB, 32 }, { 33 * MIB, 96 }, { 65 * MIB, 192 }
	};
	CUmemoryPool pool = default_pool();
	uint64_t start = check_free_bytes();
	CUdeviceptr address[5];

	TRUE(reserved(pool) == 0);
	for (int i = 0; i < 5; i++) {
		OK(cuMemAllocAsync(&address[i], steps[i].ask_bytes, NULL));
		TRUE(address[i] % 512 == 0);
		TRUE(reserved(pool) == steps[i].reserved_mib * MIB);
	}
	TRUE(check_free_bytes() == start - 192 * MIB);
	TRUE(figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 102 * MIB + 1024);
	for (int i = 0; i < 5; i++)
		OK(cuMemFreeAsync(address[i], NULL));
	TRUE(figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0);
	TRUE(figure(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 102 * MIB + 1024);
	TRUE(reserved(pool) == 192 * MIB);
	OK(cuStreamSynchronize(NULL));
	TRUE(reserved(pool) == 0);
	TRUE(figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) == 192 * MIB);
	TRUE(check_free_bytes() == start);
}

/* What is freed in a stream can be had again in it at once, elsewhere when the free has happened. */
static void reuse(void)
{
	CUstream first, second;
	CUdeviceptr a, b, c;
	int flag = 0;

	OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
	OK(cuLaunchHostFunc(first, check_hold, &flag));
	OK(cuMemAllocAsync(&a, MIB, first));
	OK(cuMemFreeAsync(a, first));
	OK(cuMemAllocAsync(&b, MIB, first));
	TRUE(b == a);
	OK(cuMemFreeAsync(b, first));
	OK(cuMemAllocAsync(&c, MIB, second));
	TRUE(c != a);
	check_let_go(&flag);
	OK(cuMemFreeAsync(c, second));
	OK(cuStreamSynchronize(first));
	OK(cuStreamDestroy_v2(second));
	OK(cuStreamDestroy_v2(first));
	OK(cuCtxSynchronize());
}

static void threshold(void)
{
	CUmemoryPool pool = default_pool();
	cuuint64_t keep = 64 * MIB, none = 0;
	CUdeviceptr address[3];

	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	for (int i = 0; i < 3; i++)
		OK(cuMemAllocAsync(&address[i], 32 * MIB, NULL));
	for (int i = 0; i < 3; i++)
		OK(cuMemFreeAsync(address[i], NULL));
	OK(cuCtxSynchronize());
	TRUE(reserved(pool) == 64 * MIB);
	OK(cuMemPoolTrimTo(pool, 32 * MIB));
	TRUE(reserved(pool) == 32 * MIB);
	OK(cuMemPoolTrimTo(pool, 0));
	TRUE(reserved(pool) == 0);
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &none));
}

static void own_pool(void)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
				 .maxSize = 64 * MIB };
	CUmemoryPool pool, now, handle = NULL;
	uint64_t start = check_free_bytes();
	CUdeviceptr a, b, c;

	EXPECT(cuMemPoolCreate(NULL, &props), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemPoolCreate(&pool, NULL), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemPoolCreate(&pool, &props));
	OK(cuDeviceSetMemPool(0, pool));
	OK(cuDeviceGetMemPool(&now, 0));
	TRUE(now == pool);
	OK(cuMemAllocAsync(&a, MIB, NULL));
	OK(cuMemAllocFromPoolAsync(&b, 32 * MIB, pool, NULL));
	EXPECT(cuMemAllocFromPoolAsync(&c, 32 * MIB, pool, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuPointerGetAttribute(&handle, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a));
	TRUE(handle == pool);
	TRUE(reserved(pool) == 64 * MIB);
	OK(cuMemPoolDestroy(pool));
	EXPECT(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
	OK(cuDeviceGetMemPool(&now, 0));
	TRUE(now == default_pool());
	OK(cuMemFreeAsync(a, NULL));
	OK(cuMemFree_v2(b));
	OK(cuCtxSynchronize());
	TRUE(check_free_bytes() == start);
}

/* It takes nothing of the device, and goes with the last memory in it. */
static void managed(void)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_MANAGED,
				 .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	uint64_t start = check_free_bytes();
	CUmemoryPool pool, handle = NULL;
	unsigned is_managed = 0;
	CUdeviceptr a;

	OK(cuMemPoolCreate(&pool, &props));
	OK(cuMemAllocFromPoolAsync(&a, MIB, pool, NULL));
	TRUE(reserved(pool) == 32 * MIB);
	TRUE(check_free_bytes() == start);
	OK(cuPointerGetAttribute(&handle, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a));
	OK(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, a));
	TRUE(handle == pool && is_managed == 1);
	OK(cuMemsetD32Async(a, 9, MIB / 4, NULL));
	OK(cuCtxSynchronize());
	TRUE(((unsigned *)a)[1000] == 9);
	OK(cuMemPoolDestroy(pool));
	OK(cuMemsetD32Async(a, 8, MIB / 4, NULL));
	OK(cuMemFreeAsync(a, NULL));
	OK(cuCtxSynchronize());
	EXPECT(cuMemFree_v2(a), CUDA_ERROR_INVALID_VALUE);
}

/* Memory of pools is memory like any other. */
static void use(void)
{
	CUdeviceptr address, base;
	unsigned value = 0;
	size_t bytes;

	OK(cuMemAllocAsync(&address, 1000, NULL));
	OK(cuMemsetD32Async(address, 9, 250, NULL));
	OK(cuMemcpyDtoHAsync_v2(&value, address + 996, 4, NULL));
	OK(cuStreamSynchronize(NULL));
	TRUE(value == 9);
	OK(cuMemGetAddressRange_v2(&base, &bytes, address + 10));
	TRUE(base == address && bytes == 1000);
	OK(cuMemFree_v2(address));
	EXPECT(cuMemGetAddressRange_v2(&base, &bytes, address), CUDA_ERROR_NOT_FOUND);
	OK(cuCtxSynchronize());
}

/* A full pool waits for what is about to be freed. */
static void full(void)
{
	uint64_t start = check_free_bytes();
	CUstream stream;
	CUdeviceptr a, b;

	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemAllocAsync(&a, 512 * MIB, stream));
	EXPECT(cuMemAllocAsync(&b, 512 * MIB, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	check_spin(check_kernel("spin"), stream, 10);
	OK(cuMemFreeAsync(a, stream));
	OK(cuMemAllocAsync(&b, 512 * MIB, NULL));
	OK(cuMemFreeAsync(b, NULL));
	OK(cuCtxSynchronize());
	OK(cuStreamDestroy_v2(stream));
	TRUE(check_free_bytes() == start - 2 * MIB);
}

int main(void)
{
	check_start("count=1,mem=1g,context=64m");
	arguments();
	growth();
	reuse();
	threshold();
	own_pool();
	managed();
	use();
	full();
	return check_end();
}
