/* Graphs in graphs, and what nodes say of themselves. */
#include "check.h"

static CUdeviceptr memory;
static CUcontext ctx;

static CUgraph new_graph(void)
{
	CUgraph graph = NULL;

	OK(cuGraphCreate(&graph, 0));
	return graph;
}

/* Sets word `at`. */
static CUgraphNode add_set(CUgraph graph, unsigned at, unsigned value)
{
	CUDA_MEMSET_NODE_PARAMS p = {
		.dst = memory + 4 * at, .value = value, .elementSize = 4, .width = 1, .height = 1
	};
	CUgraphNode node = NULL;

	OK(cuGraphAddMemsetNode(&node, graph, NULL, 0, &p, ctx));
	return node;
}

/* Copies word `from` to word `to`. */
static CUgraphNode add_copy(CUgraph graph, unsigned to, unsigned from)
{
	CUDA_MEMCPY3D copy = { .srcMemoryType = CU_MEMORYTYPE_DEVICE,
			       .srcDevice = memory + 4 * from,
			       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			       .dstDevice = memory + 4 * to,
			       .WidthInBytes = 4,
			       .Height = 1,
			       .Depth = 1 };
	CUgraphNode node = NULL;

	OK(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, ctx));
	return node;
}

static CUgraphNode add_child(CUgraph graph, CUgraph child)
{
	CUgraphNode node = NULL;

	OK(cuGraphAddChildGraphNode(&node, graph, NULL, 0, child));
	return node;
}

/* The only node of the node's graph. */
static CUgraphNode inside(CUgraphNode node)
{
	CUgraph graph = NULL;
	CUgraphNode inner = NULL;
	size_t count = 1;

	OK(cuGraphChildGraphNodeGetGraph(node, &graph));
	OK(cuGraphGetNodes(graph, &inner, &count));
	TRUE(count == 1);
	return inner;
}

static CUgraphExec instantiate(CUgraph graph)
{
	CUgraphExec exec = NULL;

	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	return exec;
}

static unsigned word(CUgraphExec exec, unsigned at)
{
	unsigned value = 0;

	OK(cuMemsetD32_v2(memory, 0, 16));
	OK(cuGraphLaunch(exec, NULL));
	OK(cuMemcpyDtoH_v2(&value, memory + 4 * at, 4));
	return value;
}

static void arguments(void)
{
	CUDA_MEM_ALLOC_NODE_PARAMS alloc = {
		.poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			       .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } },
		.bytesize = MIB
	};
	CUgraph graph = new_graph(), child = new_graph(), own = NULL;
	CUgraphNode node = NULL, set = add_set(child, 0, 1);
	CUgraphNodeType type;

	EXPECT(cuGraphAddChildGraphNode(&node, graph, NULL, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuGraphAddChildGraphNode(NULL, graph, NULL, 0, child), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuGraphAddChildGraphNode(&node, graph, &set, 1, child), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuGraphChildGraphNodeGetGraph(set, &own), CUDA_ERROR_INVALID_VALUE);
	node = add_child(graph, child);
	OK(cuGraphNodeGetType(node, &type));
	TRUE(type == CU_GRAPH_NODE_TYPE_GRAPH);
	EXPECT(cuGraphChildGraphNodeGetGraph(node, NULL), CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphChildGraphNodeGetGraph(node, &own));
	/* It is the node's copy, which ends with it. */
	TRUE(own != child);
	EXPECT(cuGraphDestroy(own), CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphAddMemAllocNode(&node, child, NULL, 0, &alloc));
	EXPECT(cuGraphAddChildGraphNode(&node, graph, NULL, 0, child), CUDA_ERROR_NOT_SUPPORTED);
	OK(cuGraphDestroy(child));
	OK(cuGraphDestroy(graph));
	EXPECT(cuGraphDestroy(own), CUDA_ERROR_INVALID_VALUE);
}

/* In their order, two deep; a clone has all of it too, without what it was made of. */
static void children_run_in_their_place(void)
{
	CUgraph inner = new_graph(), middle = new_graph(), outer = new_graph(), clone = NULL;
	CUgraphExec exec;

	add_copy(inner, 1, 0);
	add_child(middle, inner);
	add_copy(middle, 2, 1);
	add_set(outer, 0, 7);
	add_child(outer, middle);
	add_copy(outer, 3, 2);
	OK(cuGraphDestroy(inner));
	OK(cuGraphDestroy(middle));
	exec = instantiate(outer);
	TRUE(word(exec, 3) == 7);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphClone(&clone, outer));
	OK(cuGraphDestroy(outer));
	exec = instantiate(clone);
	OK(cuGraphDestroy(clone));
	TRUE(word(exec, 3) == 7);
	OK(cuGraphExecDestroy(exec));
}

static void changes_of_children(void)
{
	CUgraph child = new_graph(), graph = new_graph(), other = new_graph(), more = new_graph();
	CUDA_MEMSET_NODE_PARAMS p = {
		.dst = memory, .value = 9, .elementSize = 4, .width = 1, .height = 1
	};
	CUgraphExecUpdateResultInfo info;
	CUgraphNode node, set;
	CUgraphExec exec;

	set = add_set(child, 0, 1);
	add_set(graph, 1, 2);
	node = add_child(graph, child);
	exec = instantiate(graph);
	TRUE(word(exec, 0) == 1);
	add_set(other, 0, 5);
	OK(cuGraphExecChildGraphNodeSetParams(exec, node, other));
	TRUE(word(exec, 0) == 5);
	TRUE(word(exec, 1) == 2);
	/* Its node is known by what it was. */
	OK(cuGraphExecMemsetNodeSetParams(exec, inside(node), &p, ctx));
	TRUE(word(exec, 0) == 9);
	EXPECT(cuGraphExecMemsetNodeSetParams(exec, set, &p, ctx), CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphExecChildGraphNodeSetParams(exec, node, other));
	TRUE(word(exec, 0) == 5);
	OK(cuGraphExecNodeSetParams(exec, node,
				    &(CUgraphNodeParams){ .type = CU_GRAPH_NODE_TYPE_GRAPH,
							  .graph = { .graph = child } }));
	TRUE(word(exec, 0) == 1);
	OK(cuGraphExecNodeSetParams(exec, inside(node),
				    &(CUgraphNodeParams){ .type = CU_GRAPH_NODE_TYPE_MEMSET,
							  .memset = { .dst = memory,
								      .value = 5,
								      .elementSize = 4,
								      .width = 1,
								      .height = 1,
								      .ctx = ctx } }));
	EXPECT(cuGraphExecNodeSetParams(exec, inside(node),
					&(CUgraphNodeParams){ .type = CU_GRAPH_NODE_TYPE_MEMCPY }),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuGraphExecNodeSetParams(exec, inside(node), NULL), CUDA_ERROR_INVALID_VALUE);
	TRUE(word(exec, 0) == 5);
	/* Not what is made otherwise. */
	add_set(more, 0, 3);
	add_set(more, 0, 4);
	EXPECT(cuGraphExecChildGraphNodeSetParams(exec, node, more), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuGraphExecChildGraphNodeSetParams(exec, set, other), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuGraphExecChildGraphNodeSetParams(exec, node, NULL), CUDA_ERROR_INVALID_VALUE);
	TRUE(word(exec, 0) == 5);
	/* All of it as it was made. */
	OK(cuGraphExecUpdate_v2(exec, graph, &info));
	TRUE(word(exec, 0) == 1);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuGraphDestroy(child));
	OK(cuGraphDestroy(other));
	OK(cuGraphDestroy(more));
}

static void nodes_tell_their_parameters(void)
{
	CUDA_MEMSET_NODE_PARAMS fill;
	CUDA_MEMCPY3D copy;
	CUgraph graph = new_graph();
	CUgraphNode set = add_set(graph, 1, 77), moves = add_copy(graph, 3, 2);

	OK(cuGraphMemsetNodeGetParams(set, &fill));
	TRUE(fill.dst == memory + 4 && fill.value == 77 && fill.elementSize == 4);
	TRUE(fill.width == 1 && fill.height == 1);
	OK(cuGraphMemcpyNodeGetParams(moves, &copy));
	TRUE(copy.srcDevice == memory + 8 && copy.dstDevice == memory + 12);
	TRUE(copy.WidthInBytes == 4 && copy.Height == 1 && copy.Depth == 1);
	/* What it says makes such a node. */
	OK(cuGraphAddMemcpyNode(&moves, graph, NULL, 0, &copy, ctx));
	EXPECT(cuGraphMemcpyNodeGetParams(set, &copy), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuGraphMemsetNodeGetParams(moves, &fill), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuGraphMemsetNodeGetParams(set, NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuGraphMemcpyNodeGetParams(NULL, &copy), CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphDestroy(graph));
}

int main(void)
{
	check_start("count=1,mem=1g,context=64m");
	OK(cuCtxGetCurrent(&ctx));
	OK(cuMemAlloc_v2(&memory, MIB));
	arguments();
	children_run_in_their_place();
	changes_of_children();
	nodes_tell_their_parameters();
	return check_end();
}
