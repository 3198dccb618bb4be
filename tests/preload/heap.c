/* What the driver's own functions that kernels call take, and when: heap, stack, launches. */
#include "client_held.h"

#include <pthread.h>

#define IMAGE(called)                                                                 \
	".version 6.0\n.target sm_50\n.address_size 64\n" called                      \
	".visible .entry empty()\n{\n\tret;\n}\n.visible .entry spin(.param .u64 ns)" \
	"\n{\n\tret;\n}\n"
#define MALLOC ".extern .func (.param .b64 got) malloc (.param .b64 bytes);\n"
#define LAUNCHES ".extern .func (.param .b32 res) cudaLaunchDeviceV2 (.param .b64 at);\n"

static const char heap_image[] = IMAGE(MALLOC);
static const char plain_image[] = IMAGE("");
static const char deep_image[] =
	".version 6.0\n.target sm_50\n.address_size 64\n" MALLOC
	".visible .entry empty()\n{\n\t.local .align 8 .b8 depot[1536];\n\tret;\n}\n"
	".visible .entry spin(.param .u64 ns)\n{\n\tret;\n}\n";
static const char launching_image[] = IMAGE(LAUNCHES);

#define HEAP_BYTES (64 * MIB)
/* What the driver makes of it. */
#define HEAP_TAKES (HEAP_BYTES + BLOCK_BYTES)

static CUfunction function_of(CUmodule module)
{
	CUfunction func;

	OK(cuModuleGetFunction(&func, module, "empty"));
	return func;
}

static CUresult launch(CUfunction func)
{
	CUresult res = cuLaunchKernel(func, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);

	return res == CUDA_SUCCESS ? cuCtxSynchronize() : res;
}

/* Until the limit lets no more go. */
static void fill(void)
{
	CUdeviceptr at;

	while (cuMemAlloc_v2(&at, 4 * MIB) == CUDA_SUCCESS)
		;
	while (cuMemAlloc_v2(&at, BLOCK_BYTES) == CUDA_SUCCESS)
		;
}

/* late: launched when all else is full. */
static void late(int argc, char **argv)
{
	CUmodule module, plain;

	(void)argc;
	(void)argv;
	client_start();
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, HEAP_BYTES));
	OK(cuModuleLoadData(&module, heap_image));
	OK(cuModuleLoadData(&plain, plain_image));
	OK(launch(function_of(plain)));
	client_pause("loaded");
	fill();
	OK(launch(function_of(module)));
	client_pause("launched");
	IS(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, HEAP_BYTES), CUDA_ERROR_INVALID_VALUE);
	OK(cuModuleUnload(module));
	client_pause("unloaded");
}

/* refused: neither the module nor a larger heap is let in where they find no room. */
static void refused(int argc, char **argv)
{
	CUdeviceptr most;
	CUmodule module = (CUmodule)1;
	uint64_t before, loaded;

	(void)argc;
	(void)argv;
	client_start();
	OK(cuMemAlloc_v2(&most, 100 * MIB));
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, HEAP_BYTES));
	OK(cuMemFree_v2(most));
	OK(cuMemAlloc_v2(&most, 260 * MIB));
	before = client_charged(0);
	IS(cuModuleLoadData(&module, heap_image), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(module == (CUmodule)1);
	CHARGED_IS(0, before);
	OK(cuMemFree_v2(most));
	OK(cuModuleLoadData(&module, heap_image));
	loaded = client_charged(0);
	IS(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 400 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	SAME(client_charged(0), loaded);
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, HEAP_BYTES + 8 * MIB));
	SAME(client_charged(0), loaded + 8 * MIB);
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, HEAP_BYTES));
	SAME(client_charged(0), loaded);
	client_pause("loaded");
}

/* unloaded: what was awaited is not any more, with the last that may bring it. */
static void unloaded(int argc, char **argv)
{
	uint64_t loaded, before;
	CUmodule one, two;

	(void)argc;
	(void)argv;
	client_start();
	OK(cuModuleLoadData(&one, heap_image));
	OK(cuModuleUnload(one));
	/* The stack stays. */
	before = client_charged(0);
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, HEAP_BYTES));
	SAME(client_charged(0), before);
	OK(cuModuleLoadData(&one, heap_image));
	loaded = client_charged(0);
	CHECK(loaded >= before + HEAP_TAKES);
	OK(cuModuleLoadData(&two, heap_image));
	OK(cuModuleUnload(one));
	CHECK(client_charged(0) >= before + HEAP_TAKES);
	OK(cuModuleUnload(two));
	SAME(client_charged(0), before);
	client_pause("unloaded");
}

/* ended: nor with its context. */
static void ended(int argc, char **argv)
{
	uint64_t before;
	CUmodule module;
	CUcontext ctx;

	(void)argc;
	(void)argv;
	client_start();
	before = client_charged(0);
	for (int i = 0; i < 2; i++) {
		OK(cuCtxCreate_v2(&ctx, 0, 0));
		OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, HEAP_BYTES));
		OK(cuModuleLoadData(&module, heap_image));
		if (i)
			OK(launch(function_of(module)));
		CHECK(client_charged(0) >= before + HEAP_TAKES);
		OK(cuCtxDestroy_v2(ctx));
		SAME(client_charged(0), before);
	}
	client_pause("ended");
}

/* library: its kernel, by itself or in a graph. */
static void library(int argc, char **argv)
{
	CUDA_KERNEL_NODE_PARAMS params = { .gridDimX = 1,
					   .gridDimY = 1,
					   .gridDimZ = 1,
					   .blockDimX = 1,
					   .blockDimY = 1,
					   .blockDimZ = 1 };
	CUlibrary library;
	CUfunction func;
	CUgraphNode node;
	CUgraphExec exec;
	CUkernel kernel;
	CUgraph graph;

	(void)argc;
	(void)argv;
	client_start();
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, HEAP_BYTES));
	OK(cuLibraryLoadData(&library, heap_image, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetKernel(&kernel, library, "empty"));
	OK(cuKernelGetFunction(&func, kernel));
	client_pause("loaded");
	fill();
	if (argc > 2 && !strcmp(argv[2], "graph")) {
		params.func = func;
		OK(cuGraphCreate(&graph, 0));
		OK(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &params));
		OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
		OK(cuGraphLaunch(exec, NULL));
		OK(cuCtxSynchronize());
	} else {
		OK(launch((CUfunction)(void *)kernel));
	}
	client_pause("launched");
}

struct question {
	CUcontext ctx;
	CUkernel kernel;
	CUfunction func;
	CUresult answer;
};

static void *ask(void *arg)
{
	struct question *q = arg;

	OK(cuCtxSetCurrent(q->ctx));
	q->answer = cuKernelGetFunction(&q->func, q->kernel);
	return NULL;
}

/*
 * raced: whoever had it reserved is unloaded while a library comes, and another has the room. The
 * library is asked for it until there is some.
 */
static void raced(int argc, char **argv)
{
	struct client_held held = client_held_find();
	struct question q;
	CUdeviceptr at[200];
	CUlibrary library;
	CUmodule module;
	int count = 0;

	(void)argc;
	(void)argv;
	q.ctx = client_start();
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, HEAP_BYTES));
	OK(cuModuleLoadData(&module, heap_image));
	OK(cuLibraryLoadData(&library, heap_image, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetKernel(&q.kernel, library, "empty"));
	client_held_start(&held, ask, &q);
	OK(cuModuleUnload(module));
	while (cuMemAlloc_v2(&at[count], 2 * MIB) == CUDA_SUCCESS)
		count++;
	client_held_end(&held);
	SAME(q.answer, CUDA_ERROR_OUT_OF_MEMORY);
	while (cuMemAlloc_v2(&at[count], 2 * MIB) == CUDA_SUCCESS)
		count++;
	IS(cuKernelGetFunction(&q.func, q.kernel), CUDA_ERROR_OUT_OF_MEMORY);
	IS(launch((CUfunction)(void *)q.kernel), CUDA_ERROR_OUT_OF_MEMORY);
	while (count)
		OK(cuMemFree_v2(at[--count]));
	OK(cuKernelGetFunction(&q.func, q.kernel));
	client_pause("loaded");
	OK(launch(q.func));
	client_pause("launched");
}

/* deep: it comes with a launch that has more local memory reserved than it takes. */
static void deep(int argc, char **argv)
{
	CUmodule module;

	(void)argc;
	(void)argv;
	client_start();
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, HEAP_BYTES));
	OK(cuModuleLoadData(&module, deep_image));
	client_pause("loaded");
	OK(launch(function_of(module)));
	client_pause("launched");
}

/* beside: it is smaller than what a launch that brings it lets local memory grow by. */
static void beside(int argc, char **argv)
{
	CUmodule module;

	(void)argc;
	(void)argv;
	client_start();
	OK(cuModuleLoadData(&module, deep_image));
	OK(launch(function_of(module)));
	client_pause("launched");
	IS(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, HEAP_BYTES), CUDA_ERROR_INVALID_VALUE);
	OK(cuModuleUnload(module));
	client_pause("unloaded");
}

static void *set_and_look(void *arg)
{
	size_t value = 0;

	OK(cuCtxSetCurrent(arg));
	for (size_t i = 0; i < 20000; i++) {
		OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, i % 2 ? MIB : 2 * MIB));
		OK(cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
		SAME(value, i % 2 ? MIB : 2 * MIB);
	}
	return NULL;
}

/* asked: what the program sets stays while the heap is awaited, and contexts come and go. */
static void asked(int argc, char **argv)
{
	CUcontext primary, ctx;
	pthread_t thread;
	CUmodule module;

	(void)argc;
	(void)argv;
	primary = client_start();
	OK(cuModuleLoadData(&module, heap_image));
	CHECK(pthread_create(&thread, NULL, set_and_look, primary) == 0);
	for (int i = 0; i < 20; i++) {
		OK(cuCtxCreate_v2(&ctx, 0, 0));
		OK(cuModuleLoadData(&module, heap_image));
		usleep(10000);
		OK(cuCtxDestroy_v2(ctx));
	}
	pthread_join(thread, NULL);
	client_pause("over");
}

/* waiting: room for launches of the device's own. */
static void waiting(int argc, char **argv)
{
	const CUlimit limit = CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT;
	CUmodule module = (CUmodule)1;
	CUdeviceptr most;
	uint64_t before;

	(void)argc;
	(void)argv;
	client_start();
	OK(cuCtxSetLimit(limit, 16384));
	OK(cuMemAlloc_v2(&most, 300 * MIB));
	before = client_charged(0);
	IS(cuModuleLoadData(&module, launching_image), CUDA_ERROR_OUT_OF_MEMORY);
	SAME(client_charged(0), before);
	OK(cuMemFree_v2(most));
	OK(cuModuleLoadData(&module, launching_image));
	IS(cuCtxSetLimit(limit, 1 << 20), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuCtxSetLimit(limit, 16384));
	client_pause("loaded");
}

/* blind: where the card cannot be asked, what a context keeps stays charged until it ends. */
static void blind(int argc, char **argv)
{
	CUmodule one, two;
	uint64_t before;
	CUcontext ctx;

	(void)argc;
	(void)argv;
	client_start();
	before = client_charged(0);
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, HEAP_BYTES));
	OK(cuModuleLoadData(&one, heap_image));
	OK(cuModuleLoadData(&two, heap_image));
	OK(cuModuleUnload(one));
	CHECK(client_charged(0) >= before + HEAP_TAKES);
	OK(launch(function_of(two)));
	OK(cuModuleUnload(two));
	CHECK(client_charged(0) >= before + HEAP_TAKES);
	client_pause("unloaded");
	OK(cuModuleLoadData(&one, heap_image));
	CHECK(client_charged(0) < before + 2 * HEAP_TAKES + 64 * MIB);
	OK(launch(function_of(one)));
	OK(cuCtxDestroy_v2(ctx));
	SAME(client_charged(0), before);
}

/* stays: so does a module that the driver does not unload, and goes when it does. */
static void stays(int argc, char **argv)
{
	uint64_t before, loaded;
	CUmodule module;

	(void)argc;
	(void)argv;
	client_start();
	before = client_charged(0);
	OK(cuModuleLoadData(&module, plain_image));
	loaded = client_charged(0);
	CHECK(loaded > before);
	IS(cuModuleUnload(module), CUDA_ERROR_UNKNOWN);
	SAME(client_charged(0), loaded);
	OK(cuModuleUnload(module));
	SAME(client_charged(0), before);
}

/* raised: and a limit of what a launch is to bring, or the call has. */
static void raised(int argc, char **argv)
{
	const CUlimit waiting = CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT;
	uint64_t before, loaded, launches;
	CUmodule module, launching;
	CUcontext ctx;
	size_t value;

	(void)argc;
	(void)argv;
	client_start();
	before = client_charged(0);
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuModuleLoadData(&module, heap_image));
	loaded = client_charged(0);
	OK(cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, HEAP_BYTES));
	SAME(client_charged(0), loaded + HEAP_BYTES - value);
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, value));
	SAME(client_charged(0), loaded);
	OK(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 64 * MIB));
	SAME(client_charged(0), loaded);
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, HEAP_BYTES));
	OK(launch(function_of(module)));
	OK(cuModuleLoadData(&launching, launching_image));
	launches = client_charged(0);
	OK(cuCtxSetLimit(waiting, 8192));
	CHECK(client_charged(0) > launches + 50 * MIB);
	client_pause("raised");
	OK(cuCtxDestroy_v2(ctx));
	SAME(client_charged(0), before);
}

static void *load_and_launch(void *arg)
{
	CUmodule module;

	OK(cuCtxSetCurrent(arg));
	for (int i = 0; i < 20; i++) {
		if (cuModuleLoadData(&module, heap_image) != CUDA_SUCCESS)
			continue;
		launch(function_of(module));
		OK(cuModuleUnload(module));
	}
	return NULL;
}

static void *allocate(void *arg)
{
	CUdeviceptr at[64];

	OK(cuCtxSetCurrent(arg));
	for (int i = 0; i < 40; i++) {
		int count = 0;

		while (count < 64 && cuMemAlloc_v2(&at[count], 8 * MIB) == CUDA_SUCCESS)
			count++;
		while (count)
			OK(cuMemFree_v2(at[--count]));
	}
	return NULL;
}

/* threads: loads and launches beside allocations that want all there is. */
static void threads(int argc, char **argv)
{
	pthread_t thread[4];
	CUcontext primary;

	(void)argc;
	(void)argv;
	primary = client_start();
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, HEAP_BYTES));
	for (int i = 0; i < 4; i++)
		CHECK(pthread_create(&thread[i], NULL, i % 2 ? load_and_launch : allocate,
				     primary) == 0);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	client_pause("over");
}

static const struct client_case cases[] = {
	{ "late", late },       { "refused", refused }, { "unloaded", unloaded },
	{ "ended", ended },     { "library", library }, { "waiting", waiting },
	{ "threads", threads }, { "deep", deep },       { "blind", blind },
	{ "stays", stays },     { "raised", raised },   { "raced", raced },
	{ "beside", beside },   { "asked", asked },     { NULL, NULL },
};

int main(int argc, char **argv)
{
	return client_main(argc, argv, cases);
}
