/*
 * Nodes that hold device addresses pass the gate when they are made, changed, copied and ended.
 * What also may change the local memory of a graph stands in hook/graph_local.c.
 */
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
#define WITH_KERNEL(sym, kernel, ...)                                \
	CUresult hook_##sym(GATED_PARAMS(__VA_ARGS__))               \
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

/* As GATED() for a change of the executable graph a; `then` follows from it if it was made. */
#define CHANGE(sym, then, ...)                                      \
	CUresult hook_##sym(GATED_PARAMS(__VA_ARGS__))              \
	{                                                           \
		CUresult res;                                       \
                                                                    \
		if (!ENTER_HAS(sym))                                \
			return enter_missing();                     \
		res = GATE_CALL(real.sym(GATED_ARGS(__VA_ARGS__))); \
		if (res == CUDA_SUCCESS)                            \
			then;                                       \
		return res;                                         \
	}

CHANGE(cuGraphExecMemcpyNodeSetParams, graph_uses_copy(a, b, c), CUgraphExec, CUgraphNode,
       const CUDA_MEMCPY3D *, CUcontext)
CHANGE(cuGraphExecMemsetNodeSetParams, graph_uses_fill(a, b, c), CUgraphExec, CUgraphNode,
       const CUDA_MEMSET_NODE_PARAMS *, CUcontext)

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

WITH_KERNEL(cuGraphAddNode, kernel_of_any(e), CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
	    CUgraphNodeParams *)
WITH_KERNEL(cuGraphAddNode_v2, kernel_of_any(f), CUgraphNode *, CUgraph, const CUgraphNode *,
	    const CUgraphEdgeData *, size_t, CUgraphNodeParams *)
WITH_KERNEL(cuGraphAddNode_v3, kernel_of_any(f), CUgraphNode *, CUgraph, const CUgraphNode *,
	    const CUgraphEdgeData *, size_t, CUgraphNodeParams *)
WITH_KERNEL(cuGraphNodeSetParams, kernel_of_any(b), CUgraphNode, CUgraphNodeParams *)
GATED(cuGraphAddMemcpyNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
      const CUDA_MEMCPY3D *, CUcontext)
GATED(cuGraphAddMemsetNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
      const CUDA_MEMSET_NODE_PARAMS *, CUcontext)
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
