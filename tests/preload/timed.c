/*
 * Launches are timed while some memory lies on the host: streams, captures and contexts come and go
 * meanwhile, in several threads, and nothing of that meets an event of ours.
 */
#include "client.h"
#include "kernels.h"

#include <pthread.h>
#include <sys/wait.h>

enum { PIECES = 8, THREADS = 3, ROUNDS = CLIENT_SANITIZED ? 20 : 60, LAUNCHES = 40 };
#define PIECE_BYTES (16 * MIB)

static CUdeviceptr pieces[PIECES];
static CUfunction copy, spin;
static CUcontext primary;

/* Writes at a place of its own: what a destroyed stream still does goes on beside the next. */
static void use(CUdeviceptr addr, unsigned place, CUstream stream)
{
	static uint64_t ns = 20000;
	uint64_t bytes = 1024;
	CUdeviceptr to = addr + 8192 + place * 4096;
	void *copied[] = { &to, &addr, &bytes }, *spun[] = { &ns };

	OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, spun, NULL));
	OK(cuLaunchKernel(copy, 1, 1, 1, 1, 1, 1, 0, stream, copied, NULL));
}

static void capture(CUstream stream, CUdeviceptr piece, unsigned place)
{
	CUgraph graph;
	CUgraphExec exec;
	size_t nodes = 0;

	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	for (int i = 0; i < 20; i++)
		use(piece, place, stream);
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphGetNodes(graph, NULL, &nodes));
	/* No event of ours among them. */
	SAME(nodes, 40);
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

static void *launch(void *arg)
{
	uintptr_t self = (uintptr_t)arg;

	OK(cuCtxSetCurrent(primary));
	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned place = (unsigned)self * 1000 + round;
		CUstream stream, other;

		OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
		OK(cuStreamCreate(&other, CU_STREAM_DEFAULT));
		/* Each stream has a piece for itself: what runs side by side writes there. */
		for (unsigned i = 0; i < LAUNCHES; i++)
			use(pieces[i % 3 ? self : THREADS + self], place, i % 3 ? stream : other);
		if (round % 10 == self)
			capture(stream, pieces[self], place);
		/* With work in it that may be timed just now. */
		OK(cuStreamDestroy_v2(stream));
		use(pieces[2 * THREADS], place, NULL);
		OK(cuStreamDestroy_v2(other));
	}
	return NULL;
}

/* A context of its own, which ends with what is timed in it. */
static void *come_and_go(void *arg)
{
	(void)arg;
	for (unsigned round = 0; round < ROUNDS / 2; round++) {
		CUmodule module;
		CUcontext ctx;
		CUfunction own;
		uint64_t ns = 10000;
		void *spun[] = { &ns };

		OK(cuCtxCreate_v2(&ctx, 0, 0));
		OK(cuModuleLoadData(&module, kernels_ptx));
		OK(cuModuleGetFunction(&own, module, "spin"));
		for (unsigned i = 0; i < LAUNCHES; i++)
			OK(cuLaunchKernel(own, 1, 1, 1, 1, 1, 1, 0, NULL, spun, NULL));
		OK(cuCtxDestroy_v2(ctx));
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS + 1];
	CUmodule module;

	client_start();
	OK(cuCtxGetCurrent(&primary));
	OK(cuModuleLoadData(&module, kernels_ptx));
	OK(cuModuleGetFunction(&copy, module, "copy"));
	OK(cuModuleGetFunction(&spin, module, "spin"));
	for (unsigned i = 0; i < PIECES; i++) {
		OK(cuMemAlloc_v2(&pieces[i], PIECE_BYTES));
		OK(cuMemsetD32_v2(pieces[i], i + 1, PIECE_BYTES / 4));
	}
	CHECK(client_own()->residency[0].host_bytes > 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, launch, (void *)i);
	pthread_create(&threads[THREADS], NULL, come_and_go, NULL);
	for (unsigned i = 0; i <= THREADS; i++)
		pthread_join(threads[i], NULL);
	OK(cuCtxSynchronize());
	for (unsigned i = 0; i < PIECES; i++)
		OK(cuMemFree_v2(pieces[i]));
	printf("end\n");
	return 0;
}
