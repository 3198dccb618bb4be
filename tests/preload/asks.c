/*
 * What the driver says of linear memory, line by line, without a word that differs from run to
 * run: a test compares what it says with and without objects in the place of the driver's memory.
 */
#include "client.h"

#define UNKNOWN ((CUdeviceptr)0x1234500)

static CUcontext ctx;

static void say(const char *what, CUresult res)
{
	printf("  %s: %d\n", what, (int)res);
}

/* A value as it is in every run: addresses by how they lie to the allocation. */
static void say_value(int what, uint64_t value, CUdeviceptr base)
{
	switch (what) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		printf(" %s", value == (uint64_t)ctx ? "own" : value ? "other" : "none");
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		if (value)
			printf(" base%+lld", (long long)(value - base));
		else
			printf(" none");
		break;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		printf(" %s", value ? "some" : "none");
		break;
	default:
		printf(" %lld", (long long)value);
	}
}

enum { ATTRIBUTES = 25 };

static void attributes(CUdeviceptr base, CUdeviceptr addr)
{
	uint64_t values[ATTRIBUTES];
	CUpointer_attribute whats[ATTRIBUTES];
	void *datas[ATTRIBUTES];
	unsigned count = 0;

	for (int what = 0; what < ATTRIBUTES; what++) {
		uint64_t value = 0;
		CUresult res = cuPointerGetAttribute(&value, (CUpointer_attribute)what, addr);

		printf("  attribute %d: %d", what, (int)res);
		if (res == CUDA_SUCCESS) {
			say_value(what, value, base);
			whats[count] = (CUpointer_attribute)what;
			values[count] = 0;
			datas[count] = &values[count];
			count++;
		}
		printf("\n");
	}
	/* One that linear memory has not, among the others. */
	whats[count] = CU_POINTER_ATTRIBUTE_HOST_POINTER;
	values[count] = 77;
	datas[count] = &values[count];
	count++;
	say("together", cuPointerGetAttributes(count, whats, datas, addr));
	for (unsigned i = 0; i < count; i++) {
		printf("  %d:", (int)whats[i]);
		say_value((int)whats[i], values[i], base);
	}
	printf("\n");
	say("no attributes", cuPointerGetAttributes(0, whats, datas, addr));
	say("nowhere to put it", cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_CONTEXT, addr));
}

static void range(CUdeviceptr base, CUdeviceptr addr)
{
	CUdeviceptr start = 0;
	size_t bytes = 0;
	CUresult res = cuMemGetAddressRange_v2(&start, &bytes, addr);

	printf("  range: %d", (int)res);
	if (res == CUDA_SUCCESS)
		printf(" base%+lld %llu", (long long)(start - base), (unsigned long long)bytes);
	printf("\n");
	say("its start", cuMemGetAddressRange_v2(&start, NULL, addr));
	say("its size", cuMemGetAddressRange_v2(NULL, &bytes, addr));
	say("neither", cuMemGetAddressRange_v2(NULL, NULL, addr));
}

/* Calls for memory by handle, and for memory that this is not. */
static void foreign_calls(CUdeviceptr addr)
{
	static const CUmemAccessDesc access = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
						.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	static const CUmemLocation device = { .type = CU_MEM_LOCATION_TYPE_DEVICE };
	static const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	CUmemGenericAllocationHandle handle;
	CUmemPoolPtrExportData share;
	unsigned long long flags;

	say("unmap", cuMemUnmap(addr, BLOCK_BYTES));
	say("set access", cuMemSetAccess(addr, BLOCK_BYTES, &access, 1));
	say("get access", cuMemGetAccess(&flags, &device, addr));
	say("retain", cuMemRetainAllocationHandle(&handle, (void *)addr));
	say("give the addresses back", cuMemAddressFree(addr, BLOCK_BYTES));
	OK(cuMemCreate(&handle, BLOCK_BYTES, &prop, 0));
	say("map", cuMemMap(addr, BLOCK_BYTES, 0, handle, 0));
	OK(cuMemRelease(handle));
	say("export of a pool", cuMemPoolExportPointer(&share, addr));
	say("advice", cuMemAdvise(addr, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
	say("prefetch", cuMemPrefetchAsync(addr, 4096, 0, NULL));
	say("attach", cuStreamAttachMemAsync(NULL, addr, 0, CU_MEM_ATTACH_GLOBAL));
	say("host unregister", cuMemHostUnregister((void *)addr));
	say("host free", cuMemFreeHost((void *)addr));
	say("ipc close", cuIpcCloseMemHandle(addr));
}

static void sync_memops(CUdeviceptr addr)
{
	int on = 1, got = 7;

	say("wait for copies", cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, addr));
	say("is waited", cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, addr));
	printf("  %d\n", got);
	on = 0;
	say("no more", cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, addr));
	say("is waited", cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, addr));
	printf("  %d\n", got);
	say("another", cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_CONTEXT, addr));
}

static void ask_all(CUdeviceptr base, uint64_t bytes)
{
	const uint64_t at[] = { 0, bytes / 2, bytes - 1 };

	for (unsigned i = 0; i < 3; i++) {
		printf(" at %llu\n", (unsigned long long)at[i]);
		attributes(base, base + at[i]);
		range(base, base + at[i]);
	}
	foreign_calls(base);
	if (bytes > 1)
		say("free of the inside", cuMemFree_v2(base + bytes / 2));
	OK(cuCtxSetCurrent(NULL));
	say("range without a context", cuMemGetAddressRange_v2(&base, NULL, base));
	say("free without a context", cuMemFree_v2(base));
	OK(cuCtxSetCurrent(ctx));
	sync_memops(base);
}

static void ask_freed(CUdeviceptr base)
{
	printf(" freed\n");
	attributes(base, base);
	range(base, base);
	foreign_calls(base);
	sync_memops(base);
	say("free again", cuMemFree_v2(base));
}

static void ask(uint64_t bytes)
{
	CUdeviceptr base;

	printf("%llu bytes\n", (unsigned long long)bytes);
	OK(cuMemAlloc_v2(&base, bytes));
	ask_all(base, bytes);
	OK(cuMemFree_v2(base));
	ask_freed(base);
	OK(cuMemAlloc_v2(&base, bytes));
	say("free in a stream", cuMemFreeAsync(base, NULL));
	OK(cuCtxSynchronize());
	ask_freed(base);
}

static void ask_pitched(uint64_t width, uint64_t height)
{
	CUdeviceptr base;
	size_t pitch = 0;

	printf("%llu x %llu\n", (unsigned long long)width, (unsigned long long)height);
	OK(cuMemAllocPitch_v2(&base, &pitch, width, height, 4));
	printf("  pitch %llu\n", (unsigned long long)pitch);
	ask_all(base, pitch * height);
	OK(cuMemFree_v2(base));
	ask_freed(base);
}

/* Every two have numbers of their own, those of other memory too. */
static void ids(void)
{
	CUdeviceptr p[40];
	uint64_t id[40];

	for (int i = 0; i < 40; i++) {
		if (i % 4 == 3)
			OK(cuMemAllocManaged(&p[i], 4096, CU_MEM_ATTACH_GLOBAL));
		else
			OK(cuMemAlloc_v2(&p[i], i % 4 == 1 ? 4 * MIB : 100));
		OK(cuPointerGetAttribute(&id[i], CU_POINTER_ATTRIBUTE_BUFFER_ID, p[i]));
		for (int j = 0; j < i; j++)
			CHECK(id[i] != id[j]);
		if (i % 4 == 2) {
			OK(cuMemFree_v2(p[i]));
			p[i] = 0;
		}
	}
	for (int i = 0; i < 40; i++)
		OK(cuMemFree_v2(p[i]));
}

static void odd_arguments(void)
{
	CUdeviceptr p;
	size_t pitch;

	say("0 bytes", cuMemAlloc_v2(&p, 0));
	say("to nowhere", cuMemAlloc_v2(NULL, 4096));
	say("2^63 bytes", cuMemAlloc_v2(&p, (size_t)1 << 63));
	say("more than there is", cuMemAlloc_v2(&p, (size_t)1 << 40));
	say("free of nothing", cuMemFree_v2(0));
	say("free of what is not there", cuMemFree_v2(UNKNOWN));
	say("no width", cuMemAllocPitch_v2(&p, &pitch, 0, 4, 4));
	say("no height", cuMemAllocPitch_v2(&p, &pitch, 4, 0, 4));
	say("elements of 5", cuMemAllocPitch_v2(&p, &pitch, 4, 4, 5));
	say("a wide row", cuMemAllocPitch_v2(&p, &pitch, (size_t)1 << 40, 1, 4));
	say("many rows", cuMemAllocPitch_v2(&p, &pitch, 512, ~(size_t)0, 4));
	say("without a pitch", cuMemAllocPitch_v2(&p, NULL, 4, 4, 4));
	say("without an address", cuMemAllocPitch_v2(NULL, &pitch, 4, 4, 4));
	OK(cuCtxSetCurrent(NULL));
	say("without a context", cuMemAlloc_v2(&p, 4096));
	say("and pitched", cuMemAllocPitch_v2(&p, &pitch, 4, 4, 4));
	say("free of nothing", cuMemFree_v2(0));
	OK(cuCtxSetCurrent(ctx));
	attributes(UNKNOWN, UNKNOWN);
	range(UNKNOWN, UNKNOWN);
}

/* What is allocated while a green context is current is its primary context's, and ends with it. */
static void ask_green(void)
{
	static const size_t bytes[] = { 100, MIB, 6 * MIB };
	CUdeviceptr p[3];
	CUgreenCtx green;
	CUdevResourceDesc desc;
	CUdevResource sms;
	CUcontext view, popped;

	OK(cuDeviceGetDevResource(0, &sms, CU_DEV_RESOURCE_TYPE_SM));
	OK(cuDevResourceGenerateDesc(&desc, &sms, 1));
	OK(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	OK(cuCtxFromGreenCtx(&view, green));
	OK(cuCtxPushCurrent_v2(view));
	for (int i = 0; i < 3; i++) {
		OK(cuMemAlloc_v2(&p[i], bytes[i]));
		attributes(p[i], p[i]);
	}
	OK(cuCtxPopCurrent_v2(&popped));
	OK(cuGreenCtxDestroy(green));
	attributes(p[0], p[0]);
	say("free of one", cuMemFree_v2(p[0]));
	OK(cuDevicePrimaryCtxReset_v2(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	for (int i = 1; i < 3; i++) {
		attributes(p[i], p[i]);
		range(p[i], p[i]);
		say("free of another", cuMemFree_v2(p[i]));
	}
}

/* An error that a kernel left is told to who frees: the program's last context is broken then. */
static void ask_broken(void)
{
	CUdeviceptr nowhere = UNKNOWN, p, q;
	unsigned value = 1;
	uint64_t words = 4;
	void *params[] = { &nowhere, &value, &words };
	CUfunction fill;
	CUmodule module;

	OK(cuMemAlloc_v2(&p, 100));
	OK(cuMemAlloc_v2(&q, 4 * MIB));
	OK(cuModuleLoadData(&module, CLIENT_MODULE));
	OK(cuModuleGetFunction(&fill, module, "fill"));
	OK(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	say("broken", cuCtxSynchronize());
	say("free of a small one", cuMemFree_v2(p));
	say("free of a large one", cuMemFree_v2(q));
	say("free of nothing", cuMemFree_v2(0));
	say("free of what is not there", cuMemFree_v2(UNKNOWN));
}

int main(void)
{
	ctx = client_start();
	ask(1);
	ask(100);
	ask(4096);
	ask(MIB);
	ask(2 * MIB);
	ask(3 * MIB);
	ask(5 * MIB + 1);
	ask(300 * MIB);
	ask_pitched(100, 7);
	ask_pitched(10000, 1000);
	odd_arguments();
	ids();
	ask_green();
	ask_broken();
	printf("end\n");
	return 0;
}
