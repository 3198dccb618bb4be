#include "cuda_graph_child.h"

#include <stdbool.h>

#include "cuda_call.h"
#include "cuda_graph.h"
#include "cuda_object.h"
#include "cuda_work.h"

/* Nothing by itself: its nodes are executed. */
static CUresult run(struct cuda_work *work, struct CUctx_st *ctx, struct cuda_turn *turn)
{
	(void)work;
	(void)ctx;
	(void)turn;
	return CUDA_SUCCESS;
}

static void release(struct cuda_work *work)
{
	if (work->child)
		cuda_graph_delete(work->child);
}

static const struct cuda_work_ops child_ops = { .node_type = CU_GRAPH_NODE_TYPE_GRAPH,
						.run = run,
						.release = release };

struct CUgraph_st *cuda_graph_child_of(const struct cuda_work *work)
{
	return work && work->ops == &child_ops ? work->child : NULL;
}

/* Work whose graph is a copy of this one. */
static struct cuda_work *child_work(const struct CUgraph_st *graph)
{
	struct cuda_work *work = cuda_work_new(&child_ops);

	if (!work)
		return NULL;
	work->child = cuda_graph_copy(graph);
	if (!work->child) {
		cuda_work_delete(work);
		return NULL;
	}
	work->child->is_child = true;
	return work;
}

struct cuda_work *cuda_graph_copy_work(const struct cuda_work *work)
{
	const struct CUgraph_st *child = cuda_graph_child_of(work);

	return child ? child_work(child) : cuda_work_copy(work);
}

struct CUgraph_st *cuda_graph_copy(const struct CUgraph_st *graph)
{
	struct CUgraph_st *copy = cuda_graph_new();

	for (int i = 0; copy && i < graph->count; i++) {
		const struct cuda_work *of = graph->node[i]->work;
		struct cuda_work *work = of ? cuda_graph_copy_work(of) : NULL;

		if ((of && !work) || cuda_graph_add(copy, work, NULL) != CUDA_SUCCESS) {
			cuda_graph_delete(copy);
			return NULL;
		}
	}
	return copy;
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *out_node, CUgraph graph,
				  const CUgraphNode *dependencies, size_t count, CUgraph child)
{
	CUresult res = cuda_graph_begin_add(CUDA_ID_cuGraphAddChildGraphNode, out_node, graph,
					    dependencies, count);
	struct cuda_work *work;

	if (res != CUDA_SUCCESS)
		return res;
	if (!cuda_object_is(OBJECT_GRAPH, child))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	if (child->has_memory)
		return cuda_call_end(CUDA_ERROR_NOT_SUPPORTED);
	work = child_work(child);
	return cuda_call_end(work ? cuda_graph_add(graph, work, out_node) :
				    CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *out_graph)
{
	CUresult res = cuda_call_begin(CUDA_ID_cuGraphChildGraphNodeGetGraph);
	struct CUgraph_st *child;

	if (res != CUDA_SUCCESS)
		return res;
	child = cuda_object_is(OBJECT_GRAPH_NODE, node) ? cuda_graph_child_of(node->work) : NULL;
	if (!child || !out_graph)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	*out_graph = child;
	return cuda_call_end(CUDA_SUCCESS);
}
