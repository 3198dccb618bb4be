/*
 * Contexts and modules under a limit, and the views. Which case does what is said at it.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "abi/nvml.h"
#include "client.h"
#include "client_held.h"
#include "client_take.h"

/* ends: what a context held goes with it, whichever way it ends. */
static void ends(int argc, char **argv)
{
	CUcontext ctx, other;
	CUdeviceptr p[4];

	(void)argc;
	(void)argv;
	OK(cuInit(0));
	CHARGED_IS(0, 0);
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	CHARGED_IS(0, CLIENT_CONTEXT_BYTES);
	for (int i = 0; i < 4; i++)
		OK(cuMemAlloc_v2(&p[i], i % 2 ? 1000 : 5 * MIB));
	CHARGED_IS(0, CLIENT_CONTEXT_BYTES + 2 * 6 * MIB);
	OK(cuDevicePrimaryCtxRetain(&other, 0));
	CHARGED_IS(0, 2 * CLIENT_CONTEXT_BYTES + 2 * 6 * MIB);
	OK(cuCtxDestroy_v2(ctx));
	CHARGED_IS(0, CLIENT_CONTEXT_BYTES);
	OK(cuCtxSetCurrent(other));
	OK(cuMemAlloc_v2(&p[0], 5 * MIB));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	CHARGED_IS(0, 0);
	OK(cuDevicePrimaryCtxRetain(&other, 0));
	OK(cuCtxSetCurrent(other));
	OK(cuMemAlloc_v2(&p[0], 5 * MIB));
	OK(cuMemAlloc_v2(&p[1], 1));
	CHARGED_IS(0, CLIENT_CONTEXT_BYTES + 6 * MIB);
	OK(cuDevicePrimaryCtxReset_v2(0));
	CHARGED_IS(0, 0);
	client_pause("end");
}

/* references: only the first retain makes the context, only the last release ends it. Fault 23. */
static void references(int argc, char **argv)
{
	CUcontext ctx, again;
	CUdeviceptr p;

	(void)argc;
	(void)argv;
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuDevicePrimaryCtxRetain(&again, 0));
	CHECK(ctx == again);
	CHARGED_IS(0, CLIENT_CONTEXT_BYTES);
	OK(cuCtxSetCurrent(ctx));
	OK(cuMemAlloc_v2(&p, 5 * MIB));
	OK(cuDevicePrimaryCtxRelease(0));
	CHARGED_IS(0, CLIENT_CONTEXT_BYTES + 6 * MIB);
	SAME(client_hami()->procs[0].used[0].data_bytes, 6 * MIB);
	OK(cuDevicePrimaryCtxRelease(0));
	CHARGED_IS(0, 0);
	printf("once more %d\n", cuDevicePrimaryCtxRelease(0));
	CHARGED_IS(0, 0);
}

/* forms: each form of cuCtxCreate charges, and refuses what does not fit. */
static void forms(int argc, char **argv)
{
	CUcontext ctx[5] = { NULL };

	(void)argc;
	(void)argv;
	OK(cuInit(0));
	OK(cuCtxCreate(&ctx[0], 0, 0));
	CHARGED_IS(0, CLIENT_CONTEXT_BYTES);
	OK(cuCtxCreate_v2(&ctx[1], 0, 0));
	OK(cuCtxCreate_v3(&ctx[2], NULL, 0, 0, 0));
	OK(cuCtxCreate_v4(&ctx[3], NULL, 0, 0));
	CHARGED_IS(0, 4 * CLIENT_CONTEXT_BYTES);
	IS(cuCtxCreate(&ctx[4], 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
	IS(cuCtxCreate_v2(&ctx[4], 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
	IS(cuCtxCreate_v3(&ctx[4], NULL, 0, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
	IS(cuCtxCreate_v4(&ctx[4], NULL, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
	IS(cuDevicePrimaryCtxRetain(&ctx[4], 0), CUDA_ERROR_OUT_OF_MEMORY);
	/* What was taken back is not there. */
	CHECK(!ctx[4]);
	CHARGED_IS(0, 4 * CLIENT_CONTEXT_BYTES);
	OK(cuCtxDestroy(ctx[1]));
	OK(cuDevicePrimaryCtxRetain(&ctx[4], 0));
	client_pause("look");
	OK(cuDevicePrimaryCtxReset(0));
	for (int i = 0; i < 4; i++)
		if (i != 1)
			OK(cuCtxDestroy_v2(ctx[i]));
	CHARGED_IS(0, 0);
}

/* odd: what the driver says of wrong arguments; the same without us. */
static void odd(int argc, char **argv)
{
	CUcontext ctx;

	(void)argc;
	(void)argv;
	printf("early %d %d %d\n", cuCtxCreate_v2(&ctx, 0, 0), cuDevicePrimaryCtxRetain(&ctx, 0),
	       cuCtxDestroy_v2(NULL));
	OK(cuInit(0));
	printf("device %d %d\n", cuCtxCreate_v2(&ctx, 0, 99), cuDevicePrimaryCtxRetain(&ctx, -1));
	printf("null %d %d\n", cuCtxCreate_v2(NULL, 0, 0), cuDevicePrimaryCtxRetain(NULL, 0));
	printf("flags %d\n", cuCtxCreate_v2(&ctx, 0xffff0000, 0));
	printf("destroy %d %d\n", cuCtxDestroy_v2(NULL), cuCtxDestroy_v2((CUcontext)0xdead0));
	printf("release %d %d %d\n", cuDevicePrimaryCtxRelease_v2(0),
	       cuDevicePrimaryCtxRelease_v2(99), cuDevicePrimaryCtxReset_v2(-5));
	printf("reset %d\n", cuDevicePrimaryCtxReset_v2(0));
	printf("init %d %d\n", cuInit(77), cuInit(0));
	if (getenv("RATION_MEM"))
		CHARGED_IS(0, 0);
}

/* untouched: cuInit makes no context, so flags can still be set. Field fault 87. */
static void untouched(int argc, char **argv)
{
	unsigned flags;
	int active;

	(void)argc;
	(void)argv;
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
	printf("active %d\n", active);
	OK(cuDevicePrimaryCtxSetFlags_v2(0, CU_CTX_SCHED_YIELD));
	client_start();
	OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
	printf("active %d, flags %u\n", active, flags);
}

/* ignored: a program that goes on after cuInit was refused gets nothing all the same. */
static void ignored(int argc, char **argv)
{
	const CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					   .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemGenericAllocationHandle handle;
	CUdevResourceDesc desc;
	CUdevResource sms;
	CUgreenCtx green;
	CUcontext ctx;

	(void)argc;
	(void)argv;
	printf("init %d\n", cuInit(0));
	printf("create %d\n", cuCtxCreate_v2(&ctx, 0, 0));
	printf("retain %d\n", cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuDeviceGetDevResource(0, &sms, CU_DEV_RESOURCE_TYPE_SM));
	OK(cuDevResourceGenerateDesc(&desc, &sms, 1));
	printf("green %d\n", cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	printf("handle %d\n", cuMemCreate(&handle, 2 * MIB, &prop, 0));
}

#define LARGE_MODULE(bytes)                               \
	".version 6.0\n.target sm_50\n.address_size 64\n" \
	".visible .global .align 4 .b8 data[" bytes "];\n"

/* Takes and gives back a module of 64 MiB, or a library's, again and again. */
static void load_large(void)
{
	CUlibrary library;
	CUmodule module;

	for (int i = 0; i < 20; i++) {
		CUresult res = cuModuleLoadData(&module, LARGE_MODULE("67108864"));

		CHECK(res == CUDA_SUCCESS || res == CUDA_ERROR_OUT_OF_MEMORY);
		if (res == CUDA_SUCCESS)
			OK(cuModuleUnload(module));
		OK(cuLibraryLoadData(&library, LARGE_MODULE("67108864"), NULL, NULL, 0, NULL, NULL,
				     0));
		res = cuLibraryGetModule(&module, library);
		CHECK(res == CUDA_SUCCESS || res == CUDA_ERROR_OUT_OF_MEMORY);
		OK(cuLibraryUnload(library));
	}
}

/* large-modules: what a text's variables take is reserved before it is loaded. */
static void large_modules(int argc, char **argv)
{
	CUmodule module, kept;
	CUlibrary library;

	(void)argc;
	(void)argv;
	client_start();
	load_large();
	CHARGED_IS(0, 64 * MIB);
	OK(cuModuleLoadData(&kept, LARGE_MODULE("67108864")));
	IS(cuModuleLoadData(&module, LARGE_MODULE("67108864")), CUDA_ERROR_OUT_OF_MEMORY);
	IS(cuModuleLoadDataEx(&module, LARGE_MODULE("67108864"), 0, NULL, NULL),
	   CUDA_ERROR_OUT_OF_MEMORY);
	/* One that nobody asks for takes nothing. */
	OK(cuLibraryLoadData(&library, LARGE_MODULE("67108864"), NULL, NULL, 0, NULL, NULL, 0));
	IS(cuLibraryGetModule(&module, library), CUDA_ERROR_OUT_OF_MEMORY);
	IS(cuModuleLoadData(&module, LARGE_MODULE("9223372036854775807")),
	   CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuModuleUnload(kept));
	OK(cuLibraryGetModule(&module, library));
	OK(cuLibraryUnload(library));
	CHARGED_IS(0, 64 * MIB);
	load_large();
	CHARGED_IS(0, 64 * MIB);
}

/* first: makes a context, or is told that there is no room for one. */
static void first(int argc, char **argv)
{
	CUcontext ctx = NULL;
	CUresult res;

	(void)argc;
	(void)argv;
	OK(cuInit(0));
	res = cuDevicePrimaryCtxRetain(&ctx, 0);
	CHECK(res == CUDA_SUCCESS || res == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(!ctx == (res != CUDA_SUCCESS));
	if (res == CUDA_SUCCESS)
		puts("made");
	client_pause("over");
}

/* modules: a module costs device memory, and one that passes the limit is not loaded. Fault 19. */
static void modules(int argc, char **argv)
{
	CUmodule module[64];
	uint64_t one_bytes;
	CUresult res;
	int n = 1;

	(void)argc;
	(void)argv;
	client_start();
	OK(cuModuleLoadData(&module[0], CLIENT_MODULE));
	one_bytes = client_charged(0) - CLIENT_CONTEXT_BYTES;
	CHECK(one_bytes > 0);
	while ((res = cuModuleLoadData(&module[n], CLIENT_MODULE)) == CUDA_SUCCESS)
		CHECK(++n < 64);
	IS(res, CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(client_charged(0) <= client_limit(0));
	/* The last block is kept back for the code that comes with the first use of a function. */
	SAME((uint64_t)n, (client_limit(0) - CLIENT_CONTEXT_BYTES - BLOCK_BYTES) / one_bytes);
	client_say("charged", client_charged(0));
	client_pause("look");
	while (n--)
		OK(cuModuleUnload(module[n]));
	CHARGED_IS(0, CLIENT_CONTEXT_BYTES);
}

/* A library with variables of 16 MiB. */
static const char library_image[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
				    ".visible .global .align 8 .b8 large[16777216];\n"
				    ".visible .entry empty()\n{\n\tret;\n}\n";

enum { LIBRARIES = 16 };

static CUresult instantiate(CUkernel kernel)
{
	CUDA_KERNEL_NODE_PARAMS params = client_kernel(NULL, kernel, NULL);
	CUgraphExec exec;
	CUgraphNode node;
	CUgraph graph;
	CUresult res;

	OK(cuGraphCreate(&graph, 0));
	res = cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &params);
	return res == CUDA_SUCCESS ? cuGraphInstantiateWithFlags(&exec, graph, 0) : res;
}

/* The first question for something in a library takes its memory: asked in one of six ways. */
static CUresult ask(CUlibrary library, int way)
{
	CUfunction function;
	CUmodule module;
	CUkernel kernel;
	CUdeviceptr addr;
	size_t bytes;
	int blocks;

	if (way == 0)
		return cuLibraryGetModule(&module, library);
	if (way == 1)
		return cuLibraryGetGlobal(&addr, &bytes, library, "large");
	OK(cuLibraryGetKernel(&kernel, library, "empty"));
	if (way == 2)
		return cuKernelGetFunction(&function, kernel);
	if (way == 3)
		return cuLaunchKernel((CUfunction)(void *)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL,
				      NULL);
	if (way == 4)
		return cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks,
								   (CUfunction)(void *)kernel, 32,
								   0);
	return instantiate(kernel);
}

/*
 * libraries WAYS: asked in so many ways, what passes the limit is refused, and above it nothing
 * more is taken; what is there already can be asked for.
 */
static void libraries(int argc, char **argv)
{
	CUlibrary library[LIBRARIES];
	uint64_t charged_bytes;
	int refused = 0, ways;

	CHECK(argc == 1);
	ways = atoi(argv[0]);
	client_start();
	for (int i = 0; i < LIBRARIES; i++)
		OK(cuLibraryLoadData(&library[i], library_image, NULL, NULL, 0, NULL, NULL, 0));
	for (int i = 0; i < LIBRARIES; i++)
		refused += ask(library[i], i % ways) == CUDA_ERROR_OUT_OF_MEMORY;
	CHECK(refused == LIBRARIES - 2);
	/* The one that was found to be too much is there. */
	charged_bytes = client_charged(0);
	CHECK(charged_bytes <= client_limit(0) + 20 * MIB);
	OK(ask(library[0], 0));
	OK(ask(library[0], 1));
	client_pause("look");
	for (int i = 2; i < LIBRARIES; i++)
		OK(cuLibraryUnload(library[i]));
	CHECK(client_charged(0) <= client_limit(0));
	OK(cuLibraryUnload(library[0]));
	OK(cuLibraryLoadData(&library[0], library_image, NULL, NULL, 0, NULL, NULL, 0));
	OK(ask(library[0], 0));
	OK(cuLibraryUnload(library[0]));
	OK(cuLibraryUnload(library[1]));
	SAME(client_charged(0), CLIENT_CONTEXT_BYTES);
}

static pthread_barrier_t barrier;

static void *retain(void *arg)
{
	CUcontext *out_ctx = arg;

	pthread_barrier_wait(&barrier);
	return (void *)(intptr_t)cuDevicePrimaryCtxRetain(out_ctx, 0);
}

/*
 * together: threads that retain the primary context at once make one, and none is refused where one
 * fits. Field fault 23.
 */
static void together(int argc, char **argv)
{
	enum { THREADS = 8 };
	pthread_t thread[THREADS];
	CUcontext ctx[THREADS];
	void *res;

	(void)argc;
	(void)argv;
	OK(cuInit(0));
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < THREADS; i++)
			CHECK(pthread_create(&thread[i], NULL, retain, &ctx[i]) == 0);
		for (int i = 0; i < THREADS; i++) {
			pthread_join(thread[i], &res);
			IS((CUresult)(intptr_t)res, CUDA_SUCCESS);
		}
		CHARGED_IS(0, CLIENT_CONTEXT_BYTES);
		for (int i = 0; i < THREADS; i++)
			OK(cuDevicePrimaryCtxRelease_v2(0));
		CHARGED_IS(0, 0);
	}
}

static void *create(void *arg)
{
	pthread_barrier_wait(&barrier);
	OK(cuCtxCreate_v2(arg, 0, 0));
	return NULL;
}

/* crowd: threads make contexts of their own at once; what one costs is known rightly after. */
static void crowd(int argc, char **argv)
{
	enum { THREADS = 8 };
	pthread_t thread[THREADS];
	CUcontext ctx[THREADS], more[8];

	(void)argc;
	(void)argv;
	OK(cuInit(0));
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&thread[i], NULL, create, &ctx[i]) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	CHARGED_IS(0, THREADS * CLIENT_CONTEXT_BYTES);
	/* There is room for two more. */
	OK(cuCtxCreate_v2(&more[0], 0, 0));
	OK(cuCtxCreate_v2(&more[1], 0, 0));
	IS(cuCtxCreate_v2(&more[2], 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
	for (int i = 0; i < THREADS; i++)
		OK(cuCtxDestroy_v2(ctx[i]));
	CHARGED_IS(0, 2 * CLIENT_CONTEXT_BYTES);
}

static _Atomic bool churn_is_over;

/* Whatever is answered: the context is reset under it. */
static void *churn_memory(void *arg)
{
	CUdeviceptr p;
	CUcontext ctx;

	while (!atomic_load(&churn_is_over)) {
		if (cuDevicePrimaryCtxRetain(&ctx, 0) != CUDA_SUCCESS)
			continue;
		cuCtxSetCurrent(ctx);
		for (int i = 0; i < 8; i++)
			if (cuMemAlloc_v2(&p, 3 * MIB) == CUDA_SUCCESS && i % 2)
				cuMemFree_v2(p);
		cuDevicePrimaryCtxRelease_v2(0);
	}
	return arg;
}

/*
 * churn: the primary context is reset while threads use and make it; what one costs is never
 * learnt as less than it is.
 */
static void churn(int argc, char **argv)
{
	enum { THREADS = 4, ROUNDS = 100 };
	pthread_t thread[THREADS];
	CUcontext ctx;

	(void)argc;
	(void)argv;
	OK(cuInit(0));
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&thread[i], NULL, churn_memory, NULL) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		usleep(500);
		cuDevicePrimaryCtxReset_v2(0);
	}
	atomic_store(&churn_is_over, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	OK(cuDevicePrimaryCtxReset_v2(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	CHARGED_IS(0, CLIENT_CONTEXT_BYTES);
	SAME(client_own()->devices[0].context_bytes, CLIENT_CONTEXT_BYTES);
}

/* Changes on the first device without a pause. */
static void *busy_memory(void *arg)
{
	CUdeviceptr p;
	CUcontext ctx;

	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	while (!atomic_load(&churn_is_over)) {
		OK(cuMemAlloc_v2(&p, 2 * MIB));
		OK(cuMemFree_v2(p));
	}
	return arg;
}

/*
 * beside: what a context costs is not known at once while other threads are at work on another
 * device; that is not out of memory.
 */
static void beside(int argc, char **argv)
{
	enum { THREADS = 6, ROUNDS = 4 };
	pthread_t thread[THREADS];
	CUmodule module;
	CUdeviceptr p;
	CUcontext ctx;

	(void)argc;
	(void)argv;
	OK(cuInit(0));
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&thread[i], NULL, busy_memory, NULL) == 0);
	usleep(50000);
	for (int i = 0; i < ROUNDS; i++) {
		OK(cuDevicePrimaryCtxRetain(&ctx, 1));
		OK(cuCtxSetCurrent(ctx));
		OK(cuModuleLoadData(&module, CLIENT_MODULE));
		OK(cuMemAlloc_v2(&p, 2 * MIB));
		OK(cuDevicePrimaryCtxRelease_v2(1));
	}
	atomic_store(&churn_is_over, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

/* member: one of the tenant that has none. */
static void be_member(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	OK(cuInit(0));
	client_pause("member");
}

/* one: a process with a context. */
static void one(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	client_start();
}

static CUgreenCtx new_green(void)
{
	CUdevResourceDesc desc;
	CUdevResource sms;
	CUgreenCtx green;

	OK(cuDeviceGetDevResource(0, &sms, CU_DEV_RESOURCE_TYPE_SM));
	OK(cuDevResourceGenerateDesc(&desc, &sms, 1));
	return cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM) == CUDA_SUCCESS ?
		       green :
		       NULL;
}

static void *make_green(void *ctx)
{
	OK(cuCtxSetCurrent(ctx));
	CHECK(new_green());
	return NULL;
}

/*
 * green: what a green context costs is not told by one beside which another thread gave memory back
 * that no call shows.
 */
static void green(int argc, char **argv)
{
	CUdeviceptr block[64];
	struct client_held held = client_held_find();
	CUmodule module;
	CUcontext ctx;
	int count = 0;

	(void)argc;
	(void)argv;
	ctx = client_start();
	OK(cuModuleLoadData(&module, LARGE_MODULE("4194304")));
	client_held_start(&held, make_green, ctx);
	OK(cuModuleUnload(module));
	client_held_end(&held);
	while (count < 64 && cuMemAlloc_v2(&block[count], BLOCK_BYTES) == CUDA_SUCCESS)
		count++;
	/* With less room than one needs it takes nothing, not for a moment. */
	for (int i = 0; i < 3; i++) {
		CHECK(!new_green());
		OK(cuMemFree_v2(block[--count]));
	}
	OK(cuMemFree_v2(block[--count]));
	CHECK(new_green());
}

int main(int argc, char **argv)
{
	static const struct client_case cases[] = {
		{ "ends", ends },
		{ "references", references },
		{ "one", one },
		{ "member", be_member },
		{ "forms", forms },
		{ "odd", odd },
		{ "untouched", untouched },
		{ "first", first },
		{ "modules", modules },
		{ "large-modules", large_modules },
		{ "ignored", ignored },
		{ "together", together },
		{ "crowd", crowd },
		{ "churn", churn },
		{ "beside", beside },
		{ "libraries", libraries },
		{ "green", green },
		{ 0 },
	};

	return client_main(argc, argv, cases);
}
