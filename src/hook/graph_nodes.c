#include "hook/graph_nodes.h"

#include "drv/real.h"

#include <stdlib.h>

enum { DEPTH_MAX = 32 };

struct walk {
	graph_nodes_see *see;
	void *arg;
	bool is_over;
	bool is_whole;
};

static void walk_graph(struct walk *w, CUgraph graph, unsigned depth);

static void walk_child(struct walk *w, CUgraphNode node, unsigned depth)
{
	CUgraph child;

	if (!real.cuGraphChildGraphNodeGetGraph)
		return;
	if (real.cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS)
		walk_graph(w, child, depth + 1);
	else
		w->is_whole = false;
}

static void walk_node(struct walk *w, CUgraphNode node, unsigned depth)
{
	CUgraphNodeType type;

	if (real.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS)
		w->is_whole = false;
	else if (!w->see(node, type, depth, w->arg))
		w->is_over = true;
	else if (type == CU_GRAPH_NODE_TYPE_GRAPH)
		walk_child(w, node, depth);
}

static void walk_graph(struct walk *w, CUgraph graph, unsigned depth)
{
	CUgraphNode *nodes = NULL;
	size_t count = 0;

	if (depth > DEPTH_MAX || real.cuGraphGetNodes(graph, NULL, &count) != CUDA_SUCCESS)
		goto out_part;
	if (count == 0)
		return;
	nodes = calloc(count, sizeof(CUgraphNode));
	if (!nodes || real.cuGraphGetNodes(graph, nodes, &count) != CUDA_SUCCESS)
		goto out_part;
	for (size_t i = 0; i < count && !w->is_over; i++)
		walk_node(w, nodes[i], depth);
	free(nodes);
	return;
out_part:
	free(nodes);
	w->is_whole = false;
}

bool graph_nodes_each(CUgraph graph, unsigned depth, graph_nodes_see *see, void *arg)
{
	struct walk w = { .see = see, .arg = arg, .is_whole = true };

	if (!real.cuGraphGetNodes || !real.cuGraphNodeGetType)
		return false;
	walk_graph(&w, graph, depth);
	return w.is_whole && !w.is_over;
}

CUDA_KERNEL_NODE_PARAMS graph_nodes_widen(const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
	return (CUDA_KERNEL_NODE_PARAMS){ .func = p->func,
					  .gridDimX = p->gridDimX,
					  .gridDimY = p->gridDimY,
					  .gridDimZ = p->gridDimZ,
					  .kernelParams = p->kernelParams,
					  .extra = p->extra };
}

bool graph_nodes_kernel(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *out_params)
{
	CUDA_KERNEL_NODE_PARAMS_v1 old;

	if (real.cuGraphKernelNodeGetParams_v2)
		return real.cuGraphKernelNodeGetParams_v2(node, out_params) == CUDA_SUCCESS;
	if (!real.cuGraphKernelNodeGetParams ||
	    real.cuGraphKernelNodeGetParams(node, &old) != CUDA_SUCCESS)
		return false;
	*out_params = graph_nodes_widen(&old);
	return true;
}
