#include "hook/graph_uses.h"

#include "base/clock.h"
#include "core/exec_uses.h"
#include "core/link_cost.h"
#include "drv/real.h"
#include "hook/graph_nodes.h"
#include "hook/uses.h"
#include "hook/uses_params.h"

/* A list that is being made, and the kind of the kernel that is looked at. */
struct maker {
	struct exec_uses *list;
	uint64_t kind;
};

static void add(struct maker *m, CUdeviceptr addr, uint64_t bytes, uint64_t kind)
{
	if (object_is_ours(addr))
		exec_uses_add(m->list,
			      &(struct exec_use){ .addr = addr, .bytes = bytes, .kind = kind });
}

static void add_word(CUdeviceptr word, void *arg)
{
	struct maker *m = arg;

	add(m, word, 0, m->kind);
}

static void add_kernel(struct maker *m, const CUDA_KERNEL_NODE_PARAMS *p)
{
	CUfunction function = p->func ? p->func : (CUfunction)(void *)p->kern;

	m->kind = uses_kind(function, (uint64_t)p->gridDimX * p->gridDimY * p->gridDimZ);
	if (function)
		uses_params(function, p->kernelParams, p->extra, add_word, m);
}

static void add_copy(struct maker *m, const CUDA_MEMCPY3D *p)
{
	struct uses_span spans[2];
	unsigned count = uses_spans_3d(p, spans);

	for (unsigned i = 0; i < count; i++)
		add(m, spans[i].addr, spans[i].bytes, 0);
}

static void add_fill(struct maker *m, const CUDA_MEMSET_NODE_PARAMS *p)
{
	uint64_t bytes;

	if (uses_rows_bytes(p->pitch, p->width * p->elementSize, p->height, &bytes))
		add(m, p->dst, bytes, 0);
}

static void look_at_copy(struct maker *m, CUgraphNode node)
{
	CUDA_MEMCPY3D p;

	if (real.cuGraphMemcpyNodeGetParams &&
	    real.cuGraphMemcpyNodeGetParams(node, &p) == CUDA_SUCCESS)
		add_copy(m, &p);
}

static void look_at_fill(struct maker *m, CUgraphNode node)
{
	CUDA_MEMSET_NODE_PARAMS p;

	if (real.cuGraphMemsetNodeGetParams &&
	    real.cuGraphMemsetNodeGetParams(node, &p) == CUDA_SUCCESS)
		add_fill(m, &p);
}

static bool look_at_node(CUgraphNode node, CUgraphNodeType type, unsigned depth, void *arg)
{
	CUDA_KERNEL_NODE_PARAMS kernel;
	struct maker *m = arg;

	if (type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY ||
	    type == CU_GRAPH_NODE_TYPE_MEMSET || type == CU_GRAPH_NODE_TYPE_GRAPH)
		exec_uses_add_node(m->list, node, depth);
	if (type == CU_GRAPH_NODE_TYPE_KERNEL && graph_nodes_kernel(node, &kernel))
		add_kernel(m, &kernel);
	else if (type == CU_GRAPH_NODE_TYPE_MEMCPY)
		look_at_copy(m, node);
	else if (type == CU_GRAPH_NODE_TYPE_MEMSET)
		look_at_fill(m, node);
	return true;
}

static struct exec_uses *list_of(CUgraph graph)
{
	struct maker m = { .list = exec_uses_new() };

	if (m.list)
		graph_nodes_each(graph, 0, look_at_node, &m);
	return m.list;
}

void graph_uses_made(CUgraphExec exec, CUgraph graph)
{
	if (movable_may_spill())
		exec_uses_enter(exec, list_of(graph));
}

void graph_uses_updated(CUgraphExec exec, CUgraph graph)
{
	if (movable_may_spill())
		exec_uses_set(exec, list_of(graph));
}

/* A list of what is now in the place of the node: of nothing yet. */
static struct maker begin_node(CUgraphNode node)
{
	struct maker m = { .list = movable_may_spill() ? exec_uses_new() : NULL };

	exec_uses_add_node(m.list, node, 0);
	return m;
}

static void end_node(const struct maker *m, CUgraphExec exec, CUgraphNode node)
{
	if (m->list)
		exec_uses_set_node(exec, node, m->list);
}

void graph_uses_kernel(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params)
{
	struct maker m = begin_node(node);

	if (m.list)
		add_kernel(&m, params);
	end_node(&m, exec, node);
}

void graph_uses_kernel_v1(CUgraphExec exec, CUgraphNode node,
			  const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
	CUDA_KERNEL_NODE_PARAMS wide = graph_nodes_widen(params);

	graph_uses_kernel(exec, node, &wide);
}

void graph_uses_copy(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *params)
{
	struct maker m = begin_node(node);

	if (m.list)
		add_copy(&m, params);
	end_node(&m, exec, node);
}

void graph_uses_fill(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params)
{
	struct maker m = begin_node(node);

	if (m.list)
		add_fill(&m, params);
	end_node(&m, exec, node);
}

void graph_uses_child(CUgraphExec exec, CUgraphNode node, CUgraph graph)
{
	struct maker m = begin_node(node);

	if (m.list)
		graph_nodes_each(graph, 1, look_at_node, &m);
	end_node(&m, exec, node);
}

void graph_uses_node(CUgraphExec exec, CUgraphNode node, const CUgraphNodeParams *params)
{
	const CUDA_KERNEL_NODE_PARAMS_v3 *kernel = &params->kernel;
	const CUDA_MEMSET_NODE_PARAMS_v2 *fill = &params->memset;

	switch (params->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		graph_uses_kernel(exec, node,
				  &(CUDA_KERNEL_NODE_PARAMS){ .func = kernel->func,
							      .gridDimX = kernel->gridDimX,
							      .gridDimY = kernel->gridDimY,
							      .gridDimZ = kernel->gridDimZ,
							      .kernelParams = kernel->kernelParams,
							      .extra = kernel->extra,
							      .kern = kernel->kern });
		return;
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		graph_uses_copy(exec, node, &params->memcpy.copyParams);
		return;
	case CU_GRAPH_NODE_TYPE_MEMSET:
		graph_uses_fill(exec, node,
				&(CUDA_MEMSET_NODE_PARAMS){ .dst = fill->dst,
							    .pitch = fill->pitch,
							    .elementSize = fill->elementSize,
							    .width = fill->width,
							    .height = fill->height });
		return;
	case CU_GRAPH_NODE_TYPE_GRAPH:
		graph_uses_child(exec, node, params->graph.graph);
		return;
	default:
		return;
	}
}

/* No more than so much at once, so that it does not go round. */
static uint32_t times(uint32_t weight, uint32_t launches)
{
	uint32_t product;

	return __builtin_mul_overflow(weight, launches, &product) ? UINT32_MAX : product;
}

static void note(const struct exec_use *use, uint32_t launches)
{
	struct backing_uses uses = {
		.weight = times(use->kind ? link_cost_weight(use->kind) : HEAT_USE, launches)
	};

	if (use->bytes)
		object_use_part(use->addr, use->bytes, &uses);
	else
		object_use_whole(use->addr, &uses);
}

void graph_uses_launch(CUgraphExec exec)
{
	exec_uses_launched(exec, clock_now_ns(), note);
}
