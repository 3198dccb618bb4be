#include "hook/graph_local.h"

#include "hook/again.h"
#include "hook/first_launch.h"
#include "hook/gated.h"

#include <stdlib.h>

enum { GRAPH_DEPTH_MAX = 32 };

/* What a function or kernel needs beyond what any context has. */
static uint32_t bytes_of(CUfunction func, CUkernel kernel)
{
	CUfunction handle = func ? func : (CUfunction)(void *)kernel;
	uint32_t bytes;

	if (!handle || !first_launch_thread_bytes(handle, &bytes))
		return 0;
	return bytes > LOCAL_STACK_BYTES ? bytes : 0;
}

static uint32_t node_bytes(CUgraphNode node)
{
	CUDA_KERNEL_NODE_PARAMS_v1 old;
	CUDA_KERNEL_NODE_PARAMS p;

	if (real.cuGraphKernelNodeGetParams_v2)
		return real.cuGraphKernelNodeGetParams_v2(node, &p) == CUDA_SUCCESS ?
			       bytes_of(p.func, p.kern) :
			       0;
	return real.cuGraphKernelNodeGetParams &&
			       real.cuGraphKernelNodeGetParams(node, &old) == CUDA_SUCCESS ?
		       bytes_of(old.func, NULL) :
		       0;
}

static uint32_t most_of(CUgraph graph, int depth);

static uint32_t most_of_node(CUgraphNode node, int depth)
{
	CUgraphNodeType type;
	CUgraph child;

	if (real.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS)
		return 0;
	if (type == CU_GRAPH_NODE_TYPE_KERNEL)
		return node_bytes(node);
	if (type == CU_GRAPH_NODE_TYPE_GRAPH && real.cuGraphChildGraphNodeGetGraph &&
	    real.cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS)
		return most_of(child, depth + 1);
	return 0;
}

static uint32_t most_of(CUgraph graph, int depth)
{
	CUgraphNode *nodes;
	uint32_t most = 0;
	size_t count = 0;

	if (depth > GRAPH_DEPTH_MAX || real.cuGraphGetNodes(graph, NULL, &count) != CUDA_SUCCESS ||
	    count == 0)
		return 0;
	nodes = calloc(count, sizeof(CUgraphNode));
	if (!nodes)
		return 0;
	if (real.cuGraphGetNodes(graph, nodes, &count) != CUDA_SUCCESS)
		count = 0;
	for (size_t i = 0; i < count; i++) {
		uint32_t bytes = most_of_node(nodes[i], depth);

		most = bytes > most ? bytes : most;
	}
	free(nodes);
	return most;
}

/* False while no function is known that needs more than any context has. */
static bool is_possible(void)
{
	return init_is_member() && (function_any() || function_most() > LOCAL_STACK_BYTES);
}

uint32_t graph_local_bytes(CUgraph graph)
{
	if (!is_possible() || !real.cuGraphGetNodes || !real.cuGraphNodeGetType)
		return 0;
	return most_of(graph, 0);
}

void graph_local_raise(CUgraphExec exec, uint32_t thread_bytes)
{
	uint32_t was;

	if (thread_bytes == 0 || !exec ||
	    (function_thread_bytes(exec, &was) && was >= thread_bytes))
		return;
	function_enter(exec, FUNCTION_GRAPH, NULL);
	again_void();
	local_tell(exec, NULL, thread_bytes);
}

void graph_local_end(CUgraphExec exec)
{
	if (function_most() > LOCAL_STACK_BYTES)
		function_end(exec);
}

CUresult graph_local_begin(struct local_growth *growth, CUgraphExec exec)
{
	uint32_t bytes;

	*growth = (struct local_growth){ .is_growing = false };
	if (!function_any() || !function_thread_bytes(exec, &bytes))
		return CUDA_SUCCESS;
	return first_launch_reserve(growth, bytes, exec);
}

/* What an executable graph needs once the call has changed it, found before the call. */
#define CHANGE(sym, bytes, ...)                          \
	CUresult hook_##sym(GATED_PARAMS(__VA_ARGS__))   \
	{                                                \
		uint32_t was_in;                         \
		CUresult res;                            \
                                                         \
		if (!ENTER_HAS(sym))                     \
			return enter_missing();          \
		was_in = gate_enter();                   \
		if (is_possible())                       \
			graph_local_raise(a, bytes);     \
		res = real.sym(GATED_ARGS(__VA_ARGS__)); \
		gate_leave(was_in);                      \
		return res;                              \
	}

static uint32_t params_bytes(const CUgraphNodeParams *params)
{
	return params && params->type == CU_GRAPH_NODE_TYPE_KERNEL ?
		       bytes_of(params->kernel.func, params->kernel.kern) :
		       0;
}

CHANGE(cuGraphExecUpdate, graph_local_bytes(b), CUgraphExec, CUgraph, CUgraphNode *,
       CUgraphExecUpdateResult *)
CHANGE(cuGraphExecUpdate_v2, graph_local_bytes(b), CUgraphExec, CUgraph,
       CUgraphExecUpdateResultInfo *)
CHANGE(cuGraphExecChildGraphNodeSetParams, graph_local_bytes(c), CUgraphExec, CUgraphNode, CUgraph)
CHANGE(cuGraphExecNodeSetParams, params_bytes(c), CUgraphExec, CUgraphNode, CUgraphNodeParams *)
CHANGE(cuGraphExecKernelNodeSetParams, c ? bytes_of(c->func, NULL) : 0, CUgraphExec, CUgraphNode,
       const CUDA_KERNEL_NODE_PARAMS_v1 *)
CHANGE(cuGraphExecKernelNodeSetParams_v2, c ? bytes_of(c->func, c->kern) : 0, CUgraphExec,
       CUgraphNode, const CUDA_KERNEL_NODE_PARAMS *)
