#include <stdbool.h>

#include "cuda_area.h"
#include "cuda_call.h"
#include "cuda_context.h"
#include "cuda_copy.h"
#include "cuda_graph.h"
#include "cuda_graph_child.h"
#include "cuda_launch.h"
#include "cuda_object.h"
#include "cuda_work.h"

/* Starts a call about a graph that exists. */
static CUresult begin(enum cuda_id id, CUgraph graph)
{
	CUresult res = cuda_call_begin(id);

	if (res != CUDA_SUCCESS)
		return res;
	if (!cuda_object_is(OBJECT_GRAPH, graph))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	return CUDA_SUCCESS;
}

CUresult cuGraphCreate(CUgraph *out_graph, unsigned int flags)
{
	CUresult res = cuda_call_begin(CUDA_ID_cuGraphCreate);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_graph || flags)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	*out_graph = cuda_graph_new();
	return cuda_call_end(*out_graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuGraphDestroy(CUgraph graph)
{
	CUresult res = begin(CUDA_ID_cuGraphDestroy, graph);

	if (res != CUDA_SUCCESS)
		return res;
	if (graph->is_captured_into || graph->is_child)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	cuda_graph_delete(graph);
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuGraphClone(CUgraph *out_clone, CUgraph graph)
{
	CUresult res = begin(CUDA_ID_cuGraphClone, graph);
	struct CUgraph_st *clone;

	if (res != CUDA_SUCCESS)
		return res;
	if (graph->has_memory)
		return cuda_call_end(CUDA_ERROR_NOT_SUPPORTED);
	if (!out_clone)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	clone = cuda_graph_copy(graph);
	if (!clone)
		return cuda_call_end(CUDA_ERROR_OUT_OF_MEMORY);
	*out_clone = clone;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuda_graph_begin_add(enum cuda_id id, CUgraphNode *out_node, CUgraph graph,
			      const CUgraphNode *dependencies, size_t count)
{
	CUresult res = begin(id, graph);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_node || (count && !dependencies))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	for (size_t i = 0; i < count; i++)
		if (!cuda_object_is(OBJECT_GRAPH_NODE, dependencies[i]) ||
		    dependencies[i]->graph != graph)
			return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	return CUDA_SUCCESS;
}

CUresult cuGraphAddEmptyNode(CUgraphNode *out_node, CUgraph graph, const CUgraphNode *dependencies,
			     size_t count)
{
	CUresult res = cuda_graph_begin_add(CUDA_ID_cuGraphAddEmptyNode, out_node, graph,
					    dependencies, count);

	return res == CUDA_SUCCESS ? cuda_call_end(cuda_graph_add(graph, NULL, out_node)) : res;
}

CUresult cuda_graph_kernel_work(const CUDA_KERNEL_NODE_PARAMS *p, struct cuda_work **out_work)
{
	struct cuda_launch l;
	struct CUctx_st *ctx;
	CUresult res = cuda_context_current(&ctx);

	if (res != CUDA_SUCCESS)
		return res;
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	/* of a kernel; a function has its own */
	if (!p->func && p->ctx) {
		ctx = p->ctx;
		res = cuda_context_resolve(&ctx);
	}
	if (res != CUDA_SUCCESS)
		return res;
	l = (struct cuda_launch){ .func = p->func ? p->func : (CUfunction)p->kern,
				  .grid = { p->gridDimX, p->gridDimY, p->gridDimZ },
				  .block = { p->blockDimX, p->blockDimY, p->blockDimZ },
				  .shared_bytes = p->sharedMemBytes,
				  .params = p->kernelParams,
				  .extra = p->extra };
	return cuda_launch_work(&l, ctx, out_work);
}

CUDA_KERNEL_NODE_PARAMS cuda_graph_widen(const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
	return (CUDA_KERNEL_NODE_PARAMS){ .func = p->func,
					  .gridDimX = p->gridDimX,
					  .gridDimY = p->gridDimY,
					  .gridDimZ = p->gridDimZ,
					  .blockDimX = p->blockDimX,
					  .blockDimY = p->blockDimY,
					  .blockDimZ = p->blockDimZ,
					  .sharedMemBytes = p->sharedMemBytes,
					  .kernelParams = p->kernelParams,
					  .extra = p->extra };
}

static CUresult add_kernel(CUgraph graph, const CUDA_KERNEL_NODE_PARAMS *p, CUgraphNode *out_node)
{
	struct cuda_work *work;
	CUresult res = cuda_graph_kernel_work(p, &work);

	return res == CUDA_SUCCESS ? cuda_graph_add(graph, work, out_node) : res;
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *out_node, CUgraph graph,
				 const CUgraphNode *dependencies, size_t count,
				 const CUDA_KERNEL_NODE_PARAMS *p)
{
	CUresult res = cuda_graph_begin_add(CUDA_ID_cuGraphAddKernelNode_v2, out_node, graph,
					    dependencies, count);

	return res == CUDA_SUCCESS ? cuda_call_end(add_kernel(graph, p, out_node)) : res;
}

CUresult cuGraphAddKernelNode(CUgraphNode *out_node, CUgraph graph, const CUgraphNode *dependencies,
			      size_t count, const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
	CUresult res = cuda_graph_begin_add(CUDA_ID_cuGraphAddKernelNode, out_node, graph,
					    dependencies, count);
	CUDA_KERNEL_NODE_PARAMS wide;

	if (res != CUDA_SUCCESS)
		return res;
	if (!p)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	wide = cuda_graph_widen(p);
	return cuda_call_end(add_kernel(graph, &wide, out_node));
}

/* The parameters' addresses are good as long as the node has them. */
static CUresult kernel_params(enum cuda_id id, CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *out)
{
	CUresult res = cuda_call_begin(id);
	struct cuda_work *w;

	if (res != CUDA_SUCCESS)
		return res;
	if (!cuda_object_is(OBJECT_GRAPH_NODE, node) || !node->work ||
	    node->work->ops->node_type != CU_GRAPH_NODE_TYPE_KERNEL)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	w = node->work;
	for (int i = 0; i < WORK_PARAMS; i++)
		w->launch.param_at[i] = &w->launch.param[i];
	*out = (CUDA_KERNEL_NODE_PARAMS){ .gridDimX = w->launch.grid[0],
					  .gridDimY = w->launch.grid[1],
					  .gridDimZ = w->launch.grid[2],
					  .blockDimX = w->launch.block[0],
					  .blockDimY = w->launch.block[1],
					  .blockDimZ = w->launch.block[2],
					  .sharedMemBytes = w->launch.shared_bytes,
					  .kernelParams = w->launch.param_at };
	if (cuda_object_is(OBJECT_KERNEL, w->launch.func)) {
		out->kern = (CUkernel)w->launch.func;
		out->ctx = w->launch.ctx;
	} else {
		out->func = w->launch.func;
	}
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *out_params)
{
	CUDA_KERNEL_NODE_PARAMS params;
	CUresult res = kernel_params(CUDA_ID_cuGraphKernelNodeGetParams_v2, node, &params);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_params)
		return CUDA_ERROR_INVALID_VALUE;
	*out_params = params;
	return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *out_params)
{
	CUDA_KERNEL_NODE_PARAMS p;
	CUresult res = kernel_params(CUDA_ID_cuGraphKernelNodeGetParams, node, &p);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_params)
		return CUDA_ERROR_INVALID_VALUE;
	*out_params = (CUDA_KERNEL_NODE_PARAMS_v1){ .func = p.func ? p.func : (CUfunction)p.kern,
						    .gridDimX = p.gridDimX,
						    .gridDimY = p.gridDimY,
						    .gridDimZ = p.gridDimZ,
						    .blockDimX = p.blockDimX,
						    .blockDimY = p.blockDimY,
						    .blockDimZ = p.blockDimZ,
						    .sharedMemBytes = p.sharedMemBytes,
						    .kernelParams = p.kernelParams };
	return CUDA_SUCCESS;
}

/* Executable graphs that were made of it go on as they are. */
static CUresult set_kernel(enum cuda_id id, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *p)
{
	CUresult res = cuda_call_begin(id);
	struct cuda_work *work;

	if (res != CUDA_SUCCESS)
		return res;
	if (!cuda_object_is(OBJECT_GRAPH_NODE, node) || !node->work ||
	    node->work->ops->node_type != CU_GRAPH_NODE_TYPE_KERNEL)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	res = cuda_graph_kernel_work(p, &work);
	if (res == CUDA_SUCCESS) {
		cuda_work_delete(node->work);
		node->work = work;
	}
	return cuda_call_end(res);
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params)
{
	return set_kernel(CUDA_ID_cuGraphKernelNodeSetParams_v2, node, params);
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
	CUDA_KERNEL_NODE_PARAMS wide;

	if (!params)
		return set_kernel(CUDA_ID_cuGraphKernelNodeSetParams, node, NULL);
	wide = cuda_graph_widen(params);
	return set_kernel(CUDA_ID_cuGraphKernelNodeSetParams, node, &wide);
}

CUresult cuda_graph_add_copy(CUgraph graph, const CUDA_MEMCPY3D *copy, CUcontext ctx,
			     CUgraphNode *out_node)
{
	struct cuda_work *work;
	struct cuda_area area;
	CUresult res;

	res = copy ? cuda_context_resolve(&ctx) : CUDA_ERROR_INVALID_VALUE;
	if (res == CUDA_SUCCESS)
		res = cuda_copy_area(copy, ctx, &area);
	if (res == CUDA_SUCCESS && cuda_area_is_empty(&area))
		res = CUDA_ERROR_INVALID_VALUE;
	if (res != CUDA_SUCCESS)
		return res;
	work = cuda_area_copy_work(&area, false);
	return work ? cuda_graph_add(graph, work, out_node) : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *out_node, CUgraph graph, const CUgraphNode *dependencies,
			      size_t count, const CUDA_MEMCPY3D *copy, CUcontext ctx)
{
	CUresult res = cuda_graph_begin_add(CUDA_ID_cuGraphAddMemcpyNode, out_node, graph,
					    dependencies, count);

	return res == CUDA_SUCCESS ?
		       cuda_call_end(cuda_graph_add_copy(graph, copy, ctx, out_node)) :
		       res;
}

/* Starts a question about a copy's or fill's node; `out` is where the answer goes. */
static CUresult begin_area(enum cuda_id id, CUgraphNode node, CUgraphNodeType type, const void *out)
{
	CUresult res = cuda_call_begin(id);

	if (res != CUDA_SUCCESS)
		return res;
	if (!cuda_object_is(OBJECT_GRAPH_NODE, node) || !node->work ||
	    node->work->ops->node_type != type || !out)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	return CUDA_SUCCESS;
}

/* Addresses alone are kept of what the node was made of. */
CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *out_params)
{
	CUresult res = begin_area(CUDA_ID_cuGraphMemcpyNodeGetParams, node,
				  CU_GRAPH_NODE_TYPE_MEMCPY, out_params);
	const struct cuda_area *a;

	if (res != CUDA_SUCCESS)
		return res;
	a = &node->work->area;
	*out_params = (CUDA_MEMCPY3D){
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = a->src,
		.srcPitch = a->src_pitch_bytes,
		.srcHeight = a->src_pitch_bytes ? a->src_slice_bytes / a->src_pitch_bytes : 0,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = a->dst,
		.dstPitch = a->dst_pitch_bytes,
		.dstHeight = a->dst_pitch_bytes ? a->dst_slice_bytes / a->dst_pitch_bytes : 0,
		.WidthInBytes = a->width_bytes,
		.Height = a->height,
		.Depth = a->depth,
	};
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *out_params)
{
	CUresult res = begin_area(CUDA_ID_cuGraphMemsetNodeGetParams, node,
				  CU_GRAPH_NODE_TYPE_MEMSET, out_params);
	const struct cuda_area *a;

	if (res != CUDA_SUCCESS)
		return res;
	a = &node->work->area;
	*out_params = (CUDA_MEMSET_NODE_PARAMS){ .dst = a->dst,
						 .pitch = a->dst_pitch_bytes,
						 .value = a->value,
						 .elementSize = (unsigned)a->value_bytes,
						 .width = a->width_bytes / (uint64_t)a->value_bytes,
						 .height = a->height };
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuda_graph_fill_area(const CUDA_MEMSET_NODE_PARAMS *p, struct CUctx_st *ctx,
			      struct cuda_area *out_area)
{
	if ((p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4) || !p->width ||
	    !p->height || p->dst % p->elementSize ||
	    (p->height > 1 && p->pitch < p->width * p->elementSize))
		return CUDA_ERROR_INVALID_VALUE;
	*out_area = (struct cuda_area){ .dst = p->dst,
					.dst_pitch_bytes = p->pitch,
					.width_bytes = p->width * p->elementSize,
					.height = p->height,
					.depth = 1,
					.value = p->value,
					.value_bytes = (int)p->elementSize };
	return cuda_area_resolve_fill(out_area, ctx);
}

CUresult cuda_graph_add_fill(CUgraph graph, const CUDA_MEMSET_NODE_PARAMS *params, CUcontext ctx,
			     CUgraphNode *out_node)
{
	struct cuda_work *work;
	struct cuda_area area;
	CUresult res;

	res = params ? cuda_context_resolve(&ctx) : CUDA_ERROR_INVALID_VALUE;
	if (res == CUDA_SUCCESS)
		res = cuda_graph_fill_area(params, ctx, &area);
	if (res != CUDA_SUCCESS)
		return res;
	work = cuda_area_fill_work(&area);
	return work ? cuda_graph_add(graph, work, out_node) : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphAddMemsetNode(CUgraphNode *out_node, CUgraph graph, const CUgraphNode *dependencies,
			      size_t count, const CUDA_MEMSET_NODE_PARAMS *params, CUcontext ctx)
{
	CUresult res = cuda_graph_begin_add(CUDA_ID_cuGraphAddMemsetNode, out_node, graph,
					    dependencies, count);

	return res == CUDA_SUCCESS ?
		       cuda_call_end(cuda_graph_add_fill(graph, params, ctx, out_node)) :
		       res;
}

CUresult cuGraphAddHostNode(CUgraphNode *out_node, CUgraph graph, const CUgraphNode *dependencies,
			    size_t count, const CUDA_HOST_NODE_PARAMS *params)
{
	CUresult res = cuda_graph_begin_add(CUDA_ID_cuGraphAddHostNode, out_node, graph,
					    dependencies, count);
	struct cuda_work *work;

	if (res != CUDA_SUCCESS)
		return res;
	if (!params || !params->fn)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	work = cuda_host_work(params->fn, params->userData);
	return cuda_call_end(work ? cuda_graph_add(graph, work, out_node) :
				    CUDA_ERROR_OUT_OF_MEMORY);
}

/* With no room given, how many there are; places without a node become NULL. */
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *out_nodes, size_t *inout_count)
{
	CUresult res = begin(CUDA_ID_cuGraphGetNodes, graph);

	if (res != CUDA_SUCCESS)
		return res;
	if (!inout_count)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	for (size_t i = 0; out_nodes && i < *inout_count; i++)
		out_nodes[i] = i < (size_t)graph->count ? graph->node[i] : NULL;
	if (!out_nodes || *inout_count > (size_t)graph->count)
		*inout_count = (size_t)graph->count;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *out_type)
{
	CUresult res = cuda_call_begin(CUDA_ID_cuGraphNodeGetType);

	if (res != CUDA_SUCCESS)
		return res;
	if (!cuda_object_is(OBJECT_GRAPH_NODE, node) || !out_type)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	*out_type = node->work ? node->work->ops->node_type : CU_GRAPH_NODE_TYPE_EMPTY;
	return cuda_call_end(CUDA_SUCCESS);
}
