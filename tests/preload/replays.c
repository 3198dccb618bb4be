/*
 * Graphs are launched in several threads while some memory lies on the host, some of them by two
 * threads at once; meanwhile others are made, changed, updated and destroyed, and so is memory that
 * they name.
 */
#include "client.h"
#include "kernels.h"

#include <pthread.h>

enum { PIECES = 8, LAUNCHERS = 3, CHANGERS = 2, LAUNCHES = 1500, ROUNDS = 150 };
#define PIECE_BYTES (16 * MIB)

static CUdeviceptr pieces[PIECES];
static CUfunction copy;
static CUcontext primary;
static CUgraphExec shared;
static CUstream shared_stream; /* that graph writes */

/* Copies a few bytes of the piece, to a place of the thread's. */
struct params {
	CUdeviceptr to, from;
	uint64_t bytes;
	void *at[3];
};

static CUDA_KERNEL_NODE_PARAMS kernel_of(struct params *p, CUdeviceptr addr, unsigned self)
{
	p->from = addr;
	p->to = addr + (self + 1) * 8192;
	p->bytes = 1024;
	p->at[0] = &p->to;
	p->at[1] = &p->from;
	p->at[2] = &p->bytes;
	return client_kernel(copy, NULL, p->at);
}

static CUgraph graph_of(CUdeviceptr addr, unsigned self, CUgraphNode *out_node)
{
	struct params p;
	CUDA_KERNEL_NODE_PARAMS kernel = kernel_of(&p, addr, self);
	CUgraph graph;

	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddKernelNode_v2(out_node, graph, NULL, 0, &kernel));
	return graph;
}

static CUgraphExec exec_of(CUdeviceptr addr, unsigned self)
{
	CUgraphNode node;
	CUgraph graph = graph_of(addr, self, &node);
	CUgraphExec exec;

	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphDestroy(graph));
	return exec;
}

static void *launch(void *arg)
{
	unsigned self = (unsigned)(uintptr_t)arg;
	CUgraphExec own;
	CUstream stream;

	OK(cuCtxSetCurrent(primary));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	own = exec_of(pieces[PIECES - 1 - self], self);
	for (unsigned i = 0; i < LAUNCHES; i++) {
		OK(cuGraphLaunch(own, stream));
		OK(cuGraphLaunch(shared, shared_stream));
		if (i % 50 == 0) {
			OK(cuStreamSynchronize(stream));
			usleep(2000);
		}
	}
	OK(cuStreamSynchronize(stream));
	OK(cuGraphExecDestroy(own));
	OK(cuStreamDestroy_v2(stream));
	return NULL;
}

/* A graph of its own in all its changes, launched between them. */
static void change(unsigned self, unsigned round, CUstream stream)
{
	CUdeviceptr addr = pieces[round % PIECES], other = pieces[(round + 3) % PIECES], own;
	struct params p;
	CUDA_KERNEL_NODE_PARAMS kernel;
	CUgraphExecUpdateResultInfo info;
	CUgraphNode node, child_node, unused;
	CUgraph graph = graph_of(addr, self, &node), next = graph_of(other, self, &unused);
	CUgraphExec exec;

	OK(cuGraphAddChildGraphNode(&child_node, graph, &node, 1, next));
	OK(cuGraphInstantiate_v2(&exec, graph, NULL, NULL, 0));
	OK(cuGraphLaunch(exec, stream));
	/* Memory that was named and is freed before a launch that names it no longer. */
	OK(cuMemAlloc_v2(&own, 64 << 10));
	kernel = kernel_of(&p, own, 0);
	OK(cuGraphExecKernelNodeSetParams_v2(exec, node, &kernel));
	kernel = kernel_of(&p, other, self);
	if (round % 2)
		OK(cuGraphExecKernelNodeSetParams_v2(exec, node, &kernel));
	else
		OK(cuGraphExecUpdate_v2(exec, graph, &info));
	OK(cuMemFree_v2(own));
	OK(cuGraphLaunch(exec, stream));
	OK(cuGraphExecChildGraphNodeSetParams(exec, child_node, next));
	OK(cuGraphLaunch(exec, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuGraphDestroy(next));
}

static void *change_much(void *arg)
{
	unsigned self = (unsigned)(uintptr_t)arg;
	CUstream stream;

	OK(cuCtxSetCurrent(primary));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (unsigned round = 0; round < ROUNDS; round++)
		change(self, round, stream);
	OK(cuStreamDestroy_v2(stream));
	return NULL;
}

int main(void)
{
	pthread_t threads[LAUNCHERS + CHANGERS];
	CUmodule module;

	client_start();
	OK(cuCtxGetCurrent(&primary));
	OK(cuModuleLoadData(&module, kernels_ptx));
	OK(cuModuleGetFunction(&copy, module, "copy"));
	for (unsigned i = 0; i < PIECES; i++) {
		OK(cuMemAlloc_v2(&pieces[i], PIECE_BYTES));
		OK(cuMemsetD32_v2(pieces[i], i + 1, PIECE_BYTES / 4));
	}
	CHECK(client_own()->residency[0].host_bytes > 0);
	OK(cuStreamCreate(&shared_stream, CU_STREAM_NON_BLOCKING));
	shared = exec_of(pieces[PIECES - 1], LAUNCHERS + CHANGERS);
	for (uintptr_t i = 0; i < LAUNCHERS + CHANGERS; i++)
		pthread_create(&threads[i], NULL, i < LAUNCHERS ? launch : change_much, (void *)i);
	for (unsigned i = 0; i < LAUNCHERS + CHANGERS; i++)
		pthread_join(threads[i], NULL);
	OK(cuCtxSynchronize());
	OK(cuGraphExecDestroy(shared));
	for (unsigned i = 0; i < PIECES; i++) {
		static unsigned words[PIECE_BYTES / 4];

		OK(cuMemcpyDtoH_v2(words, pieces[i], PIECE_BYTES));
		for (uint64_t w = 0; w < PIECE_BYTES / 4; w++)
			CHECK(words[w] == i + 1);
		OK(cuMemFree_v2(pieces[i]));
	}
	printf("end\n");
	return 0;
}
