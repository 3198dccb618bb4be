#include "cuda_graph.h"

#include <stdlib.h>

#include "cuda_call.h"
#include "cuda_context.h"
#include "cuda_graph_child.h"
#include "cuda_graph_memory.h"
#include "cuda_limit.h"
#include "cuda_object.h"
#include "cuda_stream.h"
#include "cuda_work.h"

static uint64_t last_id; /* the driver's lock */

struct CUgraph_st *cuda_graph_new(void)
{
	struct CUgraph_st *graph = calloc(1, sizeof(*graph));

	if (graph && cuda_object_add(OBJECT_GRAPH, graph) != 0) {
		free(graph);
		return NULL;
	}
	if (graph)
		graph->id = ++last_id;
	return graph;
}

void cuda_graph_delete(struct CUgraph_st *graph)
{
	cuda_object_remove(graph);
	for (int i = 0; i < graph->count; i++) {
		cuda_object_remove(graph->node[i]);
		if (graph->node[i]->work)
			cuda_work_delete(graph->node[i]->work);
		free(graph->node[i]);
	}
	free(graph->node);
	free(graph);
}

static int make_room(struct CUgraph_st *graph)
{
	int room = graph->room ? graph->room * 2 : 16;
	void *grown;

	if (graph->count < graph->room)
		return 0;
	grown = realloc(graph->node, (size_t)room * sizeof(*graph->node));
	if (!grown)
		return -1;
	graph->node = grown;
	graph->room = room;
	return 0;
}

CUresult cuda_graph_add(struct CUgraph_st *graph, struct cuda_work *work,
			struct CUgraphNode_st **out_node)
{
	struct CUgraphNode_st *node = calloc(1, sizeof(*node));

	if (!node || make_room(graph) != 0 || cuda_object_add(OBJECT_GRAPH_NODE, node) != 0) {
		free(node);
		if (work)
			cuda_work_delete(work);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	node->graph = graph;
	node->work = work;
	if (work && (work->ops->node_type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
		     work->ops->node_type == CU_GRAPH_NODE_TYPE_MEM_FREE))
		graph->has_memory = true;
	graph->node[graph->count++] = node;
	if (out_node)
		*out_node = node;
	return CUDA_SUCCESS;
}

void cuda_program_put(struct cuda_program *program)
{
	if (!program || --program->references)
		return;
	for (int i = 0; i < program->count; i++)
		cuda_work_delete(program->work[i]);
	free(program->work);
	free(program->node);
	free(program);
}

static struct cuda_program *new_program(int room)
{
	struct cuda_program *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->references = 1;
	p->work = calloc((size_t)room + 1, sizeof(*p->work));
	p->node = calloc((size_t)room + 1, sizeof(*p->node));
	if (p->work && p->node)
		return p;
	cuda_program_put(p);
	return NULL;
}

static int append(struct cuda_program *p, const struct cuda_work *work,
		  const struct CUgraphNode_st *node)
{
	p->work[p->count] = cuda_work_copy(work);
	if (!p->work[p->count])
		return -1;
	p->node[p->count++] = node;
	return 0;
}

/* What is to be done, child graphs included. */
static int count_work(const struct CUgraph_st *graph)
{
	int count = 0;

	for (int i = 0; i < graph->count; i++) {
		const struct CUgraph_st *child = cuda_graph_child_of(graph->node[i]->work);

		count += child ? count_work(child) : graph->node[i]->work != NULL;
	}
	return count;
}

static int append_all(struct cuda_program *p, const struct CUgraph_st *graph)
{
	for (int i = 0; i < graph->count; i++) {
		const struct CUgraphNode_st *node = graph->node[i];
		const struct CUgraph_st *child = cuda_graph_child_of(node->work);

		if (child ? append_all(p, child) != 0 :
			    node->work && append(p, node->work, node) != 0)
			return -1;
	}
	return 0;
}

struct cuda_program *cuda_program_new(const struct CUgraph_st *graph)
{
	struct cuda_program *p = new_program(count_work(graph));

	if (p && append_all(p, graph) != 0) {
		cuda_program_put(p);
		return NULL;
	}
	return p;
}

struct cuda_program *cuda_program_copy(const struct cuda_program *program)
{
	struct cuda_program *p = new_program(program->count);

	for (int i = 0; p && i < program->count; i++) {
		if (append(p, program->work[i], program->node[i]) != 0) {
			cuda_program_put(p);
			return NULL;
		}
	}
	return p;
}

/* Local memory for the kernels of a graph. */
static CUresult grow(const struct cuda_program *program, struct CUctx_st *ctx)
{
	CUresult res = CUDA_SUCCESS;

	for (int i = 0; i < program->count && res == CUDA_SUCCESS; i++)
		if (program->work[i]->ops->node_type == CU_GRAPH_NODE_TYPE_KERNEL)
			res = cuda_limit_grow(ctx, program->work[i]->launch.local_bytes,
					      program->work[i]->launch.calls);
	return res;
}

CUresult cuda_program_grow(const struct cuda_program *program)
{
	struct CUctx_st *ctx;

	return cuda_context_current(&ctx) == CUDA_SUCCESS ? grow(program, ctx) : CUDA_SUCCESS;
}

/* Copies what a graph does. */
static CUresult instantiate(const struct CUgraph_st *graph, unsigned long long flags,
			    CUgraphExec *out_exec)
{
	struct CUgraphExec_st *exec = calloc(1, sizeof(*exec));
	CUresult res = CUDA_ERROR_OUT_OF_MEMORY;

	if (!exec)
		return CUDA_ERROR_OUT_OF_MEMORY;
	exec->flags = flags;
	exec->program = cuda_program_new(graph);
	if (exec->program)
		res = cuda_program_grow(exec->program);
	if (res == CUDA_SUCCESS)
		res = cuda_graph_memory_claim(exec->program);
	if (res == CUDA_SUCCESS && cuda_object_add(OBJECT_GRAPH_EXEC, exec) != 0) {
		cuda_graph_memory_unclaim(exec->program);
		res = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (res == CUDA_SUCCESS) {
		*out_exec = exec;
		return CUDA_SUCCESS;
	}
	cuda_program_put(exec->program);
	free(exec);
	return res;
}

static CUresult instantiate_call(enum cuda_id id, CUgraphExec *out_exec, CUgraph graph,
				 unsigned long long flags)
{
	CUresult res = cuda_call_begin(id);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_exec || !cuda_object_is(OBJECT_GRAPH, graph))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	return cuda_call_end(instantiate(graph, flags, out_exec));
}

CUresult cuGraphInstantiate(CUgraphExec *out_exec, CUgraph graph, CUgraphNode *out_error_node,
			    char *log, size_t log_bytes)
{
	(void)out_error_node;
	(void)log;
	(void)log_bytes;
	return instantiate_call(CUDA_ID_cuGraphInstantiate, out_exec, graph, 0);
}

CUresult cuGraphInstantiate_v2(CUgraphExec *out_exec, CUgraph graph, CUgraphNode *out_error_node,
			       char *log, size_t log_bytes)
{
	(void)out_error_node;
	(void)log;
	(void)log_bytes;
	return instantiate_call(CUDA_ID_cuGraphInstantiate_v2, out_exec, graph, 0);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *out_exec, CUgraph graph, unsigned long long flags)
{
	const unsigned long long known = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
					 CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
					 CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
					 CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

	if (!cuda_call_is_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (flags & ~known)
		return CUDA_ERROR_INVALID_VALUE;
	if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
		return CUDA_ERROR_NOT_SUPPORTED;
	return instantiate_call(CUDA_ID_cuGraphInstantiateWithFlags, out_exec, graph, flags);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *out_exec, CUgraph graph,
				      CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	CUresult res;

	if (!params)
		return cuda_call_is_ready() ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_INITIALIZED;
	res = cuGraphInstantiateWithFlags(out_exec, graph, params->flags);
	if (res == CUDA_SUCCESS && (params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)) {
		res = cuGraphUpload(*out_exec, params->hUploadStream);
		if (res != CUDA_SUCCESS)
			cuGraphExecDestroy(*out_exec);
	}
	params->hErrNode_out = NULL;
	params->result_out = res == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS :
						   CUDA_GRAPH_INSTANTIATE_ERROR;
	return res;
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *out_exec, CUgraph graph,
					   CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	return cuGraphInstantiateWithParams(out_exec, graph, params);
}

/* Executes node after node, each with the turn if it needs it. */
static CUresult run_graph(struct cuda_work *work, struct CUctx_st *ctx, struct cuda_turn *turn)
{
	const struct cuda_program *program = work->program;
	CUresult res = CUDA_SUCCESS;

	for (int i = 0; i < program->count && res == CUDA_SUCCESS; i++) {
		struct cuda_work *node = program->work[i];

		if (node->ops->needs_turn && !turn->is_held)
			cuda_turn_begin(turn);
		else if (!node->ops->needs_turn && turn->is_held)
			cuda_turn_end(turn);
		res = node->ops->run(node, ctx, turn);
		if (turn->is_held)
			cuda_turn_check(turn);
	}
	if (turn->is_held)
		cuda_turn_end(turn);
	return res;
}

static void release_graph(struct cuda_work *work)
{
	if (!work->program)
		return;
	cuda_graph_memory_done(work->program);
	cuda_program_put(work->program);
}

static const struct cuda_work_ops graph_ops = { .node_type = CU_GRAPH_NODE_TYPE_GRAPH,
						.run = run_graph,
						.release = release_graph };

static CUresult launch(enum cuda_id id, CUgraphExec exec, CUstream handle, enum stream_default form)
{
	struct CUstream_st *stream;
	struct cuda_work *work;
	CUresult res = cuda_call_begin(id);

	if (res != CUDA_SUCCESS)
		return res;
	if (!cuda_object_is(OBJECT_GRAPH_EXEC, exec))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	res = cuda_stream_find(handle, form, &stream);
	if (res != CUDA_SUCCESS)
		return cuda_call_end(res);
	if (stream->capture)
		return cuda_call_end(CUDA_ERROR_NOT_SUPPORTED);
	res = grow(exec->program, stream->ctx);
	if (res != CUDA_SUCCESS)
		return cuda_call_end(res);
	work = cuda_work_new(&graph_ops);
	if (!work)
		return cuda_call_end(CUDA_ERROR_OUT_OF_MEMORY);
	res = cuda_graph_memory_launch(exec->program, stream,
				       exec->flags &
					       CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
	if (res != CUDA_SUCCESS) {
		cuda_work_delete(work);
		return cuda_call_end(res);
	}
	work->program = exec->program;
	work->program->references++;
	return cuda_call_end(cuda_stream_submit(stream, work));
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	return launch(CUDA_ID_cuGraphLaunch, exec, stream, DEFAULT_LEGACY);
}

CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream)
{
	return launch(CUDA_ID_cuGraphLaunch_ptsz, exec, stream, DEFAULT_PER_THREAD);
}

/* Nothing but memory is brought to the device before a launch. */
static CUresult upload(enum cuda_id id, CUgraphExec exec, CUstream handle, enum stream_default form)
{
	struct CUstream_st *stream;
	CUresult res = cuda_call_begin(id);

	if (res != CUDA_SUCCESS)
		return res;
	if (!cuda_object_is(OBJECT_GRAPH_EXEC, exec))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	res = cuda_stream_find(handle, form, &stream);
	if (res == CUDA_SUCCESS)
		res = grow(exec->program, stream->ctx);
	if (res == CUDA_SUCCESS)
		res = cuda_graph_memory_place(exec->program, stream);
	return cuda_call_end(res);
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
	return upload(CUDA_ID_cuGraphUpload, exec, stream, DEFAULT_LEGACY);
}

CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream)
{
	return upload(CUDA_ID_cuGraphUpload_ptsz, exec, stream, DEFAULT_PER_THREAD);
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
	CUresult res = cuda_call_begin(CUDA_ID_cuGraphExecDestroy);

	if (res != CUDA_SUCCESS)
		return res;
	if (!cuda_object_is(OBJECT_GRAPH_EXEC, exec))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	cuda_object_remove(exec);
	cuda_graph_memory_unclaim(exec->program);
	cuda_program_put(exec->program);
	free(exec);
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t *out_flags)
{
	CUresult res = cuda_call_begin(CUDA_ID_cuGraphExecGetFlags);

	if (res != CUDA_SUCCESS)
		return res;
	if (!cuda_object_is(OBJECT_GRAPH_EXEC, exec) || !out_flags)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	*out_flags = exec->flags;
	return cuda_call_end(CUDA_SUCCESS);
}
