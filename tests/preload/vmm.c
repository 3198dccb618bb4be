/*
 * Physical memory by handle: it is charged while a reference to the handle or a mapping is left.
 * Which case does what is said at it.
 */
#include "client.h"
#include "client_take.h"

#include <unistd.h>

enum { PIECE = 4 << 20 };

static const CUmemAllocationProp on_device = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
};

static void charged_is(uint64_t bytes)
{
	CHARGED_IS(0, CLIENT_CONTEXT_BYTES + bytes);
}

/* A worker looks now and then whether a descriptor is open; its memory stays charged until then. */
static void charged_becomes(uint64_t bytes)
{
	for (int i = 0; i < 3000 && client_charged(0) != CLIENT_CONTEXT_BYTES + bytes; i++)
		usleep(10000);
	charged_is(bytes);
}

static CUmemGenericAllocationHandle create(void)
{
	CUmemGenericAllocationHandle handle;

	OK(cuMemCreate(&handle, PIECE, &on_device, 0));
	return handle;
}

static CUdeviceptr reserve(uint64_t pieces)
{
	CUdeviceptr address;

	OK(cuMemAddressReserve(&address, pieces * PIECE, 0, 0, 0));
	return address;
}

/* order: handle first or mapping first: the memory goes with the last of the two. */
static void order(int argc, char **argv)
{
	CUdeviceptr address;
	CUmemGenericAllocationHandle handle;

	(void)argc;
	(void)argv;
	client_start();
	address = reserve(1);
	handle = create();
	charged_is(PIECE);
	OK(cuMemMap(address, PIECE, 0, handle, 0));
	charged_is(PIECE);
	OK(cuMemRelease(handle));
	charged_is(PIECE);
	OK(cuMemUnmap(address, PIECE));
	charged_is(0);
	handle = create();
	OK(cuMemMap(address, PIECE, 0, handle, 0));
	OK(cuMemUnmap(address, PIECE));
	charged_is(PIECE);
	OK(cuMemRelease(handle));
	charged_is(0);
	client_pause("end");
}

/* alias: one handle at two addresses, and once more by its address. */
static void alias(int argc, char **argv)
{
	CUmemGenericAllocationHandle handle, again;
	CUdeviceptr address;

	(void)argc;
	(void)argv;
	client_start();
	address = reserve(2);
	handle = create();
	OK(cuMemMap(address, PIECE, 0, handle, 0));
	OK(cuMemMap(address + PIECE, PIECE, 0, handle, 0));
	charged_is(PIECE);
	OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)address));
	OK(cuMemRelease(handle));
	OK(cuMemUnmap(address, PIECE));
	OK(cuMemUnmap(address + PIECE, PIECE));
	charged_is(PIECE);
	OK(cuMemMap(address, PIECE, 0, again, 0));
	OK(cuMemRelease(again));
	charged_is(PIECE);
	client_pause("look");
	OK(cuMemUnmap(address, PIECE));
	charged_is(0);
	CHECK(cuMemRelease(again) != CUDA_SUCCESS);
	charged_is(0);
	client_pause("end");
}

/* several: mappings side by side end in one call; a part of one does not end it. */
static void several(int argc, char **argv)
{
	CUdeviceptr address;

	(void)argc;
	(void)argv;
	client_start();
	address = reserve(4);
	for (unsigned i = 0; i < 4; i++) {
		CUmemGenericAllocationHandle handle = create();

		OK(cuMemMap(address + i * PIECE, PIECE, 0, handle, 0));
		OK(cuMemRelease(handle));
	}
	charged_is(4 * PIECE);
	printf("part %d\n", cuMemUnmap(address, PIECE / 2) != CUDA_SUCCESS);
	charged_is(4 * PIECE);
	OK(cuMemUnmap(address, 2 * PIECE));
	charged_is(2 * PIECE);
	OK(cuMemUnmap(address + 2 * PIECE, 2 * PIECE));
	charged_is(0);
	CHECK(cuMemUnmap(address, 4 * PIECE) != CUDA_SUCCESS);
	charged_is(0);
	client_pause("end");
}

/* host: memory of the host is free of charge, whichever way it is named. */
static void host(int argc, char **argv)
{
	static const CUmemLocationType types[] = {
		CU_MEM_LOCATION_TYPE_HOST,
		CU_MEM_LOCATION_TYPE_HOST_NUMA,
		CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT,
	};

	(void)argc;
	(void)argv;
	client_start();
	for (int i = 0; i < 3; i++) {
		CUmemAllocationProp prop = on_device;
		CUmemGenericAllocationHandle handle;

		prop.location.type = types[i];
		prop.location.id = 0;
		OK(cuMemCreate(&handle, client_limit(0) + PIECE, &prop, 0));
		charged_is(0);
		OK(cuMemRelease(handle));
		charged_is(0);
	}
}

/* survives: handles are not a context's: they outlive it. */
static void survives(int argc, char **argv)
{
	CUmemGenericAllocationHandle handle;
	CUcontext ctx;

	(void)argc;
	(void)argv;
	client_start();
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	handle = create();
	CHARGED_IS(0, 2 * CLIENT_CONTEXT_BYTES + PIECE);
	OK(cuCtxDestroy_v2(ctx));
	charged_is(PIECE);
	OK(cuMemRelease(handle));
	charged_is(0);
}

/* imported: by one descriptor several times, memory is charged once and until the last is gone. */
static void imported(int argc, char **argv)
{
	CUmemAllocationProp prop = on_device;
	CUmemGenericAllocationHandle handle, next;
	CUdeviceptr address;
	int fd;

	(void)argc;
	(void)argv;
	client_start();
	address = reserve(1);
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	OK(cuMemCreate(&handle, PIECE, &prop, 0));
	OK(cuMemExportToShareableHandle(&fd, handle, prop.requestedHandleTypes, 0));
	for (int i = 0; i < 3; i++) {
		OK(cuMemImportFromShareableHandle(&next, (void *)(intptr_t)fd,
						  prop.requestedHandleTypes));
		if (i == 2)
			close(fd);
		charged_is(PIECE);
		OK(cuMemRelease(handle));
		if (i == 2)
			charged_becomes(PIECE);
		else
			charged_is(PIECE);
		handle = next;
	}
	OK(cuMemMap(address, PIECE, 0, handle, 0));
	OK(cuMemRelease(handle));
	charged_is(PIECE);
	OK(cuMemUnmap(address, PIECE));
	charged_is(0);
}

/* bound: what a multicast object holds is not had by others when its handle is gone. */
static void in_group(int argc, char **argv)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;

	(void)argc;
	(void)argv;
	client_start();
	OK(cuMemCreate(&handle, PIECE, &on_device, 0));
	OK(cuMulticastBindMem(1, 0, handle, 0, PIECE, 0));
	OK(cuMemRelease(handle));
	IS(cuMemAlloc_v2(&address, PIECE), CUDA_ERROR_OUT_OF_MEMORY);
	client_pause("bound");
	OK(cuMulticastUnbind(1, 0, 0, PIECE));
	OK(cuMemAlloc_v2(&address, PIECE));
	OK(cuMemFree_v2(address));
	client_pause("free");
}

/* Exports a piece in either way and lets go of it. */
static void hand_on(void)
{
	CUmemAllocationProp prop = on_device;
	CUmemGenericAllocationHandle handle;
	CUipcMemHandle ipc;
	CUdeviceptr address;
	int fd;

	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	OK(cuMemCreate(&handle, PIECE, &prop, 0));
	OK(cuMemExportToShareableHandle(&fd, handle, prop.requestedHandleTypes, 0));
	close(fd);
	OK(cuMemRelease(handle));
	OK(cuMemAlloc_v2(&address, PIECE));
	OK(cuIpcGetMemHandle(&ipc, address + PIECE / 2));
	OK(cuMemFree_v2(address));
}

/*
 * handed: what was exported stays charged after this process has let go of it, until each member
 * that imports has looked what it holds; where none does, it goes at once. "handed idle" and
 * "handed importer" are members.
 */
static void handed(int argc, char **argv)
{
	CUmemAllocationProp prop = on_device;
	CUmemGenericAllocationHandle handle, import;
	CUdeviceptr address;
	uint64_t begun;
	int fd;

	client_start();
	if (argc > 0 && !strcmp(argv[0], "importer")) {
		prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
		OK(cuMemCreate(&handle, PIECE, &prop, 0));
		OK(cuMemExportToShareableHandle(&fd, handle, prop.requestedHandleTypes, 0));
		OK(cuMemImportFromShareableHandle(&import, (void *)(intptr_t)fd,
						  prop.requestedHandleTypes));
	}
	client_pause("ready");
	if (argc > 0)
		return;
	begun = client_charged(0);
	hand_on();
	SAME(client_charged(0), begun);
	client_pause("idle");
	begun = client_charged(0);
	hand_on();
	SAME(client_charged(0), begun + 2 * PIECE);
	client_pause("stopped");
	for (int i = 0; i < 6000 && client_charged(0) != begun; i++)
		usleep(10000);
	SAME(client_charged(0), begun);
	/* Who needs the room waits, or has it. */
	hand_on();
	for (int i = 0; i < 60; i++)
		if (cuMemAlloc_v2(&address, client_limit(0) - begun) == CUDA_SUCCESS)
			return;
	CHECK(!"it has come back");
}

/* other-device: by the location, whichever context is current. */
static void other_device(int argc, char **argv)
{
	CUmemAllocationProp prop = on_device;
	CUmemGenericAllocationHandle handle;

	(void)argc;
	(void)argv;
	client_start();
	prop.location.id = 1;
	OK(cuMemCreate(&handle, PIECE, &prop, 0));
	charged_is(0);
	CHARGED_IS(1, PIECE);
	IS(cuMemCreate(&handle, 64 * MIB, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
	CHARGED_IS(1, PIECE);
}

enum { SEGMENT = 20 << 20, SEGMENTS_MAX = 64 };

/* The calls by which an allocator grows one range of addresses segment by segment. */
static struct {
	__typeof__(&cuMemCreate) create;
	__typeof__(&cuMemRelease) release;
	__typeof__(&cuMemAddressReserve) reserve;
	__typeof__(&cuMemMap) map;
	__typeof__(&cuMemUnmap) unmap;
	__typeof__(&cuMemSetAccess) set_access;
} vmm;

static void *find(const char *name)
{
	void *p = NULL;

	OK(cuGetProcAddress_v2(name, &p, 13000, 0, NULL));
	CHECK(p);
	return p;
}

/* Maps one segment more; the handle is released at once, as allocators do. */
static CUresult grow(CUdeviceptr at, int dev)
{
	CUmemAllocationProp prop = on_device;
	CUmemAccessDesc access = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = dev },
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	CUmemGenericAllocationHandle handle;
	CUresult res;

	prop.location.id = dev;
	res = vmm.create(&handle, SEGMENT, &prop, 0);
	if (res != CUDA_SUCCESS)
		return res;
	OK(vmm.map(at, SEGMENT, 0, handle, 0));
	OK(vmm.set_access(at, SEGMENT, &access, 1));
	return vmm.release(handle);
}

/*
 * segments: a range on each of two devices grows until both are full, shrinks and grows again;
 * every call is the one that a runtime of CUDA 13 gets. Says how many segments each device gave.
 */
static void segments(int argc, char **argv)
{
	CUdeviceptr base[2];
	CUcontext ctx;
	int held[2] = { 0, 0 };

	(void)argc;
	(void)argv;
	OK(cuInit(0));
	*(void **)&vmm.create = find("cuMemCreate");
	*(void **)&vmm.release = find("cuMemRelease");
	*(void **)&vmm.reserve = find("cuMemAddressReserve");
	*(void **)&vmm.map = find("cuMemMap");
	*(void **)&vmm.unmap = find("cuMemUnmap");
	*(void **)&vmm.set_access = find("cuMemSetAccess");
	for (int dev = 0; dev < 2; dev++) {
		OK(cuDevicePrimaryCtxRetain(&ctx, dev));
		OK(cuCtxSetCurrent(ctx));
		OK(vmm.reserve(&base[dev], (uint64_t)SEGMENTS_MAX * SEGMENT, 0, 0, 0));
	}
	client_pause("ready");
	for (int round = 0; round < 3; round++) {
		for (int dev = 0; dev < 2; dev++) {
			CUresult res;

			while ((res = grow(base[dev] + (uint64_t)held[dev] * SEGMENT, dev)) ==
			       CUDA_SUCCESS)
				CHECK(++held[dev] < SEGMENTS_MAX);
			IS(res, CUDA_ERROR_OUT_OF_MEMORY);
		}
		for (int dev = 0; dev < 2 && round < 2; dev++)
			while (held[dev] > 1)
				OK(vmm.unmap(base[dev] + (uint64_t)--held[dev] * SEGMENT, SEGMENT));
	}
	client_say("device0", (uint64_t)held[0]);
	client_say("device1", (uint64_t)held[1]);
	client_pause("full");
}

int main(int argc, char **argv)
{
	static const struct client_case cases[] = {
		{ "order", order },
		{ "alias", alias },
		{ "several", several },
		{ "host", host },
		{ "survives", survives },
		{ "imported", imported },
		{ "handed", handed },
		{ "other-device", other_device },
		{ "segments", segments },
		{ "bound", in_group },
		{ 0 },
	};

	return client_main(argc, argv, cases);
}
