/*
 * A thread for each of two devices: kernels of its own, and one that waits for the other
 * device's. Under a limit each would hold the other up longer and longer, if what a kernel waited
 * were paid for at once.
 */
#include "client.h"

#include <pthread.h>

#include "../../examples/kernels.h"

enum { ROUNDS = 120, KERNELS = 3 };
#define KERNEL_NS UINT64_C(300000)

static uint64_t *words;
static const char *way;

/* The kernel of that name, from where the test wants it. */
static CUfunction get(const char *name)
{
	CUfunction function;
	CUlibrary library;
	CUkernel kernel;
	CUmodule module;

	if (strcmp(way, "library") == 0) {
		OK(cuLibraryLoadData(&library, kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
		OK(cuLibraryGetKernel(&kernel, library, name));
		return (CUfunction)(void *)kernel;
	}
	OK(cuModuleLoadData(&module, kernels_ptx));
	OK(cuModuleGetFunction(&function, module, name));
	return function;
}

static void launch(CUfunction function, CUstream stream, void **params)
{
	OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

/* A round; as a graph it is captured anew each time, since the goal is another. */
static void run_round(CUfunction spin, CUfunction meet, CUstream stream, void **spin_params,
		      void **meet_params)
{
	bool is_graph = strcmp(way, "graph") == 0;
	CUgraphExec exec;
	CUgraph graph;

	if (is_graph)
		OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	for (int i = 0; i < KERNELS; i++)
		launch(spin, stream, spin_params);
	launch(meet, stream, meet_params);
	if (!is_graph)
		return;
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

static void *rank(void *arg)
{
	int dev = (int)(intptr_t)arg;
	CUfunction spin, meet;
	CUstream stream;
	CUcontext ctx;
	CUdeviceptr own, other;
	uint64_t ns = KERNEL_NS, round;
	void *spin_params[] = { &ns }, *meet_params[] = { &own, &other, &round };

	OK(cuDevicePrimaryCtxRetain(&ctx, dev));
	OK(cuCtxSetCurrent(ctx));
	OK(cuMemHostGetDevicePointer_v2(&own, &words[8 * dev], 0));
	OK(cuMemHostGetDevicePointer_v2(&other, &words[8 * !dev], 0));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	spin = get("spin");
	meet = get("ncclMeet");
	for (round = 1; round <= ROUNDS; round++) {
		run_round(spin, meet, stream, spin_params, meet_params);
		if (round % 4 == 0)
			OK(cuCtxSynchronize());
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[2];
	CUcontext ctx;

	CHECK(argc == 2);
	way = argv[1];
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	OK(cuMemHostAlloc((void **)&words, 4096,
			  CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
	memset(words, 0, 4096);
	for (int d = 0; d < 2; d++)
		CHECK(pthread_create(&threads[d], NULL, rank, (void *)(intptr_t)d) == 0);
	for (int d = 0; d < 2; d++)
		CHECK(pthread_join(threads[d], NULL) == 0);
	puts("met");
	return 0;
}
