#include "hook/graph_local.h"

#include "base/log.h"
#include "core/green.h"
#include "core/module.h"
#include "drv/gpu_cuda.h"
#include "hook/again.h"
#include "hook/first_launch.h"
#include "hook/gated.h"
#include "hook/graph_nodes.h"
#include "hook/graph_uses.h"
#include "hook/room.h"

#include <errno.h>

/* What a function, or a kernel in that context, needs beyond what any context has. */
static uint32_t bytes_of(CUfunction handle, CUcontext ctx)
{
	uint32_t bytes;

	if (!handle || !first_launch_thread_bytes_at(handle, ctx, &bytes))
		return 0;
	return bytes > LOCAL_STACK_BYTES ? bytes : 0;
}

/* The way through the kernels of a graph. */
struct walk {
	struct exec_local_need need;
	CUresult res; /* of letting their libraries into the context; then it ends */
};

static const void *current_context(void)
{
	const void *ctx;
	struct cuda_ord ord;

	return gpu_cuda_current(&ord, &ctx) ? green_owner(ctx) : NULL;
}

/* Where a node runs that names this context, or a function of its own; else the current one. */
static const void *place_of(CUfunction func, CUcontext ctx)
{
	struct module_facts facts;

	if (func)
		return module_find(function_owner(func), &facts) ? green_owner(facts.ctx) :
								   current_context();
	return ctx ? green_owner(ctx) : current_context();
}

static CUresult too_many(void)
{
	log_error("a graph of more than %d contexts is not shared", EXEC_LOCAL_PLACES);
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* A kernel may be of another context than the current one: it is asked there as well. */
static void see_kernel(struct walk *w, CUfunction func, CUkernel kernel, CUcontext ctx)
{
	CUfunction handle = func ? func : (CUfunction)(void *)kernel;
	CUcontext at = func ? NULL : ctx;
	uint32_t bytes;

	w->res = first_launch_let_in_at(handle, at);
	if (w->res != CUDA_SUCCESS)
		return;
	bytes = bytes_of(handle, at);
	if (bytes && !exec_local_add(&w->need, place_of(func, at), bytes))
		w->res = too_many();
}

static bool see_node(CUgraphNode node, CUgraphNodeType type, unsigned depth, void *arg)
{
	CUDA_KERNEL_NODE_PARAMS p;
	struct walk *w = arg;

	(void)depth;
	if (type == CU_GRAPH_NODE_TYPE_KERNEL && graph_nodes_kernel(node, &p))
		see_kernel(w, p.func, p.kern, p.ctx);
	return w->res == CUDA_SUCCESS;
}

/* False while no function is known that needs more than any context has. */
static bool is_possible(void)
{
	return init_is_member() && (function_any() || function_most() > LOCAL_STACK_BYTES);
}

static void see(struct walk *w, CUgraph graph)
{
	if (is_possible())
		graph_nodes_each(graph, 0, see_node, w);
}

CUresult graph_local_ask(CUgraph graph, struct exec_local_need *out_need)
{
	struct walk w = { .res = CUDA_SUCCESS };

	see(&w, graph);
	*out_need = w.need;
	return w.res;
}

/* The functions stand for it: its launches are looked at while a context has less. */
static void watch(CUgraphExec exec, uint32_t thread_bytes)
{
	function_enter(exec, FUNCTION_GRAPH, NULL);
	again_void();
	local_tell(exec, NULL, thread_bytes);
}

void graph_local_made(CUgraphExec exec, struct exec_local *local,
		      const struct exec_local_need *need)
{
	exec_local_enter(exec, local, need);
	watch(exec, need->most_bytes);
}

void graph_local_end(CUgraphExec exec)
{
	if (function_most() <= LOCAL_STACK_BYTES)
		return;
	exec_local_end(exec);
	function_end(exec);
}

/* One place more, unless it is there with as much; `exec` as the handle of core/local.h. */
static CUresult reserve_at(struct graph_local_growth *g, const void *ctx, uint32_t bytes,
			   const void *exec)
{
	struct local_growth *at = &g->at[g->count];
	CUresult res;

	for (unsigned i = 0; i < g->count; i++)
		if (g->place[i] == ctx)
			return CUDA_SUCCESS;
	res = first_launch_reserve_at(at, bytes, exec, (CUcontext)(uintptr_t)ctx);
	if (res == CUDA_SUCCESS)
		g->place[g->count++] = ctx;
	return res;
}

/*
 * In the current context, the stream's (NULL: none but that) and those of the nodes: which of them
 * the driver takes it in is not documented.
 */
static CUresult reserve(struct graph_local_growth *g, const struct exec_local_need *need,
			const void *stream_ctx, const void *exec)
{
	const void *current = current_context();
	CUresult res = CUDA_SUCCESS;

	g->count = 0;
	g->is_less = need->is_less;
	if (need->most_bytes == 0)
		return CUDA_SUCCESS;
	res = reserve_at(g, current, need->most_bytes, exec);
	if (res == CUDA_SUCCESS && stream_ctx)
		res = reserve_at(g, stream_ctx, need->most_bytes, exec);
	for (unsigned i = 0; i < need->count && res == CUDA_SUCCESS; i++)
		res = reserve_at(g, need->at[i].ctx, need->at[i].thread_bytes, NULL);
	if (res != CUDA_SUCCESS)
		graph_local_finish(g, LOCAL_FAILED);
	return res;
}

CUresult graph_local_reserve(struct graph_local_growth *growth, const struct exec_local_need *need,
			     CUstream stream)
{
	return reserve(growth, need, first_launch_context_of(stream), NULL);
}

void graph_local_finish(struct graph_local_growth *growth, enum local_end end)
{
	if (end != LOCAL_FAILED && (growth->count > 1 || growth->is_less))
		end = LOCAL_WHOLLY;
	local_finish_all(growth->at, growth->count, end);
}

CUresult graph_local_begin(struct graph_local_growth *growth, CUgraphExec exec, CUstream stream)
{
	struct exec_local_need need;
	struct exec_local_run run;
	CUresult res;

	growth->count = 0;
	growth->is_less = growth->is_looked_at = false;
	if (!function_any() || function_is_settled(exec) || !exec_local_find(exec, &need))
		return CUDA_SUCCESS;
	run = (struct exec_local_run){ .current = current_context(),
				       .stream_ctx = first_launch_context_of(stream),
				       .epoch = local_epoch(),
				       .change = need.change };
	if (exec_local_has_run(exec, &run))
		return CUDA_SUCCESS;
	res = reserve(growth, &need, run.stream_ctx, exec);
	growth->run = run;
	growth->is_looked_at = true;
	return res;
}

void graph_local_launched(struct graph_local_growth *growth, CUgraphExec exec, CUresult res)
{
	if (!growth->is_looked_at)
		return;
	graph_local_finish(growth, res == CUDA_SUCCESS ? LOCAL_GREW : LOCAL_FAILED);
	if (res == CUDA_SUCCESS)
		exec_local_launched(exec, &growth->run);
}

static void see_params(struct walk *w, const CUgraphNodeParams *p)
{
	if (p && p->type == CU_GRAPH_NODE_TYPE_KERNEL)
		see_kernel(w, p->kernel.func, p->kernel.kern, p->kernel.ctx);
}

/*
 * Before an executable graph is changed: the driver may take at once what its new kernels need.
 * CUDA_SUCCESS, then change_end() follows; or the answer for the program.
 */
static CUresult change_begin(struct graph_local_growth *growth, CUgraphExec exec,
			     const struct walk *w)
{
	struct exec_local_need need;
	CUresult res = w->res;
	int rc;

	if (res == CUDA_SUCCESS)
		res = graph_local_reserve(growth, &w->need, NULL);
	if (res != CUDA_SUCCESS)
		return res;
	rc = exec_local_raise(exec, &w->need);
	if (rc < 0) {
		graph_local_finish(growth, LOCAL_FAILED);
		return rc == -ENOSPC ? too_many() : CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (w->need.most_bytes && exec_local_find(exec, &need))
		watch(exec, need.most_bytes);
	return CUDA_SUCCESS;
}

/* What was changed of it. */
enum part { PART, WHOLE };

static void change_end(struct graph_local_growth *growth, CUgraphExec exec, const struct walk *w,
		       enum part part, CUresult res)
{
	struct exec_local_need was;

	graph_local_finish(growth, res == CUDA_SUCCESS ? LOCAL_PERHAPS : LOCAL_FAILED);
	if (res != CUDA_SUCCESS || !exec_local_find(exec, &was))
		return;
	if (part == PART) {
		exec_local_changed(exec, w->need.most_bytes);
		return;
	}
	exec_local_set(exec, &w->need);
	if (w->need.most_bytes)
		watch(exec, w->need.most_bytes);
	else
		function_end(exec);
}

/*
 * A call that may bring kernels to the executable graph a, to a part of it or the whole; `look` has
 * a walk w see them, `then` follows from it if it was made.
 */
#define CHANGE(sym, part, look, then, ...)                                  \
	CUresult hook_##sym(GATED_PARAMS(__VA_ARGS__))                      \
	{                                                                   \
		struct walk w = { .res = CUDA_SUCCESS };                    \
		struct graph_local_growth growth;                           \
		CUresult res;                                               \
                                                                            \
		if (!ENTER_HAS(sym))                                        \
			return enter_missing();                             \
		if (is_possible())                                          \
			look;                                               \
		res = change_begin(&growth, a, &w);                         \
		if (res != CUDA_SUCCESS)                                    \
			return res;                                         \
		res = ROOM_CALL_HERE(0, real.sym(GATED_ARGS(__VA_ARGS__))); \
		change_end(&growth, a, &w, part, res);                      \
		if (res == CUDA_SUCCESS)                                    \
			then;                                               \
		return res;                                                 \
	}

CHANGE(cuGraphExecUpdate, WHOLE, see(&w, b), graph_uses_updated(a, b), CUgraphExec, CUgraph,
       CUgraphNode *, CUgraphExecUpdateResult *)
CHANGE(cuGraphExecUpdate_v2, WHOLE, see(&w, b), graph_uses_updated(a, b), CUgraphExec, CUgraph,
       CUgraphExecUpdateResultInfo *)
CHANGE(cuGraphExecChildGraphNodeSetParams, PART, see(&w, c), graph_uses_child(a, b, c), CUgraphExec,
       CUgraphNode, CUgraph)
CHANGE(cuGraphExecNodeSetParams, PART, see_params(&w, c), graph_uses_node(a, b, c), CUgraphExec,
       CUgraphNode, CUgraphNodeParams *)
CHANGE(cuGraphExecKernelNodeSetParams, PART, c ? see_kernel(&w, c->func, NULL, NULL) : (void)0,
       graph_uses_kernel_v1(a, b, c), CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v1 *)
CHANGE(cuGraphExecKernelNodeSetParams_v2, PART,
       c ? see_kernel(&w, c->func, c->kern, c->ctx) : (void)0, graph_uses_kernel(a, b, c),
       CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS *)
