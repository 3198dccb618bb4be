/*
 * Linear, pitched and managed memory and VMM handles under a limit. Which case does what is said at
 * it.
 */
#include <dlfcn.h>
#include <errno.h>

#include "client.h"
#include "client_take.h"

/* hold MIB: takes that, says so, and ends without freeing when it may go on. */
static void hold(int argc, char **argv)
{
	CUdeviceptr p;

	CHECK(argc == 1);
	client_start();
	OK(cuMemAlloc_v2(&p, strtoull(argv[0], NULL, 10) * MIB));
	client_pause("held");
}

/* use: takes a little and gives it back. */
static void use(int argc, char **argv)
{
	CUdeviceptr p;

	(void)argc;
	(void)argv;
	client_start();
	OK(cuMemAlloc_v2(&p, 1));
	CHARGED_IS(0, CLIENT_CONTEXT_BYTES + BLOCK_BYTES);
	OK(cuMemFree_v2(p));
}

/* refusals COUNT: asks so many times for more than there is. */
static void refusals(int argc, char **argv)
{
	CUdeviceptr p;

	CHECK(argc == 1);
	client_start();
	for (int i = atoi(argv[0]); i > 0; i--)
		IS(cuMemAlloc_v2(&p, UINT64_C(1) << 40), CUDA_ERROR_OUT_OF_MEMORY);
}

/* rest: takes a little; then, when the test says so, all that is left for it in the limit. */
static void rest(int argc, char **argv)
{
	CUdeviceptr p;

	(void)argc;
	(void)argv;
	client_start();
	OK(cuMemAlloc_v2(&p, 10 * MIB));
	client_pause("held");
	OK(cuMemAlloc_v2(&p, client_limit(0) - CLIENT_CONTEXT_BYTES - 10 * MIB));
	CHARGED_IS(0, client_limit(0));
	client_pause("full");
}

/* lost: holds a little; then asks for more until there is none. */
static void lost(int argc, char **argv)
{
	CUresult res = CUDA_SUCCESS;
	CUdeviceptr p;

	(void)argc;
	(void)argv;
	client_start();
	OK(cuMemAlloc_v2(&p, 10 * MIB));
	client_pause("held");
	for (int i = 0; i < 6000 && res == CUDA_SUCCESS; i++) {
		OK(cuMemFree_v2(p));
		res = cuMemAlloc_v2(&p, 10 * MIB);
		usleep(10000);
	}
	CHECK(res != CUDA_SUCCESS);
}

/* fits ROUNDS: takes all but room for one context of another process, so many times. */
static void fits(int argc, char **argv)
{
	CUdeviceptr p;

	client_start();
	client_pause("ready");
	for (int i = argc ? atoi(argv[0]) : 0; i > 0; i--) {
		OK(cuMemAlloc_v2(&p, client_limit(0) - 2 * CLIENT_CONTEXT_BYTES));
		OK(cuMemFree_v2(p));
		usleep(100);
	}
}

/*
 * failed: what the driver did not free stays charged. The first call of each end is made to fail.
 */
static void failed(int argc, char **argv)
{
	static const char *const kinds[] = { "alloc", "managed", "vmm", "mapped" };
	struct piece piece;
	CUmodule module;
	CUcontext ctx;
	uint64_t before;

	(void)argc;
	(void)argv;
	client_start();
	for (int k = 0; k < 4; k++) {
		OK(take(&piece, kinds[k], 10 * MIB));
		before = client_charged(0);
		for (CUresult res = give(&piece); res != CUDA_SUCCESS; res = give(&piece))
			CHARGED_IS(0, before);
		CHARGED_IS(0, CLIENT_CONTEXT_BYTES);
	}
	OK(cuModuleLoadData(&module, CLIENT_MODULE));
	before = client_charged(0);
	while (cuModuleUnload(module) != CUDA_SUCCESS)
		CHARGED_IS(0, before);
	CHARGED_IS(0, CLIENT_CONTEXT_BYTES);
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(take(&piece, "alloc", 1));
	while (cuCtxDestroy_v2(ctx) != CUDA_SUCCESS)
		CHARGED_IS(0, 2 * CLIENT_CONTEXT_BYTES + BLOCK_BYTES);
	CHARGED_IS(0, CLIENT_CONTEXT_BYTES);
	while (cuDevicePrimaryCtxRelease_v2(0) != CUDA_SUCCESS)
		CHARGED_IS(0, CLIENT_CONTEXT_BYTES);
	CHARGED_IS(0, 0);
}

/* exact KIND BYTES: takes pieces until one is refused; gives them back; does it again. */
static void exact(int argc, char **argv)
{
	static struct piece piece[100000];
	uint64_t most[2], before;
	int pieces[2];

	CHECK(argc == 2);
	client_start();
	before = client_charged(0);
	for (int round = 0; round < 2; round++) {
		int n = 0;
		CUresult res;

		while ((res = take(&piece[n], argv[0], strtoull(argv[1], NULL, 10))) ==
		       CUDA_SUCCESS)
			CHECK(++n < 100000);
		IS(res, CUDA_ERROR_OUT_OF_MEMORY);
		pieces[round] = n;
		most[round] = client_charged(0);
		CHECK(most[round] <= client_limit(0));
		if (round == 0)
			client_pause("full");
		while (n)
			OK(give(&piece[--n]));
		CHARGED_IS(0, before);
	}
	SAME(pieces[0], pieces[1]);
	SAME(most[0], most[1]);
	client_say("pieces", (uint64_t)pieces[0]);
	client_say("charged", most[0]);
	client_pause("empty");
}

/*
 * A new size: most are small, some are just around the edges at which the driver changes its mind.
 */
static uint64_t random_size(unsigned *seed)
{
	static const uint64_t edges[] = {
		1,       256, 511,     512,         513,     65536,
		MIB - 1, MIB, MIB + 1, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1,
	};
	unsigned dice = (unsigned)rand_r(seed) % 10;

	if (dice < 6)
		return 1 + (uint64_t)rand_r(seed) % 65536;
	if (dice < 8)
		return edges[(unsigned)rand_r(seed) % (sizeof(edges) / sizeof(edges[0]))];
	return 1 + (uint64_t)rand_r(seed) % (12 * MIB);
}

/* mix SEED KIND..: pieces of random sizes of these kinds come and go at random; never over. */
static void mix(int argc, char **argv)
{
	static struct piece piece[2000];
	unsigned seed = (unsigned)atoi(argv[0]);
	uint64_t before;
	int n = 0, refused = 0;

	CHECK(argc > 1);
	client_start();
	before = client_charged(0);
	for (int step = 0; step < 6000; step++) {
		if (n < 2000 && (n == 0 || rand_r(&seed) % 5 < 3)) {
			const char *kind = argv[1 + rand_r(&seed) % (argc - 1)];
			CUresult res = take(&piece[n], kind, random_size(&seed));

			CHECK(res == CUDA_SUCCESS || res == CUDA_ERROR_OUT_OF_MEMORY);
			n += res == CUDA_SUCCESS;
			refused += res != CUDA_SUCCESS;
		} else {
			int i = rand_r(&seed) % n;

			OK(give(&piece[i]));
			piece[i] = piece[--n];
		}
		CHECK(client_charged(0) <= client_limit(0));
		if (step % 1500 == 750) {
			client_say("charged", client_charged(0));
			client_pause("look");
		}
	}
	CHECK(refused > 10);
	while (n)
		OK(give(&piece[--n]));
	CHARGED_IS(0, before);
	client_pause("end");
}

/* What the driver says of frees that are none: the same without us. */
static void frees(int argc, char **argv)
{
	char *host = malloc(4096);
	CUdeviceptr p, q;
	CUcontext second;

	(void)argc;
	(void)argv;
	printf("early %d\n", cuMemFree_v2(4096));
	client_start();
	OK(cuMemAlloc_v2(&p, 4 * MIB));
	OK(cuMemAlloc_v2(&q, 1000));
	printf("null %d\n", cuMemFree_v2(0));
	printf("unknown %d\n", cuMemFree_v2(0xdead000));
	printf("all ones %d\n", cuMemFree_v2(UINT64_MAX));
	printf("host %d\n", cuMemFree_v2((CUdeviceptr)(uintptr_t)host));
	printf("interior %d %d\n", cuMemFree_v2(p + 256), cuMemFree_v2(q + 512));
	printf("first form %d\n", cuMemFree(77));
	OK(cuCtxCreate_v2(&second, 0, 0));
	printf("from another context %d\n", cuMemFree_v2(p));
	printf("again %d\n", cuMemFree_v2(p));
	OK(cuCtxDestroy_v2(second));
	printf("twice %d %d\n", cuMemFree_v2(q), cuMemFree_v2(q));
	OK(cuCtxSetCurrent(NULL));
	printf("no context %d\n", cuMemFree_v2(p));
	free(host);
	if (getenv("RATION_MEM"))
		CHARGED_IS(0, CLIENT_CONTEXT_BYTES);
	client_start();
	printf("from a pool %d", cuMemAllocAsync(&p, 4096, NULL));
	printf(" %d\n", cuMemFree_v2(p));
}

/* The driver's function itself, past every hook, as who had it before the library was there. */
static CUresult take_unseen(CUdeviceptr *out, uint64_t bytes)
{
	void *(*real_dlsym)(void *, const char *) = NULL;
	static const char *const versions[] = { "GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17" };
	CUresult (*alloc)(CUdeviceptr *, size_t);

	for (int i = 0; i < 3 && !real_dlsym; i++)
		*(void **)&real_dlsym = dlvsym(RTLD_DEFAULT, "dlsym", versions[i]);
	CHECK(real_dlsym);
	*(void **)&alloc = real_dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemAlloc_v2");
	CHECK(alloc && alloc != cuMemAlloc_v2);
	return alloc(out, bytes);
}

/* A buffer in memory that is imported; the memory stays until both are gone. */
static void map_external(CUdeviceptr *out, uint64_t bytes)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {
		.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
		.size = bytes,
	};
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = { .size = bytes };
	CUmemGenericAllocationHandle handle;
	CUexternalMemory external;

	OK(cuMemCreate(&handle, bytes, &prop, 0));
	OK(cuMemExportToShareableHandle(&desc.handle.fd, handle,
					CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	OK(cuImportExternalMemory(&external, &desc));
	OK(cuExternalMemoryGetMappedBuffer(out, external, &buffer));
	OK(cuDestroyExternalMemory(external));
	OK(cuMemRelease(handle));
}

/*
 * unknown unseen|external: cuMemFree of what no call of ours gave goes to the driver, which knows
 * it; and all of the limit is to be had after it, again and again. Field fault 6.
 */
static void unknown(int argc, char **argv)
{
	CUdeviceptr p, all;

	CHECK(argc == 1);
	client_start();
	for (int i = 0; i < 20; i++) {
		if (!strcmp(argv[0], "external"))
			map_external(&p, 32 * MIB);
		else
			OK(take_unseen(&p, 32 * MIB));
		OK(cuMemsetD8_v2(p, 1, MIB));
		IS(cuMemAlloc_v2(&all, client_limit(0)), CUDA_ERROR_OUT_OF_MEMORY);
		IS(cuMemFree_v2(p + 1), CUDA_ERROR_INVALID_VALUE);
		OK(cuMemFree_v2(p));
		IS(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
		OK(cuMemAlloc_v2(&all, client_limit(0) - CLIENT_CONTEXT_BYTES));
		OK(cuMemFree_v2(all));
	}
	CHARGED_IS(0, CLIENT_CONTEXT_BYTES);
}

/* NULL outputs, nonsense sizes: the driver's answer, and nothing stays charged. */
static void odd(int argc, char **argv)
{
	static const CUmemAllocationProp device = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	static const CUmemAllocationProp no_device = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 99 },
	};
	CUmemGenericAllocationHandle handle;
	CUdevice dev;
	CUdeviceptr p = 0;
	CUdeviceptr_v1 p1;
	unsigned pitch1;
	size_t pitch;

	(void)argc;
	(void)argv;
	printf("early %d %d\n", cuMemAlloc_v2(&p, 4096), cuMemAllocManaged(&p, 4096, 1));
	client_start();
	printf("device %d %d\n", cuDeviceGet(NULL, 0), cuDeviceGet(&dev, 99));
	printf("alloc %d %d %d %d\n", cuMemAlloc_v2(NULL, 4096), cuMemAlloc_v2(&p, 0),
	       cuMemAlloc_v2(&p, SIZE_MAX), cuMemAlloc_v2(&p, SIZE_MAX - 4096));
	printf("first form %d %d %d\n", cuMemAlloc(NULL, 1), cuMemAlloc(&p1, 0),
	       cuMemAlloc(&p1, 4096));
	printf("pitch %d %d %d %d %d\n", cuMemAllocPitch_v2(NULL, &pitch, 100, 100, 4),
	       cuMemAllocPitch_v2(&p, NULL, 100, 100, 4), cuMemAllocPitch_v2(&p, &pitch, 0, 100, 4),
	       cuMemAllocPitch_v2(&p, &pitch, 100, 0, 4),
	       cuMemAllocPitch_v2(&p, &pitch, 100, 100, 5));
	printf("pitch %d %d\n", cuMemAllocPitch_v2(&p, &pitch, SIZE_MAX, 100, 4),
	       cuMemAllocPitch_v2(&p, &pitch, 65536, SIZE_MAX / 2, 4));
	printf("pitch, first form %d %d\n", cuMemAllocPitch(&p1, &pitch1, 100, 100, 4),
	       cuMemAllocPitch(NULL, &pitch1, 100, 100, 4));
	printf("managed %d %d %d\n", cuMemAllocManaged(NULL, 4096, 1), cuMemAllocManaged(&p, 0, 1),
	       cuMemAllocManaged(&p, 4096, 77));
	printf("create %d %d %d %d\n", cuMemCreate(NULL, BLOCK_BYTES, &device, 0),
	       cuMemCreate(&handle, 0, &device, 0), cuMemCreate(&handle, BLOCK_BYTES, NULL, 0),
	       cuMemCreate(&handle, BLOCK_BYTES, &no_device, 0));
	printf("create %d %d\n", cuMemCreate(&handle, 12345, &device, 0),
	       cuMemCreate(&handle, BLOCK_BYTES, &device, 77));
	printf("handle %d %d %d %d\n", cuMemRelease(0), cuMemRelease(0xdead),
	       cuMemUnmap(0, BLOCK_BYTES), cuMemUnmap(0xdead000, 0));
	printf("map %d %d\n", cuMemMap(0, BLOCK_BYTES, 0, 0xdead, 0),
	       cuMemMap(0xdead000, 0, 0, 1, 0));
	printf("retain %d %d\n", cuMemRetainAllocationHandle(NULL, NULL),
	       cuMemRetainAllocationHandle(&handle, (void *)0xdead000));
	if (getenv("RATION_MEM"))
		CHARGED_IS(0, CLIENT_CONTEXT_BYTES);
}

/* other-device: memory is taken off the device it is on, whichever is current. Field fault 9. */
static void other_device(int argc, char **argv)
{
	CUcontext ctx[2];
	CUdeviceptr p;

	(void)argc;
	(void)argv;
	OK(cuInit(0));
	for (int d = 0; d < 2; d++)
		OK(cuDevicePrimaryCtxRetain(&ctx[d], d));
	for (int i = 0; i < 100; i++) {
		int on = i % 2;

		OK(cuCtxSetCurrent(ctx[on]));
		OK(cuMemAlloc_v2(&p, 8 * MIB));
		CHARGED_IS(on, CLIENT_CONTEXT_BYTES + 8 * MIB);
		CHARGED_IS(!on, CLIENT_CONTEXT_BYTES);
		OK(cuCtxSetCurrent(ctx[!on]));
		OK(cuMemFree_v2(p));
		CHARGED_IS(0, CLIENT_CONTEXT_BYTES);
		CHARGED_IS(1, CLIENT_CONTEXT_BYTES);
	}
}

/*
 * faults: a little of everything; a call that the driver refuses is left out. At the end all was
 * given back, whatever failed on the way.
 */
static void faults(int argc, char **argv)
{
	static const char *const kinds[] = { "alloc", "pitch", "managed", "vmm", "mapped" };
	struct piece piece[16];
	CUcontext ctx = NULL, second = NULL;
	CUmodule module = NULL;
	CUresult res = CUDA_ERROR_UNKNOWN;
	int n = 0;

	(void)argc;
	(void)argv;
	for (int i = 0; i < 5 && res != CUDA_SUCCESS; i++)
		res = cuInit(0);
	if (res != CUDA_SUCCESS) {
		/* The devices could not be seen: nothing is given then. */
		CHECK(take(&piece[0], "alloc", 1) != CUDA_SUCCESS);
		client_pause("refused");
		return;
	}
	for (int i = 0; i < 5 && cuDevicePrimaryCtxRetain(&ctx, 0) != CUDA_SUCCESS; i++)
		;
	OK(cuCtxSetCurrent(ctx));
	for (int round = 0; round < 3; round++)
		for (int k = 0; k < 5; k++)
			n += take(&piece[n], kinds[k], round ? 3 * MIB : 1000) == CUDA_SUCCESS;
	if (cuCtxCreate_v2(&second, 0, 0) == CUDA_SUCCESS) {
		n += take(&piece[n], "alloc", 1000) == CUDA_SUCCESS;
		for (int i = 0; i < 5 && give(&piece[n - 1]) != CUDA_SUCCESS; i++)
			;
		n--;
		for (int i = 0; i < 5 && cuCtxDestroy_v2(second) != CUDA_SUCCESS; i++)
			;
	}
	OK(cuCtxSetCurrent(ctx));
	if (cuModuleLoadData(&module, CLIENT_MODULE) == CUDA_SUCCESS)
		for (int i = 0; i < 5 && cuModuleUnload(module) != CUDA_SUCCESS; i++)
			;
	client_say("charged", client_charged(0));
	client_pause("look");
	while (n--) {
		res = give(&piece[n]);
		for (int i = 0; i < 5 && res != CUDA_SUCCESS; i++)
			res = give(&piece[n]);
		OK(res);
	}
	CHARGED_IS(0, CLIENT_CONTEXT_BYTES);
	for (int i = 0; i < 5 && cuDevicePrimaryCtxRelease_v2(0) != CUDA_SUCCESS; i++)
		;
	CHARGED_IS(0, 0);
}

/* over: wrong calls, and those that a capture forbids; the answers are the driver's. */
static void over(int argc, char **argv)
{
	const CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				       .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUDA_ARRAY3D_DESCRIPTOR cube = { .Width = 64,
					 .Height = 64,
					 .Depth = 64,
					 .Format = CU_AD_FORMAT_FLOAT,
					 .NumChannels = 5 };
	CUstream stream, no_stream = (CUstream)(uintptr_t)0xdead0;
	CUmemoryPool pool;
	CUdeviceptr addr;
	CUcontext ctx;
	CUgraph graph;
	CUarray array;

	(void)argc;
	(void)argv;
	client_start();
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemPoolCreate(&pool, &props));
	client_pause("before");
	printf("context %d %d %d %d %d\n", cuCtxCreate_v2(&ctx, 0xffff0000, 0),
	       cuCtxCreate_v2(&ctx, 3, 0), cuCtxCreate_v2(NULL, 0, 0),
	       cuCtxCreate_v3(&ctx, NULL, 0, 0x4000, 0), cuCtxCreate_v4(NULL, NULL, 0, 0));
	printf("stream %d %d\n", cuMemAllocFromPoolAsync(&addr, MIB, pool, no_stream),
	       cuMemAllocAsync(&addr, MIB, no_stream));
	printf("channels %d\n", cuArray3DCreate_v2(&array, &cube));
	cube.NumChannels = 4;
	cube.Flags = 0x80000000;
	printf("flags %d\n", cuArray3DCreate_v2(&array, &cube));
	for (int i = 0; i < 3; i++) {
		size_t pitch;
		CUresult res;

		OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
		res = i == 0 ? cuMemAlloc_v2(&addr, MIB) :
		      i == 1 ? cuMemAllocPitch_v2(&addr, &pitch, 1000, 1000, 4) :
			       cuMemAllocManaged(&addr, MIB, CU_MEM_ATTACH_GLOBAL);
		printf("capture %d", res);
		printf(" %d\n", cuStreamEndCapture(stream, &graph));
	}
	/* And a right one. */
	printf("right %d\n", cuMemAlloc_v2(&addr, MIB));
}

int main(int argc, char **argv)
{
	static const struct client_case cases[] = {
		{ "use", use },
		{ "rest", rest },
		{ "refusals", refusals },
		{ "failed", failed },
		{ "hold", hold },
		{ "exact", exact },
		{ "mix", mix },
		{ "frees", frees },
		{ "unknown", unknown },
		{ "odd", odd },
		{ "other-device", other_device },
		{ "faults", faults },
		{ "over", over },
		{ "lost", lost },
		{ "fits", fits },
		{ 0 },
	};

	return client_main(argc, argv, cases);
}
