#include <stdbool.h>
#include <string.h>

#include "cuda_area.h"
#include "cuda_call.h"
#include "cuda_context.h"
#include "cuda_copy.h"
#include "cuda_graph.h"
#include "cuda_graph_child.h"
#include "cuda_graph_memory.h"
#include "cuda_limit.h"
#include "cuda_object.h"
#include "cuda_work.h"

/* May the new operands take the place of the old ones? Not when what is behind them has changed. */
static bool has_same_mapping(const struct cuda_area *old, const struct cuda_area *new)
{
	return old->dst_mapping == new->dst_mapping && old->src_mapping == new->src_mapping &&
	       old->dst_ctx == new->dst_ctx;
}

static bool is_area(const struct cuda_work *work)
{
	return work->ops->node_type == CU_GRAPH_NODE_TYPE_MEMCPY ||
	       work->ops->node_type == CU_GRAPH_NODE_TYPE_MEMSET;
}

/* Areas as they would be resolved now: memory may have been mapped anew since the node was made. */
static CUresult resolve_again(struct cuda_work *work)
{
	struct cuda_area *a = &work->area;

	if (!is_area(work))
		return CUDA_SUCCESS;
	if (work->ops->node_type == CU_GRAPH_NODE_TYPE_MEMSET)
		return cuda_area_resolve_fill(a, a->dst_ctx);
	return cuda_area_resolve(a, a->dst_ctx, SIDE_ANY, SIDE_ANY);
}

static CUgraphExecUpdateResult compare(const struct cuda_program *old, struct cuda_program *new,
				       int *out_at)
{
	*out_at = -1;
	if (cuda_graph_memory_is_in(old) || cuda_graph_memory_is_in(new))
		return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
	if (old->count != new->count)
		return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
	for (int i = 0; i < old->count; i++) {
		*out_at = i;
		if (old->work[i]->ops->node_type != new->work[i]->ops->node_type)
			return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
		if (resolve_again(new->work[i]) != CUDA_SUCCESS)
			return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
		/* What is mapped there may be other memory by now, of another place too. */
		if (is_area(old->work[i]) &&
		    old->work[i]->area.dst_ctx != new->work[i]->area.dst_ctx)
			return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
	}
	return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

static CUresult update(enum cuda_id id, CUgraphExec exec, CUgraph graph, CUgraphNode *out_node,
		       CUgraphExecUpdateResult *out_result)
{
	CUresult res = cuda_call_begin(id);
	struct cuda_program *program;
	int at;

	if (res != CUDA_SUCCESS)
		return res;
	if (!cuda_object_is(OBJECT_GRAPH_EXEC, exec) || !cuda_object_is(OBJECT_GRAPH, graph))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	program = cuda_program_new(graph);
	if (!program)
		return cuda_call_end(CUDA_ERROR_OUT_OF_MEMORY);
	*out_result = compare(exec->program, program, &at);
	*out_node = NULL;
	if (*out_result != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
		if (at >= 0)
			*out_node = (CUgraphNode)program->node[at];
		cuda_program_put(program);
		return cuda_call_end(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	}
	res = cuda_program_grow(program);
	if (res != CUDA_SUCCESS) {
		cuda_program_put(program);
		return cuda_call_end(res);
	}
	/* its nodes are known by the handles of the graph it was first made of */
	memcpy(program->node, exec->program->node, (size_t)program->count * sizeof(*program->node));
	cuda_program_put(exec->program);
	exec->program = program;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *out_error_node,
			   CUgraphExecUpdateResult *out_result)
{
	CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_ERROR;
	CUgraphNode node = NULL;
	CUresult res = update(CUDA_ID_cuGraphExecUpdate, exec, graph, &node, &result);

	if (out_error_node)
		*out_error_node = node;
	if (out_result)
		*out_result = result;
	return res;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph,
			      CUgraphExecUpdateResultInfo *out_result)
{
	CUgraphExecUpdateResultInfo info = { .result = CU_GRAPH_EXEC_UPDATE_ERROR };
	CUresult res = update(CUDA_ID_cuGraphExecUpdate_v2, exec, graph, &info.errorNode,
			      &info.result);

	if (out_result)
		*out_result = info;
	return res;
}

/* Starts a change of the node of an executable graph that came from `node`. */
static CUresult begin(enum cuda_id id, CUgraphExec exec, CUgraphNode node, CUgraphNodeType type,
		      int *out_at)
{
	CUresult res = cuda_call_begin(id);

	if (res != CUDA_SUCCESS)
		return res;
	if (!cuda_object_is(OBJECT_GRAPH_EXEC, exec))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	for (int i = 0; i < exec->program->count; i++) {
		if (exec->program->node[i] != node)
			continue;
		if (exec->program->work[i]->ops->node_type != type)
			break;
		*out_at = i;
		return CUDA_SUCCESS;
	}
	return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
}

/* Puts work in the place of a node's; owns it, also on failure. */
static CUresult replace(CUgraphExec exec, int at, struct cuda_work *work)
{
	struct cuda_program *program = cuda_program_copy(exec->program);

	if (!program) {
		cuda_work_delete(work);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	cuda_work_delete(program->work[at]);
	program->work[at] = work;
	cuda_program_put(exec->program);
	exec->program = program;
	return CUDA_SUCCESS;
}

static CUresult set_kernel(enum cuda_id id, CUgraphExec exec, CUgraphNode node,
			   const CUDA_KERNEL_NODE_PARAMS *params)
{
	struct cuda_work *work;
	struct CUctx_st *ctx;
	int at = 0;
	CUresult res = begin(id, exec, node, CU_GRAPH_NODE_TYPE_KERNEL, &at);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuda_graph_kernel_work(params, &work);
	if (res != CUDA_SUCCESS)
		return cuda_call_end(res);
	/* there is one: it made the work */
	res = cuda_context_current(&ctx);
	if (res == CUDA_SUCCESS)
		res = cuda_limit_grow(ctx, work->launch.local_bytes, work->launch.calls);
	if (res == CUDA_SUCCESS)
		return cuda_call_end(replace(exec, at, work));
	cuda_work_delete(work);
	return cuda_call_end(res);
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
					   const CUDA_KERNEL_NODE_PARAMS *params)
{
	return set_kernel(CUDA_ID_cuGraphExecKernelNodeSetParams_v2, exec, node, params);
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
					const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
	CUDA_KERNEL_NODE_PARAMS wide;

	if (!params)
		return set_kernel(CUDA_ID_cuGraphExecKernelNodeSetParams, exec, node, NULL);
	wide = cuda_graph_widen(params);
	return set_kernel(CUDA_ID_cuGraphExecKernelNodeSetParams, exec, node, &wide);
}

static CUresult set_area(CUgraphExec exec, int at, const struct cuda_area *area,
			 struct cuda_work *(*make)(const struct cuda_area *))
{
	struct cuda_work *work;

	if (cuda_area_is_empty(area) || !has_same_mapping(&exec->program->work[at]->area, area))
		return CUDA_ERROR_INVALID_VALUE;
	work = make(area);
	return work ? replace(exec, at, work) : CUDA_ERROR_OUT_OF_MEMORY;
}

static struct cuda_work *make_copy(const struct cuda_area *area)
{
	return cuda_area_copy_work(area, false);
}

static CUresult set_copy(enum cuda_id id, CUgraphExec exec, CUgraphNode node,
			 const CUDA_MEMCPY3D *params, CUcontext ctx)
{
	struct cuda_area area;
	int at = 0;
	CUresult res = begin(id, exec, node, CU_GRAPH_NODE_TYPE_MEMCPY, &at);

	if (res != CUDA_SUCCESS)
		return res;
	res = params ? cuda_context_resolve(&ctx) : CUDA_ERROR_INVALID_VALUE;
	if (res == CUDA_SUCCESS)
		res = cuda_copy_area(params, ctx, &area);
	return cuda_call_end(res == CUDA_SUCCESS ? set_area(exec, at, &area, make_copy) : res);
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
					const CUDA_MEMCPY3D *params, CUcontext ctx)
{
	return set_copy(CUDA_ID_cuGraphExecMemcpyNodeSetParams, exec, node, params, ctx);
}

static CUresult set_fill(enum cuda_id id, CUgraphExec exec, CUgraphNode node,
			 const CUDA_MEMSET_NODE_PARAMS *params, CUcontext ctx)
{
	struct cuda_area area;
	int at = 0;
	CUresult res = begin(id, exec, node, CU_GRAPH_NODE_TYPE_MEMSET, &at);

	if (res != CUDA_SUCCESS)
		return res;
	res = params ? cuda_context_resolve(&ctx) : CUDA_ERROR_INVALID_VALUE;
	if (res == CUDA_SUCCESS)
		res = cuda_graph_fill_area(params, ctx, &area);
	return cuda_call_end(res == CUDA_SUCCESS ? set_area(exec, at, &area, cuda_area_fill_work) :
						   res);
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
					const CUDA_MEMSET_NODE_PARAMS *params, CUcontext ctx)
{
	return set_fill(CUDA_ID_cuGraphExecMemsetNodeSetParams, exec, node, params, ctx);
}

/* Where the executable graph has the nodes of `from`; -1: nowhere. */
static int place_of(const struct cuda_program *program, const struct cuda_program *from)
{
	for (int i = 0; i + from->count <= program->count; i++) {
		int k = 0;

		while (k < from->count && program->node[i + k] == from->node[k])
			k++;
		if (k == from->count)
			return i;
	}
	return -1;
}

/* Does the new in the place of a child's work, whose nodes are those of `from`. */
static CUresult replace_all(CUgraphExec exec, const struct cuda_program *from,
			    struct cuda_program *new)
{
	struct cuda_program *program;
	CUresult res;
	int place, at;

	place = place_of(exec->program, from);
	if (place < 0 || compare(from, new, &at) != CU_GRAPH_EXEC_UPDATE_SUCCESS)
		return CUDA_ERROR_INVALID_VALUE;
	res = cuda_program_grow(new);
	if (res != CUDA_SUCCESS)
		return res;
	program = cuda_program_copy(exec->program);
	if (!program)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (int i = 0; i < new->count; i++) {
		struct cuda_work *old = program->work[place + i];

		program->work[place + i] = new->work[i];
		new->work[i] = old;
	}
	cuda_program_put(exec->program);
	exec->program = program;
	return CUDA_SUCCESS;
}

static CUresult set_child(enum cuda_id id, CUgraphExec exec, CUgraphNode node, CUgraph graph)
{
	CUresult res = cuda_call_begin(id);
	struct cuda_program *from, *new;
	struct CUgraph_st *child;

	if (res != CUDA_SUCCESS)
		return res;
	child = cuda_object_is(OBJECT_GRAPH_NODE, node) ? cuda_graph_child_of(node->work) : NULL;
	if (!child || !cuda_object_is(OBJECT_GRAPH_EXEC, exec) ||
	    !cuda_object_is(OBJECT_GRAPH, graph))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	from = cuda_program_new(child);
	new = cuda_program_new(graph);
	res = from && new ? replace_all(exec, from, new) : CUDA_ERROR_OUT_OF_MEMORY;
	cuda_program_put(from);
	cuda_program_put(new);
	return cuda_call_end(res);
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph graph)
{
	return set_child(CUDA_ID_cuGraphExecChildGraphNodeSetParams, exec, node, graph);
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *p)
{
	const enum cuda_id id = CUDA_ID_cuGraphExecNodeSetParams;
	CUresult res;

	switch (p ? p->type : CU_GRAPH_NODE_TYPE_EMPTY) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return set_kernel(id, exec, node,
				  &(CUDA_KERNEL_NODE_PARAMS){
					  .func = p->kernel.func,
					  .gridDimX = p->kernel.gridDimX,
					  .gridDimY = p->kernel.gridDimY,
					  .gridDimZ = p->kernel.gridDimZ,
					  .blockDimX = p->kernel.blockDimX,
					  .blockDimY = p->kernel.blockDimY,
					  .blockDimZ = p->kernel.blockDimZ,
					  .sharedMemBytes = p->kernel.sharedMemBytes,
					  .kernelParams = p->kernel.kernelParams,
					  .extra = p->kernel.extra,
					  .kern = p->kernel.kern,
					  .ctx = p->kernel.ctx });
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return set_copy(id, exec, node, &p->memcpy.copyParams, p->memcpy.copyCtx);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return set_fill(id, exec, node,
				&(CUDA_MEMSET_NODE_PARAMS){ .dst = p->memset.dst,
							    .pitch = p->memset.pitch,
							    .value = p->memset.value,
							    .elementSize = p->memset.elementSize,
							    .width = p->memset.width,
							    .height = p->memset.height },
				p->memset.ctx);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return set_child(id, exec, node, p->graph.graph);
	default:
		res = cuda_call_begin(id);
		return res == CUDA_SUCCESS ? cuda_call_end(CUDA_ERROR_INVALID_VALUE) : res;
	}
}
