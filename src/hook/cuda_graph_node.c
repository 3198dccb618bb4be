/*
 * Nodes that hold device addresses pass the gate when they are made, changed, copied and ended.
 * What also may change the local memory of a graph stands in hook/graph_local.c.
 */
#include "hook/crossing.h"
#include "hook/first_launch.h"
#include "hook/gated.h"
#include "hook/graph_uses.h"

/* What a node runs: in the current context, but for a kernel that names another. */
struct node_kernel {
	CUfunction handle;
	CUcontext ctx; /* NULL: in the current one */
};

/*
 * As GATED() for a node that may run a kernel, `kernel` of the parameters a, b, c...: its library
 * comes to the context with it.
 */
#define WITH_KERNEL(sym, ...) WITH_KERNEL_AS(CUresult hook_##sym, sym, __VA_ARGS__)

#define WITH_KERNEL_AS(head, sym, kernel, ...)                       \
	head(GATED_PARAMS(__VA_ARGS__))                              \
	{                                                            \
		struct node_kernel k = (kernel);                     \
		CUresult res;                                        \
                                                                     \
		if (!ENTER_HAS(sym))                                 \
			return enter_missing();                      \
		res = first_launch_let_in_at(k.handle, k.ctx);       \
		if (res != CUDA_SUCCESS)                             \
			return res;                                  \
		return GATE_CALL(real.sym(GATED_ARGS(__VA_ARGS__))); \
	}

/*
 * Where a copy's node can be done by one context, *inout_ctx is that; what is far of it
 * (hook/peer.h) may be all of one device. False where it takes two.
 */
static bool is_of_one(const CUDA_MEMCPY3D *copy, CUcontext *inout_ctx, CUDA_MEMCPY3D_PEER *out_far)
{
	CUDA_MEMCPY3D_PEER again;
	CUcontext home;

	if (!peer_crosses_in(copy, *inout_ctx, out_far))
		return true;
	home = out_far->dstMemoryType == CU_MEMORYTYPE_DEVICE ? out_far->dstContext :
								out_far->srcContext;
	if (peer_crosses_in(copy, home, &again))
		return false;
	*inout_ctx = home;
	return true;
}

static CUcontext fill_context(const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext ctx)
{
	CUcontext home;

	return fill && peer_is_far_in(fill->dst, ctx, &home) ? home : ctx;
}

CUresult hook_cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
					     const CUDA_MEMCPY3D *copy, CUcontext ctx)
{
	CUDA_MEMCPY3D_PEER far;
	CUresult res;

	if (!ENTER_HAS(cuGraphExecMemcpyNodeSetParams))
		return enter_missing();
	if (!is_of_one(copy, &ctx, &far))
		return CUDA_ERROR_NOT_SUPPORTED;
	res = GATE_CALL(real.cuGraphExecMemcpyNodeSetParams(exec, node, copy, ctx));
	if (res == CUDA_SUCCESS)
		graph_uses_copy(exec, node, copy);
	return res;
}

CUresult hook_cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
					     const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext ctx)
{
	CUresult res;

	if (!ENTER_HAS(cuGraphExecMemsetNodeSetParams))
		return enter_missing();
	ctx = fill_context(fill, ctx);
	res = GATE_CALL(real.cuGraphExecMemsetNodeSetParams(exec, node, fill, ctx));
	if (res == CUDA_SUCCESS)
		graph_uses_fill(exec, node, fill);
	return res;
}

CUresult hook_cuGraphAddMemcpyNode(CUgraphNode *out_node, CUgraph graph,
				   const CUgraphNode *dependencies, size_t count,
				   const CUDA_MEMCPY3D *copy, CUcontext ctx)
{
	CUDA_MEMCPY3D_PEER far;

	if (!ENTER_HAS(cuGraphAddMemcpyNode))
		return enter_missing();
	if (!is_of_one(copy, &ctx, &far))
		return crossing_add_copy(out_node, graph, dependencies, NULL, count, &far, ctx);
	return GATE_CALL(
		real.cuGraphAddMemcpyNode(out_node, graph, dependencies, count, copy, ctx));
}

CUresult hook_cuGraphAddMemsetNode(CUgraphNode *out_node, CUgraph graph,
				   const CUgraphNode *dependencies, size_t count,
				   const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext ctx)
{
	if (!ENTER_HAS(cuGraphAddMemsetNode))
		return enter_missing();
	ctx = fill_context(fill, ctx);
	return GATE_CALL(
		real.cuGraphAddMemsetNode(out_node, graph, dependencies, count, fill, ctx));
}

static struct node_kernel kernel_of_v1(const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
	return (struct node_kernel){ .handle = p ? p->func : NULL };
}

static struct node_kernel either(CUfunction func, CUkernel kernel, CUcontext ctx)
{
	if (func)
		return (struct node_kernel){ .handle = func };
	return (struct node_kernel){ (CUfunction)(void *)kernel, ctx };
}

static struct node_kernel kernel_of(const CUDA_KERNEL_NODE_PARAMS *p)
{
	return p ? either(p->func, p->kern, p->ctx) : (struct node_kernel){ .handle = NULL };
}

static struct node_kernel kernel_of_any(const CUgraphNodeParams *p)
{
	if (!p || p->type != CU_GRAPH_NODE_TYPE_KERNEL)
		return (struct node_kernel){ .handle = NULL };
	return either(p->kernel.func, p->kernel.kern, p->kernel.ctx);
}

/* A node with its fill or copy in the context that reaches its memory (hook/peer.h). */
static void place_node(CUgraphNodeParams *inout_params)
{
	CUDA_MEMSET_NODE_PARAMS_v2 *fill = &inout_params->memset;
	CUDA_MEMCPY3D_PEER far;
	CUcontext home;

	if (inout_params->type == CU_GRAPH_NODE_TYPE_MEMSET &&
	    peer_is_far_in(fill->dst, fill->ctx, &home))
		fill->ctx = home;
	else if (inout_params->type == CU_GRAPH_NODE_TYPE_MEMCPY)
		is_of_one(&inout_params->memcpy.copyParams, &inout_params->memcpy.copyCtx, &far);
}

static bool is_of_two(const CUgraphNodeParams *p, CUDA_MEMCPY3D_PEER *out_far)
{
	CUcontext ctx;

	if (!p || p->type != CU_GRAPH_NODE_TYPE_MEMCPY)
		return false;
	ctx = p->memcpy.copyCtx;
	return !is_of_one(&p->memcpy.copyParams, &ctx, out_far);
}

static bool is_placed(const CUgraphNodeParams *p)
{
	return device_ordinals() > 1 && movable_is_on() && p &&
	       (p->type == CU_GRAPH_NODE_TYPE_MEMCPY || p->type == CU_GRAPH_NODE_TYPE_MEMSET);
}

/* near_<sym>, and the hook; `params` are the node's, `edges` those to what it follows. */
#define ADD_NODE(sym, edges, count, params, ...)                                            \
	WITH_KERNEL_AS(static CUresult near_##sym, sym, kernel_of_any(params), __VA_ARGS__) \
	CUresult hook_##sym(GATED_PARAMS(__VA_ARGS__))                                      \
	{                                                                                   \
		CUDA_MEMCPY3D_PEER far;                                                     \
		CUgraphNodeParams placed;                                                   \
                                                                                            \
		if (!real.sym || !is_placed(params))                                        \
			return near_##sym(GATED_ARGS(__VA_ARGS__));                         \
		if (is_of_two(params, &far))                                                \
			return crossing_add_copy(a, b, c, edges, count, &far,               \
						 params->memcpy.copyCtx);                   \
		placed = *params;                                                           \
		place_node(&placed);                                                        \
		params = &placed;                                                           \
		return near_##sym(GATED_ARGS(__VA_ARGS__));                                 \
	}

ADD_NODE(cuGraphAddNode, NULL, d, e, CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
	 CUgraphNodeParams *)
ADD_NODE(cuGraphAddNode_v2, d, e, f, CUgraphNode *, CUgraph, const CUgraphNode *,
	 const CUgraphEdgeData *, size_t, CUgraphNodeParams *)
ADD_NODE(cuGraphAddNode_v3, d, e, f, CUgraphNode *, CUgraph, const CUgraphNode *,
	 const CUgraphEdgeData *, size_t, CUgraphNodeParams *)
WITH_KERNEL(cuGraphNodeSetParams, kernel_of_any(b), CUgraphNode, CUgraphNodeParams *)
GATED(cuGraphMemcpyNodeSetParams, CUgraphNode, const CUDA_MEMCPY3D *)
GATED(cuGraphMemsetNodeSetParams, CUgraphNode, const CUDA_MEMSET_NODE_PARAMS *)
GATED(cuGraphAddBatchMemOpNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
      const CUDA_BATCH_MEM_OP_NODE_PARAMS *)
GATED(cuGraphBatchMemOpNodeSetParams, CUgraphNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS *)
GATED(cuGraphExecBatchMemOpNodeSetParams, CUgraphExec, CUgraphNode,
      const CUDA_BATCH_MEM_OP_NODE_PARAMS *)
WITH_KERNEL(cuGraphNodeSetParams_v2, kernel_of_any(b), CUgraphNode, CUgraphNodeParams *)
GATED(cuGraphClone, CUgraph *, CUgraph)
GATED(cuGraphDestroy, CUgraph)
GATED(cuGraphDestroyNode, CUgraphNode)
GATED(cuGraphAddChildGraphNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUgraph)
WITH_KERNEL(cuGraphAddKernelNode, kernel_of_v1(e), CUgraphNode *, CUgraph, const CUgraphNode *,
	    size_t, const CUDA_KERNEL_NODE_PARAMS_v1 *)
WITH_KERNEL(cuGraphAddKernelNode_v2, kernel_of(e), CUgraphNode *, CUgraph, const CUgraphNode *,
	    size_t, const CUDA_KERNEL_NODE_PARAMS *)
WITH_KERNEL(cuGraphKernelNodeSetParams, kernel_of_v1(b), CUgraphNode,
	    const CUDA_KERNEL_NODE_PARAMS_v1 *)
WITH_KERNEL(cuGraphKernelNodeSetParams_v2, kernel_of(b), CUgraphNode,
	    const CUDA_KERNEL_NODE_PARAMS *)
GATED(cuGraphAddMemAllocNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
      CUDA_MEM_ALLOC_NODE_PARAMS *)
GATED(cuGraphAddMemFreeNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUdeviceptr)
