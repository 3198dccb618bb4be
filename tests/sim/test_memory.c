/* Linear, pitched, managed and host memory; what pointers say. */
#include <sys/mman.h>

#include "check.h"

static void arguments(void)
{
	CUdeviceptr a, b;
	size_t bytes = 0;
	unsigned a32;

	EXPECT(cuMemAlloc_v2(NULL, 1), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemAlloc_v2(&a, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemAlloc_v2(&a, (size_t)1 << 63), CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT(cuMemAlloc_v2(&a, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT(cuMemAlloc_v2(&a, 2048 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT(cuMemAlloc(&a32, 1), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT(cuMemAlloc(NULL, 0), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT(cuMemAllocPitch(&a32, &a32, 1, 1, 4), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT(cuMemGetInfo(&a32, &a32), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT(cuMemFree(0), CUDA_ERROR_INVALID_CONTEXT);
	OK(cuMemFree_v2(0));
	EXPECT(cuMemFree_v2(0x1234), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemFree_v2((CUdeviceptr)&a), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemAlloc_v2(&a, 4096));
	OK(cuMemAlloc_v2(&b, 4096));
	EXPECT(cuMemFree_v2(a + 512), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemFree_v2(a + 1), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(a));
	EXPECT(cuMemFree_v2(a), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(b));
	OK(cuMemGetInfo_v2(NULL, NULL));
	OK(cuMemGetInfo_v2(&bytes, NULL));
	TRUE(bytes == check_free_bytes());
	OK(cuMemGetInfo_v2(NULL, &bytes));
	TRUE(bytes == 1024 * MIB);
}

/* How many blocks of 2 MiB any of these allocations touches. */
static uint64_t touched_blocks(const CUdeviceptr *address, const size_t *bytes, int count)
{
	static unsigned char is_seen[1 << 15];
	uint64_t blocks = 0, base = UINT64_MAX;

	memset(is_seen, 0, sizeof(is_seen));
	for (int i = 0; i < count; i++)
		if (address[i] && address[i] / (2 * MIB) < base)
			base = address[i] / (2 * MIB);
	for (int i = 0; i < count; i++) {
		if (!address[i])
			continue;
		for (uint64_t at = address[i] / (2 * MIB) - base;
		     at <= (address[i] + bytes[i] - 1) / (2 * MIB) - base; at++) {
			TRUE(at < sizeof(is_seen));
			blocks += !is_seen[at % sizeof(is_seen)];
			is_seen[at % sizeof(is_seen)] = 1;
		}
	}
	return blocks;
}

/* At every moment the device lacks exactly the blocks that living allocations touch. */
static void blocks(void)
{
	enum { SLOTS = 48, STEPS = 3000 };
	CUdeviceptr address[SLOTS] = { 0 };
	uint64_t start = check_free_bytes(), random = 88172645463325252u;
	size_t bytes[SLOTS] = { 0 };

	for (int step = 0; step < STEPS; step++) {
		int slot;

		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		slot = (int)(random % SLOTS);
		if (address[slot]) {
			OK(cuMemFree_v2(address[slot]));
			address[slot] = 0;
		} else {
			bytes[slot] = 1 + (random >> 8) % ((size_t)1 << (10 + (random >> 40) % 16));
			OK(cuMemAlloc_v2(&address[slot], bytes[slot]));
			TRUE(bytes[slot] <= MIB || address[slot] % (2 * MIB) == 0);
		}
		TRUE(start - check_free_bytes() == touched_blocks(address, bytes, SLOTS) * 2 * MIB);
	}
	for (int i = 0; i < SLOTS; i++)
		if (address[i])
			OK(cuMemFree_v2(address[i]));
	TRUE(check_free_bytes() == start);
}

/* Requests up to 1 MiB share a block; the room behind a larger one's end is given to them, and stays
 * taken when the larger one goes. */
static void tails(void)
{
	uint64_t start = check_free_bytes();
	CUdeviceptr big, small, other;

	OK(cuMemAlloc_v2(&big, MIB + 1));
	TRUE(check_free_bytes() == start - 2 * MIB);
	OK(cuMemAlloc_v2(&small, MIB - 512));
	TRUE(small == big + MIB + 512);
	TRUE(check_free_bytes() == start - 2 * MIB);
	OK(cuMemAlloc_v2(&other, MIB + 1));
	TRUE(other % (2 * MIB) == 0);
	TRUE(check_free_bytes() == start - 4 * MIB);
	OK(cuMemFree_v2(other));
	OK(cuMemFree_v2(big));
	TRUE(check_free_bytes() == start - 2 * MIB);
	OK(cuMemAlloc_v2(&other, MIB));
	TRUE(other == big);
	OK(cuMemFree_v2(other));
	OK(cuMemFree_v2(small));
	TRUE(check_free_bytes() == start);
	OK(cuMemAlloc_v2(&big, 5 * MIB));
	OK(cuMemAlloc_v2(&small, 1000));
	TRUE(small == big + 5 * MIB);
	OK(cuMemsetD8_v2(small, 7, 1000));
	OK(cuMemFree_v2(big));
	TRUE(check_free_bytes() == start - 2 * MIB);
	OK(cuMemcpyDtoH_v2(&other, small + 992, 8));
	TRUE(other == 0x0707070707070707u);
	OK(cuMemFree_v2(small));
	TRUE(check_free_bytes() == start);
}

/* The device gives blocks of 2 MiB; small allocations share one. */
static void granularity(void)
{
	uint64_t start = check_free_bytes();
	CUdeviceptr small[3], big;

	OK(cuMemAlloc_v2(&small[0], 1));
	TRUE(check_free_bytes() == start - 2 * MIB);
	OK(cuMemAlloc_v2(&small[1], 1));
	OK(cuMemAlloc_v2(&small[2], MIB));
	TRUE(check_free_bytes() == start - 2 * MIB);
	TRUE(small[0] % 512 == 0 && small[1] % 512 == 0 && small[1] != small[0]);
	OK(cuMemAlloc_v2(&big, 2 * MIB + 1));
	TRUE(big % (2 * MIB) == 0);
	TRUE(check_free_bytes() == start - 6 * MIB);
	OK(cuMemFree_v2(big));
	OK(cuMemFree_v2(small[0]));
	OK(cuMemFree_v2(small[1]));
	TRUE(check_free_bytes() == start - 2 * MIB);
	OK(cuMemFree_v2(small[2]));
	TRUE(check_free_bytes() == start);
}

/* All of the card can be had, in any order of sizes, and comes back. */
static void exhaust(void)
{
	uint64_t start = check_free_bytes();
	CUdeviceptr piece[600];
	int count = 0;

	while (count < 600 && cuMemAlloc_v2(&piece[count], 2 * MIB) == CUDA_SUCCESS)
		count++;
	TRUE((uint64_t)count == start / (2 * MIB));
	TRUE(check_free_bytes() == 0);
	for (int i = 0; i < count; i += 2)
		OK(cuMemFree_v2(piece[i]));
	for (int i = 1; i < count; i += 2)
		OK(cuMemFree_v2(piece[i]));
	TRUE(check_free_bytes() == start);
}

static void pitched(void)
{
	CUdeviceptr address;
	size_t pitch = 0;

	OK(cuMemAllocPitch_v2(&address, &pitch, 1000, 100, 4));
	TRUE(pitch % 512 == 0 && pitch >= 1000);
	OK(cuMemFree_v2(address));
	EXPECT(cuMemAllocPitch_v2(&address, &pitch, 0, 1, 4), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemAllocPitch_v2(&address, &pitch, 1, 0, 4), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemAllocPitch_v2(&address, &pitch, 1, 1, 3), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemAllocPitch_v2(&address, NULL, 1, 1, 4), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemAllocPitch_v2(NULL, &pitch, 1, 1, 4), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemAllocPitch_v2(&address, &pitch, 1 << 20, SIZE_MAX / 2, 4),
	       CUDA_ERROR_OUT_OF_MEMORY);
}

/* Managed memory takes device memory where a kernel touches it, and not before. */
static void managed(void)
{
	CUfunction fill = check_kernel("fill");
	uint64_t start = check_free_bytes(), words = MIB / 4;
	CUmemLocation host = { .type = CU_MEM_LOCATION_TYPE_HOST };
	unsigned value = 5;
	CUdeviceptr address;
	void *params[] = { &address, &value, &words };

	EXPECT(cuMemAllocManaged(&address, 0, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemAllocManaged(&address, 1, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemAllocManaged(&address, 1, CU_MEM_ATTACH_SINGLE), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemAllocManaged(NULL, 1, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemAllocManaged(&address, (size_t)1 << 62, CU_MEM_ATTACH_GLOBAL),
	       CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemAllocManaged(&address, 2048 * MIB, CU_MEM_ATTACH_GLOBAL));
	TRUE(check_free_bytes() == start);
	OK(check_launch(fill, NULL, params));
	OK(cuCtxSynchronize());
	TRUE(*(unsigned *)address == 5);
	TRUE(check_free_bytes() == start - 2 * MIB);
	OK(cuMemPrefetchAsync(address, 64 * MIB, 0, NULL));
	OK(cuCtxSynchronize());
	TRUE(check_free_bytes() == start - 64 * MIB);
	OK(cuMemPrefetchAsync_v2(address, 64 * MIB, host, 0, NULL));
	OK(cuCtxSynchronize());
	TRUE(check_free_bytes() == start);
	EXPECT(cuMemPrefetchAsync(address, 4096 * MIB, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemPrefetchAsync(address, MIB, 5, NULL), CUDA_ERROR_INVALID_DEVICE);
	OK(cuMemAdvise(address, MIB, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
	OK(cuMemPrefetchAsync(address, 2048 * MIB, 0, NULL));
	OK(cuCtxSynchronize());
	TRUE(check_free_bytes() == 0);
	OK(cuMemFree_v2(address));
	TRUE(check_free_bytes() == start);
}

static void host(void)
{
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned flags = 0;
	CUdeviceptr address;
	void *pinned;

	EXPECT(cuMemHostAlloc(NULL, 1, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemHostAlloc(&pinned, 0, 0));
	OK(cuMemFreeHost(pinned));
	EXPECT(cuMemHostAlloc(&pinned, 1, 0x100), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemHostAlloc(&pinned, (size_t)1 << 63, 0), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemHostAlloc(&pinned, 100000, CU_MEMHOSTALLOC_PORTABLE));
	memset(pinned, 1, 100000);
	OK(cuMemHostGetFlags(&flags, pinned));
	TRUE(flags == CU_MEMHOSTALLOC_PORTABLE);
	OK(cuMemHostGetDevicePointer_v2(&address, (char *)pinned + 8, 0));
	EXPECT(cuMemHostGetDevicePointer_v2(&address, pinned, 1), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemHostGetDevicePointer_v2(&address, page, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemFreeHost((char *)pinned + 8), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemFree_v2((CUdeviceptr)pinned), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFreeHost(pinned));
	EXPECT(cuMemFreeHost(pinned), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFreeHost(NULL));
	OK(cuMemHostRegister_v2(page, 8192, 0));
	EXPECT(cuMemHostRegister_v2(page + 4096, 4096, 0),
	       CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	EXPECT(cuMemHostUnregister(page + 4096), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemHostGetFlags(&flags, page));
	TRUE(flags == 0);
	OK(cuMemHostUnregister(page));
	EXPECT(cuMemHostUnregister(page), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	EXPECT(cuMemHostRegister_v2(NULL, 1, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemHostRegister_v2(page, 0, 0), CUDA_ERROR_INVALID_VALUE);
	munmap(page, 8192);
	EXPECT(cuMemHostRegister_v2(page, 8192, 0), CUDA_ERROR_INVALID_VALUE);
}

static unsigned long long number(CUpointer_attribute attribute, CUdeviceptr address)
{
	unsigned long long value = 0;

	OK(cuPointerGetAttribute(&value, attribute, address));
	return value;
}

static void pointers(CUcontext ctx)
{
	CUpointer_attribute both[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				       CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL };
	unsigned type = 77;
	int ordinal = 77, on = 1;
	void *out[] = { &type, &ordinal };
	unsigned long long value, id;
	CUdeviceptr address, base;
	size_t bytes;
	void *pinned;

	OK(cuMemAlloc_v2(&address, 1000));
	TRUE(number(CU_POINTER_ATTRIBUTE_CONTEXT, address + 5) == (unsigned long long)ctx);
	TRUE(number(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CU_MEMORYTYPE_DEVICE);
	TRUE(number(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address + 5) == address + 5);
	TRUE(number(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address + 5) == address);
	TRUE(number(CU_POINTER_ATTRIBUTE_RANGE_SIZE, address + 5) == 1000);
	TRUE(number(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, address) == 1);
	TRUE(number(CU_POINTER_ATTRIBUTE_MAPPED, address) == 1);
	TRUE(number(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, address) == 0);
	EXPECT(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_HOST_POINTER, address),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address + 1000),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuPointerGetAttribute(&value, (CUpointer_attribute)99, address),
	       CUDA_ERROR_INVALID_VALUE);
	OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
	TRUE(number(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address) == 1);
	OK(cuMemGetAddressRange_v2(&base, &bytes, address + 999));
	TRUE(base == address && bytes == 1000);
	OK(cuMemGetAddressRange_v2(&base, NULL, address));
	EXPECT(cuMemGetAddressRange_v2(&base, NULL, address + 1000), CUDA_ERROR_NOT_FOUND);
	id = number(CU_POINTER_ATTRIBUTE_BUFFER_ID, address);
	OK(cuMemFree_v2(address));
	OK(cuMemAlloc_v2(&base, 1000));
	TRUE(number(CU_POINTER_ATTRIBUTE_BUFFER_ID, base) != id);
	OK(cuMemFree_v2(base));
	OK(cuMemHostAlloc(&pinned, 100, 0));
	TRUE(number(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)pinned) == CU_MEMORYTYPE_HOST);
	TRUE(number(CU_POINTER_ATTRIBUTE_HOST_POINTER, (CUdeviceptr)pinned) ==
	     (unsigned long long)pinned);
	OK(cuPointerGetAttributes(2, both, out, (CUdeviceptr)pinned));
	TRUE(type == CU_MEMORYTYPE_HOST && ordinal == 0);
	OK(cuMemFreeHost(pinned));
	OK(cuPointerGetAttributes(2, both, out, (CUdeviceptr)&value));
	TRUE(type == 0 && ordinal == -2);
	EXPECT(cuPointerGetAttributes(0, both, out, 0), CUDA_ERROR_INVALID_VALUE);
}

/* Memory is freed when work that was submitted before has ended. */
static void free_waits(void)
{
	uint64_t words = 8 * MIB / 4;
	unsigned value = 1;
	CUdeviceptr address;
	CUstream stream;
	void *params[] = { &address, &value, &words };

	OK(cuMemAlloc_v2(&address, 8 * MIB));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	check_spin(check_kernel("spin"), stream, 20);
	OK(check_launch(check_kernel("fill"), stream, params));
	OK(cuMemFree_v2(address));
	OK(cuStreamQuery(stream));
	OK(cuStreamDestroy_v2(stream));
}

static void *churn(void *ctx)
{
	CUdeviceptr address[16];

	OK(cuCtxSetCurrent(ctx));
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 16; i++)
			OK(cuMemAlloc_v2(&address[i], (size_t)1 << (8 + i)));
		for (int i = 0; i < 16; i++)
			OK(cuMemFree_v2(address[i]));
	}
	return NULL;
}

static void threads(CUcontext ctx)
{
	uint64_t start = check_free_bytes();
	pthread_t thread[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, churn, ctx);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	TRUE(check_free_bytes() == start);
}

int main(void)
{
	CUcontext ctx = check_start("count=1,mem=1g,context=64m");

	arguments();
	granularity();
	tails();
	blocks();
	exhaust();
	pitched();
	managed();
	host();
	pointers(ctx);
	free_waits();
	threads(ctx);
	return check_end();
}
