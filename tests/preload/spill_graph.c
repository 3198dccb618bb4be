#include "spill_graph.h"

#include "client.h"

enum { COPY_BYTES = 1024, TO = 8192 };
/* Of what is used at first: it would come to the card by itself. */
#define COLD_BYTES (4 * MIB)

static CUfunction copy;
static CUgraphExec exec;
static CUstream stream;

/* The parameters of a kernel that copies a few bytes at `addr`: good until the next call. */
static CUDA_KERNEL_NODE_PARAMS kernel_of(CUdeviceptr addr)
{
	static struct {
		CUdeviceptr to, from;
		uint64_t bytes;
	} params;
	static void *at[] = { &params.to, &params.from, &params.bytes };

	params.to = addr + TO;
	params.from = addr;
	params.bytes = COPY_BYTES;
	return client_kernel(copy, NULL, at);
}

static CUDA_MEMCPY3D copy_of(CUdeviceptr addr)
{
	return (CUDA_MEMCPY3D){ .srcMemoryType = CU_MEMORYTYPE_DEVICE,
				.srcDevice = addr,
				.srcPitch = COPY_BYTES,
				.srcHeight = 1,
				.dstMemoryType = CU_MEMORYTYPE_DEVICE,
				.dstDevice = addr + TO,
				.dstPitch = COPY_BYTES,
				.dstHeight = 1,
				.WidthInBytes = COPY_BYTES,
				.Height = 1,
				.Depth = 1 };
}

/* What the piece is filled with already. */
static CUDA_MEMSET_NODE_PARAMS fill_of(CUdeviceptr addr, unsigned value)
{
	return (CUDA_MEMSET_NODE_PARAMS){
		.dst = addr, .value = value, .elementSize = 4, .width = COPY_BYTES / 4, .height = 1
	};
}

static unsigned word_at(CUdeviceptr addr)
{
	unsigned word;

	OK(cuMemcpyDtoH_v2(&word, addr, sizeof(word)));
	return word;
}

static CUgraph graph_of(CUdeviceptr addr, CUgraphNode *out_node)
{
	CUDA_KERNEL_NODE_PARAMS kernel = kernel_of(addr);
	CUgraph graph;

	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddKernelNode_v2(out_node, graph, NULL, 0, &kernel));
	return graph;
}

/* A graph whose only node is a graph, in one more if it is deep. */
static CUgraph parent_of(CUdeviceptr addr, bool is_deep, CUgraphNode *out_node)
{
	CUgraph inner = graph_of(addr, out_node), graph;

	if (is_deep) {
		OK(cuGraphCreate(&graph, 0));
		OK(cuGraphAddChildGraphNode(out_node, graph, NULL, 0, inner));
		OK(cuGraphDestroy(inner));
		inner = graph;
	}
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddEmptyNode(out_node, graph, NULL, 0));
	OK(cuGraphAddChildGraphNode(out_node, graph, NULL, 0, inner));
	OK(cuGraphDestroy(inner));
	return graph;
}

static void instantiate(CUgraph graph)
{
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
}

static void captured(CUdeviceptr hot, CUdeviceptr cold)
{
	CUDA_KERNEL_NODE_PARAMS p = kernel_of(hot);
	CUgraph graph;

	(void)cold;
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cuLaunchKernel(copy, 1, 1, 1, 1, 1, 1, 0, stream, p.kernelParams, NULL));
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphInstantiate_v2(&exec, graph, NULL, NULL, 0));
	/* What it was made of is gone. */
	OK(cuGraphDestroy(graph));
}

static void node(CUdeviceptr hot, CUdeviceptr cold)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS params = { .flags = 0 };
	CUgraphNode at;

	(void)cold;
	OK(cuGraphInstantiateWithParams(&exec, graph_of(hot, &at), &params));
}

/* Parameters in one buffer. */
static void buffer(CUdeviceptr hot, CUdeviceptr cold)
{
	CUDA_KERNEL_NODE_PARAMS p = kernel_of(hot);
	uint64_t words[] = { hot + TO, hot, COPY_BYTES };
	size_t bytes = sizeof(words);
	void *extra[] = { CU_LAUNCH_PARAM_BUFFER_POINTER, words, CU_LAUNCH_PARAM_BUFFER_SIZE,
			  &bytes, CU_LAUNCH_PARAM_END };
	CUgraphNode at;

	instantiate(graph_of(cold, &at));
	p.kernelParams = NULL;
	p.extra = extra;
	OK(cuGraphExecKernelNodeSetParams_v2(exec, at, &p));
}

static void child(CUdeviceptr hot, CUdeviceptr cold)
{
	CUgraphNode at;

	(void)cold;
	instantiate(parent_of(hot, true, &at));
}

static void copied(CUdeviceptr hot, CUdeviceptr cold)
{
	CUDA_MEMCPY3D p = copy_of(hot);
	CUgraph graph;
	CUgraphNode at;
	CUcontext ctx;

	(void)cold;
	OK(cuCtxGetCurrent(&ctx));
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemcpyNode(&at, graph, NULL, 0, &p, ctx));
	instantiate(graph);
	p = copy_of(hot + COPY_BYTES);
	OK(cuGraphExecMemcpyNodeSetParams(exec, at, &p, ctx));
}

static void filled(CUdeviceptr hot, CUdeviceptr cold)
{
	unsigned value = word_at(hot);
	CUDA_MEMSET_NODE_PARAMS p = fill_of(hot, value);
	CUgraph graph;
	CUgraphNode at;
	CUcontext ctx;

	(void)cold;
	OK(cuCtxGetCurrent(&ctx));
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemsetNode(&at, graph, NULL, 0, &p, ctx));
	instantiate(graph);
	p = fill_of(hot + COPY_BYTES, value);
	OK(cuGraphExecMemsetNodeSetParams(exec, at, &p, ctx));
}

static void set(CUdeviceptr hot, CUdeviceptr cold)
{
	CUDA_KERNEL_NODE_PARAMS p;
	CUgraphNode at;

	instantiate(graph_of(cold, &at));
	p = kernel_of(hot);
	OK(cuGraphExecKernelNodeSetParams_v2(exec, at, &p));
}

static void set_old(CUdeviceptr hot, CUdeviceptr cold)
{
	CUDA_KERNEL_NODE_PARAMS p;
	CUDA_KERNEL_NODE_PARAMS_v1 old;
	CUgraphNode at;

	instantiate(graph_of(cold, &at));
	p = kernel_of(hot);
	old = (CUDA_KERNEL_NODE_PARAMS_v1){ .func = p.func,
					    .gridDimX = 1,
					    .gridDimY = 1,
					    .gridDimZ = 1,
					    .blockDimX = 1,
					    .blockDimY = 1,
					    .blockDimZ = 1,
					    .kernelParams = p.kernelParams };
	OK(cuGraphExecKernelNodeSetParams(exec, at, &old));
}

static void set_child(CUdeviceptr hot, CUdeviceptr cold)
{
	CUgraphNode at, other;

	instantiate(parent_of(cold, false, &at));
	OK(cuGraphExecChildGraphNodeSetParams(exec, at, graph_of(hot, &other)));
}

/* By the call for any node: all that it may be. */
static void set_any(CUdeviceptr hot, CUdeviceptr cold)
{
	CUgraphNodeParams p = { .type = CU_GRAPH_NODE_TYPE_KERNEL };
	CUDA_KERNEL_NODE_PARAMS kernel;
	CUgraphNode at, inner, fill, other;
	CUDA_MEMSET_NODE_PARAMS filled;
	CUgraph graph = parent_of(cold, false, &at), own;
	unsigned value = word_at(hot);
	size_t count = 1;
	CUcontext ctx;

	OK(cuCtxGetCurrent(&ctx));
	filled = fill_of(hot, value);
	OK(cuGraphAddMemsetNode(&fill, graph, NULL, 0, &filled, ctx));
	OK(cuGraphChildGraphNodeGetGraph(at, &own));
	OK(cuGraphGetNodes(own, &inner, &count));
	instantiate(graph);
	kernel = kernel_of(hot);
	p.kernel.func = kernel.func;
	p.kernel.gridDimX = p.kernel.gridDimY = p.kernel.gridDimZ = 1;
	p.kernel.blockDimX = p.kernel.blockDimY = p.kernel.blockDimZ = 1;
	p.kernel.kernelParams = kernel.kernelParams;
	OK(cuGraphExecNodeSetParams(exec, inner, &p));
	p = (CUgraphNodeParams){ .type = CU_GRAPH_NODE_TYPE_GRAPH,
				 .graph = { .graph = graph_of(cold, &other) } };
	OK(cuGraphExecNodeSetParams(exec, at, &p));
	p.graph.graph = graph_of(hot, &other);
	OK(cuGraphExecNodeSetParams(exec, at, &p));
	p = (CUgraphNodeParams){ .type = CU_GRAPH_NODE_TYPE_MEMSET,
				 .memset = { .dst = hot + COPY_BYTES,
					     .value = value,
					     .elementSize = 4,
					     .width = 1,
					     .height = 1,
					     .ctx = ctx } };
	OK(cuGraphExecNodeSetParams(exec, fill, &p));
}

/* By the node of the child graph itself. */
static void set_within(CUdeviceptr hot, CUdeviceptr cold)
{
	CUDA_KERNEL_NODE_PARAMS p;
	CUgraphNode at, inner;
	CUgraph graph;
	size_t count = 1;

	instantiate(parent_of(cold, false, &at));
	OK(cuGraphChildGraphNodeGetGraph(at, &graph));
	OK(cuGraphGetNodes(graph, &inner, &count));
	p = kernel_of(hot);
	OK(cuGraphExecKernelNodeSetParams_v2(exec, inner, &p));
}

static void update(CUdeviceptr hot, CUdeviceptr cold)
{
	CUgraphExecUpdateResultInfo info;
	CUgraphNode at;
	CUgraph graph = graph_of(hot, &at);

	instantiate(graph_of(cold, &at));
	OK(cuGraphExecUpdate_v2(exec, graph, &info));
	OK(cuGraphDestroy(graph));
}

/* By its nodes' old names, which an update leaves. */
static void update_set(CUdeviceptr hot, CUdeviceptr cold)
{
	CUgraphExecUpdateResult result;
	CUDA_KERNEL_NODE_PARAMS p;
	CUgraphNode at, other;
	CUgraph graph;

	instantiate(graph_of(hot, &at));
	graph = graph_of(cold, &other);
	OK(cuGraphExecUpdate(exec, graph, NULL, &result));
	OK(cuGraphDestroy(graph));
	p = kernel_of(hot);
	OK(cuGraphExecKernelNodeSetParams_v2(exec, at, &p));
}

/* An executable graph before this one used other memory, perhaps under the same handle. */
static void again(CUdeviceptr hot, CUdeviceptr cold)
{
	CUgraphNode at;

	instantiate(graph_of(cold, &at));
	OK(cuGraphLaunch(exec, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuGraphExecDestroy(exec));
	instantiate(graph_of(hot, &at));
}

/* What the driver refuses changes nothing; the test has it do so. */
static void refused(CUdeviceptr hot, CUdeviceptr cold)
{
	CUgraphExecUpdateResultInfo info;
	CUDA_KERNEL_NODE_PARAMS p;
	CUgraphNode at, other;

	instantiate(graph_of(hot, &at));
	p = kernel_of(cold);
	IS(cuGraphExecKernelNodeSetParams_v2(exec, at, &p), CUDA_ERROR_UNKNOWN);
	IS(cuGraphExecUpdate_v2(exec, graph_of(cold, &other), &info), CUDA_ERROR_UNKNOWN);
	IS(cuGraphExecDestroy(exec), CUDA_ERROR_UNKNOWN);
}

bool spill_graph_make(const char *way, CUfunction copies, CUdeviceptr hot)
{
	static const struct {
		const char *name;
		void (*make)(CUdeviceptr hot, CUdeviceptr cold);
	} ways[] = { { "captured", captured },
		     { "node", node },
		     { "buffer", buffer },
		     { "child", child },
		     { "copied", copied },
		     { "filled", filled },
		     { "set", set },
		     { "set_old", set_old },
		     { "set_child", set_child },
		     { "set_within", set_within },
		     { "set_any", set_any },
		     { "update", update },
		     { "update_set", update_set },
		     { "again", again },
		     { "refused", refused } };
	CUdeviceptr cold;

	copy = copies;
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		if (strcmp(ways[i].name, way) != 0)
			continue;
		OK(cuMemAlloc_v2(&cold, COLD_BYTES));
		OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
		ways[i].make(hot, cold);
		return true;
	}
	return false;
}

void spill_graph_launch(void)
{
	OK(cuGraphLaunch(exec, stream));
}
