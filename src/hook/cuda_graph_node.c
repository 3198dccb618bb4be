/*
 * Nodes that hold device addresses pass the gate when they are made, changed, copied and ended.
 * What also may change the local memory of a graph stands in hook/graph_local.c.
 */
#include "hook/gated.h"

GATED(cuGraphAddNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUgraphNodeParams *)
GATED(cuGraphAddNode_v2, CUgraphNode *, CUgraph, const CUgraphNode *, const CUgraphEdgeData *,
      size_t, CUgraphNodeParams *)
GATED(cuGraphAddNode_v3, CUgraphNode *, CUgraph, const CUgraphNode *, const CUgraphEdgeData *,
      size_t, CUgraphNodeParams *)
GATED(cuGraphNodeSetParams, CUgraphNode, CUgraphNodeParams *)
GATED(cuGraphAddMemcpyNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
      const CUDA_MEMCPY3D *, CUcontext)
GATED(cuGraphAddMemsetNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
      const CUDA_MEMSET_NODE_PARAMS *, CUcontext)
GATED(cuGraphExecMemcpyNodeSetParams, CUgraphExec, CUgraphNode, const CUDA_MEMCPY3D *, CUcontext)
GATED(cuGraphExecMemsetNodeSetParams, CUgraphExec, CUgraphNode, const CUDA_MEMSET_NODE_PARAMS *,
      CUcontext)
GATED(cuGraphMemcpyNodeSetParams, CUgraphNode, const CUDA_MEMCPY3D *)
GATED(cuGraphMemsetNodeSetParams, CUgraphNode, const CUDA_MEMSET_NODE_PARAMS *)
GATED(cuGraphAddBatchMemOpNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
      const CUDA_BATCH_MEM_OP_NODE_PARAMS *)
GATED(cuGraphBatchMemOpNodeSetParams, CUgraphNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS *)
GATED(cuGraphExecBatchMemOpNodeSetParams, CUgraphExec, CUgraphNode,
      const CUDA_BATCH_MEM_OP_NODE_PARAMS *)
GATED(cuGraphNodeSetParams_v2, CUgraphNode, CUgraphNodeParams *)
GATED(cuGraphClone, CUgraph *, CUgraph)
GATED(cuGraphDestroy, CUgraph)
GATED(cuGraphDestroyNode, CUgraphNode)
GATED(cuGraphAddChildGraphNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUgraph)
GATED(cuGraphAddKernelNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
      const CUDA_KERNEL_NODE_PARAMS_v1 *)
GATED(cuGraphAddKernelNode_v2, CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
      const CUDA_KERNEL_NODE_PARAMS *)
GATED(cuGraphKernelNodeSetParams, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v1 *)
GATED(cuGraphKernelNodeSetParams_v2, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS *)
GATED(cuGraphAddMemAllocNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
      CUDA_MEM_ALLOC_NODE_PARAMS *)
GATED(cuGraphAddMemFreeNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUdeviceptr)
