/* Mapped memory: handles, addresses, remapping, rights, faults. */
#include <unistd.h>

#include "check.h"

#define UNIT (2 * MIB)

static CUmemAllocationProp device_prop(int dev)
{
	return (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = dev },
	};
}

static CUmemAccessDesc access_of(int dev, CUmemAccess_flags flags)
{
	return (CUmemAccessDesc){ { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = dev }, flags };
}

static CUmemGenericAllocationHandle create(uint64_t bytes)
{
	CUmemAllocationProp prop = device_prop(0);
	CUmemGenericAllocationHandle handle = 0;

	OK(cuMemCreate(&handle, bytes, &prop, 0));
	return handle;
}

static CUdeviceptr reserve(uint64_t bytes)
{
	CUdeviceptr address = 0;

	OK(cuMemAddressReserve(&address, bytes, 0, 0, 0));
	return address;
}

static void allow(CUdeviceptr address, uint64_t bytes)
{
	CUmemAccessDesc access = access_of(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);

	OK(cuMemSetAccess(address, bytes, &access, 1));
}

static void handles(void)
{
	CUmemAllocationProp prop = device_prop(0), got;
	CUmemGenericAllocationHandle h;
	uint64_t start = check_free_bytes();
	size_t unit;

	OK(cuMemGetAllocationGranularity(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	TRUE(unit == UNIT);
	EXPECT(cuMemGetAllocationGranularity(NULL, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemGetAllocationGranularity(&unit, NULL, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemCreate(NULL, UNIT, &prop, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemCreate(&h, UNIT, NULL, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemCreate(&h, 0, &prop, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemCreate(&h, UNIT + 1, &prop, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemCreate(&h, UNIT, &prop, 1), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemCreate(&h, 1 << 30, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT(cuMemCreate(&h, (size_t)1 << 62, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
	prop.location.id = 9;
	EXPECT(cuMemCreate(&h, UNIT, &prop, 0), CUDA_ERROR_INVALID_DEVICE);
	prop.location.id = 0;
	prop.type = CU_MEM_ALLOCATION_TYPE_INVALID;
	EXPECT(cuMemCreate(&h, UNIT, &prop, 0), CUDA_ERROR_INVALID_VALUE);
	h = create(4 * UNIT);
	TRUE(check_free_bytes() == start - 4 * UNIT);
	OK(cuMemGetAllocationPropertiesFromHandle(&got, h));
	TRUE(got.location.type == CU_MEM_LOCATION_TYPE_DEVICE && got.location.id == 0);
	OK(cuMemRelease(h));
	EXPECT(cuMemRelease(h), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemRelease(0), CUDA_ERROR_INVALID_VALUE);
	TRUE(check_free_bytes() == start);
}

static void addresses(void)
{
	CUdeviceptr a, b;

	EXPECT(cuMemAddressReserve(NULL, UNIT, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemAddressReserve(&a, 0, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemAddressReserve(&a, UNIT, 0, 0, 1), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemAddressReserve(&a, UNIT, 3 * UNIT, 0, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemAddressReserve(&a, (size_t)1 << 62, 0, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemAddressReserve(&a, UNIT, 64 * UNIT, 0, 0));
	TRUE(a % (64 * UNIT) == 0);
	EXPECT(cuMemAddressFree(a, 2 * UNIT), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemAddressFree(a + UNIT, UNIT), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemAddressFree(a, UNIT));
	EXPECT(cuMemAddressFree(a, UNIT), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemAddressReserve(&b, UNIT, 0, a, 0));
	TRUE(b == a);
	OK(cuMemAddressFree(b, UNIT));
}

/* The same bytes under another address, and other bytes under the same address. */
static void remapping(void)
{
	CUmemGenericAllocationHandle first = create(UNIT), second = create(UNIT);
	CUdeviceptr a = reserve(4 * UNIT), b = a + 2 * UNIT;
	unsigned value = 0;

	OK(cuMemMap(a, UNIT, 0, first, 0));
	allow(a, UNIT);
	OK(cuMemsetD32_v2(a, 11, UNIT / 4));
	OK(cuMemMap(b, UNIT, 0, first, 0));
	allow(b, UNIT);
	OK(cuMemcpyDtoH_v2(&value, b + UNIT - 4, 4));
	TRUE(value == 11);
	OK(cuMemsetD32_v2(b, 12, 1));
	OK(cuMemcpyDtoH_v2(&value, a, 4));
	TRUE(value == 12);
	OK(cuMemUnmap(a, UNIT));
	OK(cuMemMap(a, UNIT, 0, second, 0));
	allow(a, UNIT);
	OK(cuMemcpyDtoD_v2(a, b, UNIT));
	OK(cuCtxSynchronize());
	OK(cuMemUnmap(b, UNIT));
	OK(cuMemRelease(first));
	OK(cuMemcpyDtoH_v2(&value, a, 4));
	TRUE(value == 12);
	OK(cuMemcpyDtoH_v2(&value, a + 4, 4));
	TRUE(value == 11);
	OK(cuMemUnmap(a, UNIT));
	OK(cuMemRelease(second));
	OK(cuMemAddressFree(a, 4 * UNIT));
}

static void map_arguments(void)
{
	CUmemGenericAllocationHandle h = create(2 * UNIT);
	CUdeviceptr a = reserve(4 * UNIT), plain;

	EXPECT(cuMemMap(a, UNIT, 0, h, 0), CUDA_ERROR_NOT_SUPPORTED);
	EXPECT(cuMemMap(a, UNIT, UNIT, h, 0), CUDA_ERROR_NOT_SUPPORTED);
	EXPECT(cuMemMap(a, 4 * UNIT, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemMap(a, 2 * UNIT, 1, h, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemMap(a + 4096, 2 * UNIT, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemMap(a, 2 * UNIT, 0, h, 1), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemMap(a, 2 * UNIT, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemMap(a + 3 * UNIT, 2 * UNIT, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemAlloc_v2(&plain, 2 * UNIT));
	EXPECT(cuMemMap(plain, 2 * UNIT, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemUnmap(plain, 2 * UNIT), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(plain));
	OK(cuMemMap(a, 2 * UNIT, 0, h, 0));
	EXPECT(cuMemMap(a + UNIT, 2 * UNIT, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemFree_v2(a), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemAddressFree(a, 4 * UNIT), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemUnmap(a, UNIT), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemUnmap(a + UNIT, UNIT), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemUnmap(a, 4 * UNIT), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemMap(a + 2 * UNIT, 2 * UNIT, 0, h, 0));
	OK(cuMemUnmap(a, 4 * UNIT));
	EXPECT(cuMemUnmap(a, 2 * UNIT), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemRelease(h));
	OK(cuMemAddressFree(a, 4 * UNIT));
}

static void rights(void)
{
	CUmemAccessDesc access = access_of(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	CUmemLocation here = access.location;
	CUmemGenericAllocationHandle h = create(2 * UNIT);
	CUdeviceptr a = reserve(2 * UNIT);
	unsigned long long flags;

	EXPECT(cuMemSetAccess(a, 2 * UNIT, &access, 1), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemMap(a, 2 * UNIT, 0, h, 0));
	OK(cuMemGetAccess(&flags, &here, a));
	TRUE(flags == CU_MEM_ACCESS_FLAGS_PROT_NONE);
	EXPECT(cuMemSetAccess(a, UNIT, &access, 1), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemSetAccess(a, 2 * UNIT, NULL, 1), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemSetAccess(a, 2 * UNIT, &access, 0), CUDA_ERROR_INVALID_VALUE);
	access.location.id = 9;
	EXPECT(cuMemSetAccess(a, 2 * UNIT, &access, 1), CUDA_ERROR_INVALID_DEVICE);
	access = access_of(0, CU_MEM_ACCESS_FLAGS_PROT_READ);
	OK(cuMemSetAccess(a, 2 * UNIT, &access, 1));
	OK(cuMemGetAccess(&flags, &here, a + UNIT));
	TRUE(flags == CU_MEM_ACCESS_FLAGS_PROT_READ);
	EXPECT(cuMemGetAccess(&flags, &here, 0x1000), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemUnmap(a, 2 * UNIT));
	OK(cuMemRelease(h));
	OK(cuMemAddressFree(a, 2 * UNIT));
}

/* Memory lives as long as a handle or a mapping is left. */
static void lifetime(void)
{
	uint64_t start = check_free_bytes();
	CUmemGenericAllocationHandle h = create(UNIT), again = 0;
	CUdeviceptr a = reserve(UNIT);

	OK(cuMemMap(a, UNIT, 0, h, 0));
	OK(cuMemRelease(h));
	TRUE(check_free_bytes() == start - UNIT);
	EXPECT(cuMemRelease(h), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemRetainAllocationHandle(&again, (void *)(a + 100)));
	TRUE(again == h);
	OK(cuMemUnmap(a, UNIT));
	TRUE(check_free_bytes() == start - UNIT);
	OK(cuMemRelease(again));
	TRUE(check_free_bytes() == start);
	EXPECT(cuMemRetainAllocationHandle(&again, (void *)a), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemAddressFree(a, UNIT));
}

/* Host memory costs nothing of the device and says that it is on the host. */
static void on_host(void)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { .type = CU_MEM_LOCATION_TYPE_HOST_NUMA } };
	uint64_t start = check_free_bytes();
	CUmemGenericAllocationHandle h;
	CUdeviceptr a = reserve(UNIT);
	unsigned type = 0, value = 0;

	OK(cuMemCreate(&h, UNIT, &prop, 0));
	TRUE(check_free_bytes() == start);
	OK(cuMemMap(a, UNIT, 0, h, 0));
	allow(a, UNIT);
	OK(cuMemsetD32_v2(a, 3, 8));
	OK(cuMemcpyDtoH_v2(&value, a, 4));
	TRUE(value == 3);
	OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a));
	TRUE(type == CU_MEMORYTYPE_HOST);
	OK(cuMemUnmap(a, UNIT));
	OK(cuMemRelease(h));
	OK(cuMemAddressFree(a, UNIT));
	prop.location.id = -1;
	EXPECT(cuMemCreate(&h, UNIT, &prop, 0), CUDA_ERROR_INVALID_VALUE);
}

/* What programs ask about mapped memory. */
static void questions(void)
{
	CUmemGenericAllocationHandle h = create(UNIT);
	CUdeviceptr a = reserve(4 * UNIT), base;
	unsigned long long value = 0;
	CUipcMemHandle ipc;
	size_t bytes;
	int on = 1;

	OK(cuMemMap(a + UNIT, UNIT, 0, h, 0));
	allow(a + UNIT, UNIT);
	EXPECT(cuIpcGetMemHandle(&ipc, a + UNIT), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a + UNIT),
	       CUDA_ERROR_NOT_SUPPORTED);
	OK(cuMemGetAddressRange_v2(&base, &bytes, a + UNIT + 5));
	TRUE(base == a + UNIT && bytes == UNIT);
	OK(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_RANGE_SIZE, a + UNIT));
	TRUE(value == 4 * UNIT);
	OK(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, a + UNIT));
	TRUE(value == a);
	OK(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, a + UNIT));
	TRUE(value == UNIT);
	value = 1;
	OK(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_CONTEXT, a + UNIT));
	TRUE(value == 0);
	EXPECT(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a),
	       CUDA_ERROR_INVALID_VALUE);
	OK(cuMemUnmap(a + UNIT, UNIT));
	EXPECT(cuMemcpyDtoH_v2(&value, a + UNIT, 8), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpy((CUdeviceptr)&value, a + UNIT, 8), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemRelease(h));
	OK(cuMemAddressFree(a, 4 * UNIT));
}

/* The error of a fault stays with the context, and ends with it. */
static void expect_fault(CUcontext ctx)
{
	CUdeviceptr address;

	EXPECT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	EXPECT(cuMemAlloc_v2(&address, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
	EXPECT(cuStreamQuery(NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
	OK(cuCtxDestroy_v2(ctx));
}

static void faults(void)
{
	CUmemAccessDesc read_only = access_of(0, CU_MEM_ACCESS_FLAGS_PROT_READ);
	CUmemGenericAllocationHandle h = create(UNIT);
	CUdeviceptr a = reserve(UNIT), wild = 4096;
	uint64_t words = 4;
	unsigned value = 1;
	void *params[] = { &a, &value, &words }, *wild_params[] = { &wild, &value, &words };
	CUcontext ctx;

	OK(cuMemMap(a, UNIT, 0, h, 0));
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(check_launch(check_kernel("fill"), NULL, params));
	expect_fault(ctx);
	OK(cuMemSetAccess(a, UNIT, &read_only, 1));
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuMemcpyDtoH_v2(&value, a, 4));
	OK(check_launch(check_kernel("fill"), NULL, params));
	expect_fault(ctx);
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(check_launch(check_kernel("fill"), NULL, wild_params));
	expect_fault(ctx);
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	wild = 1;
	OK(check_launch(check_kernel("fill"), NULL, wild_params));
	EXPECT(cuCtxSynchronize(), CUDA_ERROR_MISALIGNED_ADDRESS);
	OK(cuCtxDestroy_v2(ctx));
	OK(cuMemUnmap(a, UNIT));
	OK(cuMemRelease(h));
	OK(cuMemAddressFree(a, UNIT));
}

/* An unmap does not wait for the kernels that use the addresses. */
static void unmap_under_kernel(void)
{
	CUmemGenericAllocationHandle h = create(64 * UNIT);
	CUdeviceptr a = reserve(64 * UNIT);
	uint64_t words = 64 * UNIT / 4;
	unsigned value = 1;
	void *params[] = { &a, &value, &words };
	CUfunction fill;
	CUcontext ctx;

	OK(cuMemMap(a, 64 * UNIT, 0, h, 0));
	allow(a, 64 * UNIT);
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	fill = check_kernel("fill");
	for (int i = 0; i < 100; i++)
		OK(check_launch(fill, NULL, params));
	OK(cuMemUnmap(a, 64 * UNIT));
	expect_fault(ctx);
	OK(cuMemRelease(h));
	OK(cuMemAddressFree(a, 64 * UNIT));
}

/* Two devices: linear memory copies from anywhere, mapped memory only with the right to. */
static void two_devices(void)
{
	CUmemAllocationProp prop = device_prop(1);
	CUmemAccessDesc there = access_of(1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	CUmemGenericAllocationHandle h;
	CUdeviceptr mapped = reserve(UNIT), here, linear;
	CUcontext first, second;

	OK(cuMemCreate(&h, UNIT, &prop, 0));
	OK(cuMemMap(mapped, UNIT, 0, h, 0));
	OK(cuMemSetAccess(mapped, UNIT, &there, 1));
	OK(cuCtxCreate_v2(&second, 0, 1));
	OK(cuMemAlloc_v2(&linear, UNIT));
	OK(cuMemsetD8_v2(linear, 1, UNIT));
	OK(cuMemsetD8_v2(mapped, 1, UNIT));
	OK(cuCtxSynchronize());
	OK(cuCtxCreate_v2(&first, 0, 0));
	OK(cuMemAlloc_v2(&here, UNIT));
	OK(cuMemcpyDtoD_v2(here, linear, UNIT));
	OK(cuMemcpyPeer(here, first, mapped, second, UNIT));
	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoD_v2(here, mapped, UNIT));
	expect_fault(first);
	OK(cuCtxDestroy_v2(second));
	OK(cuMemUnmap(mapped, UNIT));
	OK(cuMemRelease(h));
	OK(cuMemAddressFree(mapped, UNIT));
}

/* Imported where it was made: without a descriptor the memory stays as long as either handle or a
 * mapping of it does. */
static void imported(void)
{
	CUmemAllocationProp prop = device_prop(0);
	CUmemGenericAllocationHandle first, second, third;
	uint64_t start = check_free_bytes();
	CUdeviceptr address = reserve(UNIT);
	int fd = -1;

	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	OK(cuMemCreate(&first, UNIT, &prop, 0));
	OK(cuMemExportToShareableHandle(&fd, first, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	OK(cuMemImportFromShareableHandle(&second, (void *)(intptr_t)fd,
					  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	OK(cuMemRelease(first));
	TRUE(check_free_bytes() == start - UNIT);
	OK(cuMemImportFromShareableHandle(&third, (void *)(intptr_t)fd,
					  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	OK(cuMemRelease(second));
	OK(cuMemMap(address, UNIT, 0, third, 0));
	OK(cuMemRelease(third));
	close(fd);
	TRUE(check_free_bytes() == start - UNIT);
	OK(cuMemUnmap(address, UNIT));
	TRUE(check_free_bytes() == start);
	OK(cuMemAddressFree(address, UNIT));
}

/* Rights are set over a hole; of nothing, and of a part of a mapping, they are not. */
static void holes(void)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemAccessDesc access = { prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle small, large;
	CUdeviceptr a;

	OK(cuMemAddressReserve(&a, 16 * MIB, 0, 0, 0));
	OK(cuMemCreate(&small, 2 * MIB, &prop, 0));
	OK(cuMemCreate(&large, 4 * MIB, &prop, 0));
	EXPECT(cuMemSetAccess(a, 16 * MIB, &access, 1), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemMap(a, 2 * MIB, 0, small, 0));
	OK(cuMemMap(a + 8 * MIB, 4 * MIB, 0, large, 0));
	OK(cuMemSetAccess(a, 12 * MIB, &access, 1));
	OK(cuMemsetD32_v2(a, 1, 2 * MIB / 4));
	OK(cuMemsetD32_v2(a + 8 * MIB, 1, MIB));
	OK(cuCtxSynchronize());
	EXPECT(cuMemSetAccess(a, 10 * MIB, &access, 1), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemUnmap(a, 12 * MIB), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemUnmap(a, 2 * MIB));
	OK(cuMemUnmap(a + 8 * MIB, 4 * MIB));
	OK(cuMemRelease(small));
	OK(cuMemRelease(large));
	OK(cuMemAddressFree(a, 16 * MIB));
}

static uint64_t drawn = 88172645463325252;

static uint64_t draw(uint64_t most)
{
	drawn ^= drawn << 13;
	drawn ^= drawn >> 7;
	drawn ^= drawn << 17;
	return drawn % most;
}

/* Memory of one handle, mapped, of which a model in host memory says what it has. */
static CUdeviceptr map_new(const CUmemAllocationProp *prop)
{
	CUdeviceptr address = reserve(UNIT);
	CUmemGenericAllocationHandle handle = 0;

	OK(cuMemCreate(&handle, UNIT, prop, 0));
	OK(cuMemMap(address, UNIT, 0, handle, 0));
	OK(cuMemRelease(handle));
	allow(address, UNIT);
	return address;
}

/* What was never written is copied as zeros, whatever was there, between all kinds of memory. */
static void sparse(void)
{
	enum { KINDS = 4, ROUNDS = 300 };
	static unsigned char model[KINDS][UNIT], back[UNIT];
	CUmemAllocationProp device = device_prop(0), host = device_prop(0);
	CUdeviceptr at[KINDS];

	host.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
	at[0] = map_new(&device);
	at[1] = map_new(&host);
	OK(cuMemAlloc_v2(&at[2], UNIT));
	OK(cuMemHostAlloc((void **)&at[3], UNIT, 0));
	memset((void *)at[3], 0, UNIT);
	OK(cuMemsetD8_v2(at[2], 0, UNIT));
	for (int round = 0; round < ROUNDS; round++) {
		unsigned to = (unsigned)draw(KINDS), from = (unsigned)draw(KINDS);
		uint64_t offset = draw(UNIT), bytes = draw(UNIT - offset) + 1;

		if (round % 3 == 0) {
			bytes = bytes % 9000 + 1;
			bytes = bytes < UNIT - offset ? bytes : UNIT - offset;
			OK(cuMemsetD8_v2(at[to], (unsigned char)round, bytes));
			memset(model[to], (unsigned char)round, bytes);
		} else if (to != from) {
			OK(cuMemcpy(at[to] + offset, at[from] + offset, bytes));
			memcpy(model[to] + offset, model[from] + offset, bytes);
		}
		if (round % 50 == 0)
			OK(cuMemsetD8_v2(at[to] + offset, 7, bytes));
		if (round % 50 == 0)
			memset(model[to] + offset, 7, bytes);
		OK(cuMemcpyDtoH_v2(back, at[to], UNIT));
		TRUE(memcmp(back, model[to], UNIT) == 0);
	}
	for (int i = 0; i < 2; i++) {
		OK(cuMemUnmap(at[i], UNIT));
		OK(cuMemAddressFree(at[i], UNIT));
	}
	OK(cuMemFree_v2(at[2]));
	OK(cuMemFreeHost((void *)at[3]));
}

int main(void)
{
	uint64_t start;

	check_start("count=2,mem=1g,context=32m");
	start = check_free_bytes();
	handles();
	addresses();
	remapping();
	holes();
	map_arguments();
	rights();
	lifetime();
	imported();
	on_host();
	questions();
	faults();
	unmap_under_kernel();
	two_devices();
	sparse();
	TRUE(check_free_bytes() == start);
	return check_end();
}
