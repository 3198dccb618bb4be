/*
 * The CUDA driver API as Ration uses it: graphs, their nodes and executable graphs.
 *
 * Only what crosses the ABI is here: names, types, values. tests/lint/check-abi compares them with
 * NVIDIA's headers of several releases.
 */
#pragma once

#include "abi/cuda_struct.h"

/* Graphs. */
CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
				size_t count);
CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
				   const CUgraphEdgeData *edges, size_t count);
CUresult cuGraphClone(CUgraph *out_clone, CUgraph graph);
CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *out_handle, CUgraph graph,
					CUcontext ctx, unsigned int initial, unsigned int flags);
CUresult cuGraphCreate(CUgraph *out_graph, unsigned int flags);
CUresult cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned int flags);
CUresult cuGraphDestroy(CUgraph graph);
CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *inout_count);
CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
			    CUgraphEdgeData *edges, size_t *inout_count);
CUresult cuGraphGetId(CUgraph graph, unsigned int *out_id);
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *out_nodes, size_t *inout_count);
CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *out_root_nodes, size_t *inout_count);
CUresult cuGraphNodeFindInClone(CUgraphNode *out_node, CUgraphNode node, CUgraph clone);
CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
				   size_t count);
CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
				      const CUgraphEdgeData *edges, size_t count);

/* Executable graphs. */
CUresult cuGraphExecDestroy(CUgraphExec exec);
CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t *out_flags);
CUresult cuGraphExecGetId(CUgraphExec exec, unsigned int *out_id);
CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *out_error_node,
			   CUgraphExecUpdateResult *out_result);
CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph,
			      CUgraphExecUpdateResultInfo *out_result);
CUresult cuGraphInstantiate(CUgraphExec *out_exec, CUgraph graph, CUgraphNode *out_error_node,
			    char *log, size_t log_bytes);
__typeof__(cuGraphInstantiate) cuGraphInstantiate_v2;
CUresult cuGraphInstantiateWithFlags(CUgraphExec *out_exec, CUgraph graph,
				     unsigned long long flags);
CUresult cuGraphInstantiateWithParams(CUgraphExec *out_exec, CUgraph graph,
				      CUDA_GRAPH_INSTANTIATE_PARAMS *params);
__typeof__(cuGraphInstantiateWithParams) cuGraphInstantiateWithParams_ptsz;
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream);
__typeof__(cuGraphLaunch) cuGraphLaunch_ptsz;
CUresult cuGraphUpload(CUgraphExec exec, CUstream stream);
__typeof__(cuGraphUpload) cuGraphUpload_ptsz;

/* Nodes. */
CUresult cuGraphAddEmptyNode(CUgraphNode *out_node, CUgraph graph, const CUgraphNode *dependencies,
			     size_t count);
CUresult cuGraphAddNode(CUgraphNode *out_node, CUgraph graph, const CUgraphNode *dependencies,
			size_t count, CUgraphNodeParams *params);
CUresult cuGraphAddNode_v2(CUgraphNode *out_node, CUgraph graph, const CUgraphNode *dependencies,
			   const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params);
__typeof__(cuGraphAddNode_v2) cuGraphAddNode_v3;
CUresult cuGraphDestroyNode(CUgraphNode node);
CUresult cuGraphNodeGetContainingGraph(CUgraphNode node, CUgraph *out_graph);
CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *dependencies,
				    size_t *inout_count);
CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *dependencies,
				       CUgraphEdgeData *edges, size_t *inout_count);
CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *dependent_nodes,
				      size_t *inout_count);
CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *dependent_nodes,
					 CUgraphEdgeData *edges, size_t *inout_count);
CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int *out_enabled);
CUresult cuGraphNodeGetLocalId(CUgraphNode node, unsigned int *out_node_id);
CUresult cuGraphNodeGetParams(CUgraphNode node, CUgraphNodeParams *out_params);
CUresult cuGraphNodeGetToolsId(CUgraphNode node, unsigned long long *out_id);
CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *out_type);
CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int enabled);
CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *params);
__typeof__(cuGraphNodeSetParams) cuGraphNodeSetParams_v2;

/* Kernel nodes. */
CUresult cuGraphAddKernelNode(CUgraphNode *out_node, CUgraph graph, const CUgraphNode *dependencies,
			      size_t count, const CUDA_KERNEL_NODE_PARAMS_v1 *params);
CUresult cuGraphAddKernelNode_v2(CUgraphNode *out_node, CUgraph graph,
				 const CUgraphNode *dependencies, size_t count,
				 const CUDA_KERNEL_NODE_PARAMS *params);
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
					const CUDA_KERNEL_NODE_PARAMS_v1 *params);
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
					   const CUDA_KERNEL_NODE_PARAMS *params);
CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src);
CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID attr,
				       CUkernelNodeAttrValue *out_value);
CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *out_params);
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *out_params);
CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID attr,
				       const CUkernelNodeAttrValue *value);
CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params);
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params);

/* Copy and fill nodes. */
CUresult cuGraphAddMemcpyNode(CUgraphNode *out_node, CUgraph graph, const CUgraphNode *dependencies,
			      size_t count, const CUDA_MEMCPY3D *copy, CUcontext ctx);
CUresult cuGraphAddMemsetNode(CUgraphNode *out_node, CUgraph graph, const CUgraphNode *dependencies,
			      size_t count, const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext ctx);
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
					const CUDA_MEMCPY3D *copy, CUcontext ctx);
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
					const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext ctx);
CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *out_params);
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *params);
CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *out_params);
CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params);

/* Memory nodes. */
CUresult cuGraphAddMemAllocNode(CUgraphNode *out_node, CUgraph graph,
				const CUgraphNode *dependencies, size_t count,
				CUDA_MEM_ALLOC_NODE_PARAMS *params);
CUresult cuGraphAddMemFreeNode(CUgraphNode *out_node, CUgraph graph,
			       const CUgraphNode *dependencies, size_t count, CUdeviceptr addr);
CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *out_params);
CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *out_addr);

/* Host and child nodes. */
CUresult cuGraphAddChildGraphNode(CUgraphNode *out_node, CUgraph graph,
				  const CUgraphNode *dependencies, size_t count,
				  CUgraph child_graph);
CUresult cuGraphAddHostNode(CUgraphNode *out_node, CUgraph graph, const CUgraphNode *dependencies,
			    size_t count, const CUDA_HOST_NODE_PARAMS *params);
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *out_graph);
CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node,
					    CUgraph child_graph);
CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
				      const CUDA_HOST_NODE_PARAMS *params);
CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS *out_params);
CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS *params);

/* Event, semaphore and memory operation nodes. */
CUresult cuGraphAddBatchMemOpNode(CUgraphNode *out_node, CUgraph graph,
				  const CUgraphNode *dependencies, size_t count,
				  const CUDA_BATCH_MEM_OP_NODE_PARAMS *params);
CUresult cuGraphAddEventRecordNode(CUgraphNode *out_node, CUgraph graph,
				   const CUgraphNode *dependencies, size_t count, CUevent event);
CUresult cuGraphAddEventWaitNode(CUgraphNode *out_node, CUgraph graph,
				 const CUgraphNode *dependencies, size_t count, CUevent event);
CUresult cuGraphAddExternalSemaphoresSignalNode(CUgraphNode *out_node, CUgraph graph,
						const CUgraphNode *dependencies, size_t count,
						const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *params);
CUresult cuGraphAddExternalSemaphoresWaitNode(CUgraphNode *out_node, CUgraph graph,
					      const CUgraphNode *dependencies, size_t count,
					      const CUDA_EXT_SEM_WAIT_NODE_PARAMS *params);
CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode node,
					CUDA_BATCH_MEM_OP_NODE_PARAMS *out_params);
CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode node,
					const CUDA_BATCH_MEM_OP_NODE_PARAMS *params);
CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent *out_event);
CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event);
CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent *out_event);
CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event);
CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec exec, CUgraphNode node,
					    const CUDA_BATCH_MEM_OP_NODE_PARAMS *params);
CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event);
CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event);
CUresult
cuGraphExecExternalSemaphoresSignalNodeSetParams(CUgraphExec exec, CUgraphNode node,
						 const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *params);
CUresult
cuGraphExecExternalSemaphoresWaitNodeSetParams(CUgraphExec exec, CUgraphNode node,
					       const CUDA_EXT_SEM_WAIT_NODE_PARAMS *params);
CUresult cuGraphExternalSemaphoresSignalNodeGetParams(CUgraphNode node,
						      CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *out_params);
CUresult
cuGraphExternalSemaphoresSignalNodeSetParams(CUgraphNode node,
					     const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *params);
CUresult cuGraphExternalSemaphoresWaitNodeGetParams(CUgraphNode node,
						    CUDA_EXT_SEM_WAIT_NODE_PARAMS *out_params);
CUresult cuGraphExternalSemaphoresWaitNodeSetParams(CUgraphNode node,
						    const CUDA_EXT_SEM_WAIT_NODE_PARAMS *params);

/* Change of nodes in executable graphs. */
CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params);
