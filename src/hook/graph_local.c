#include "hook/graph_local.h"

#include "hook/again.h"
#include "hook/first_launch.h"
#include "hook/gated.h"
#include "hook/graph_nodes.h"
#include "hook/graph_uses.h"
#include "hook/room.h"

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
	uint32_t most_bytes;
	CUresult res; /* of letting their libraries into the context; then it ends */
};

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
	if (bytes > w->most_bytes)
		w->most_bytes = bytes;
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

CUresult graph_local_ask(CUgraph graph, uint32_t *out_thread_bytes)
{
	struct walk w = { .res = CUDA_SUCCESS };

	see(&w, graph);
	*out_thread_bytes = w.most_bytes;
	return w.res;
}

void graph_local_raise(CUgraphExec exec, uint32_t thread_bytes)
{
	uint32_t was;

	if (thread_bytes == 0 || !exec ||
	    (function_thread_bytes(exec, &was) && was >= thread_bytes))
		return;
	function_enter(exec, FUNCTION_GRAPH, NULL);
	again_void();
	local_tell(exec, NULL, thread_bytes);
}

void graph_local_end(CUgraphExec exec)
{
	if (function_most() > LOCAL_STACK_BYTES)
		function_end(exec);
}

CUresult graph_local_begin(struct local_growth *growth, CUgraphExec exec)
{
	uint32_t bytes;

	*growth = (struct local_growth){ .is_growing = false };
	if (!function_any() || !function_thread_bytes(exec, &bytes))
		return CUDA_SUCCESS;
	return first_launch_reserve(growth, bytes, exec);
}

static void see_params(struct walk *w, const CUgraphNodeParams *p)
{
	if (p && p->type == CU_GRAPH_NODE_TYPE_KERNEL)
		see_kernel(w, p->kernel.func, p->kernel.kern, p->kernel.ctx);
}

/*
 * Before an executable graph is changed: the driver may take at once what its new kernels need.
 * CUDA_SUCCESS, then local_finish() follows; or the answer for the program.
 */
static CUresult change_begin(struct local_growth *growth, CUgraphExec exec, const struct walk *w)
{
	CUresult res = w->res;

	*growth = (struct local_growth){ .is_growing = false };
	if (res == CUDA_SUCCESS && w->most_bytes)
		res = first_launch_reserve(growth, w->most_bytes, NULL);
	if (res == CUDA_SUCCESS)
		graph_local_raise(exec, w->most_bytes);
	return res;
}

/*
 * A call that may bring kernels to the executable graph a; `look` has a walk w see them, `then`
 * follows from it if it was made.
 */
#define CHANGE(sym, look, then, ...)                                                       \
	CUresult hook_##sym(GATED_PARAMS(__VA_ARGS__))                                     \
	{                                                                                  \
		struct walk w = { .res = CUDA_SUCCESS };                                   \
		struct local_growth growth;                                                \
		CUresult res;                                                              \
                                                                                           \
		if (!ENTER_HAS(sym))                                                       \
			return enter_missing();                                            \
		if (is_possible())                                                         \
			look;                                                              \
		res = change_begin(&growth, a, &w);                                        \
		if (res != CUDA_SUCCESS)                                                   \
			return res;                                                        \
		res = ROOM_CALL_HERE(0, real.sym(GATED_ARGS(__VA_ARGS__)));                \
		local_finish(&growth, res == CUDA_SUCCESS ? LOCAL_PERHAPS : LOCAL_FAILED); \
		if (res == CUDA_SUCCESS)                                                   \
			then;                                                              \
		return res;                                                                \
	}

CHANGE(cuGraphExecUpdate, see(&w, b), graph_uses_updated(a, b), CUgraphExec, CUgraph, CUgraphNode *,
       CUgraphExecUpdateResult *)
CHANGE(cuGraphExecUpdate_v2, see(&w, b), graph_uses_updated(a, b), CUgraphExec, CUgraph,
       CUgraphExecUpdateResultInfo *)
CHANGE(cuGraphExecChildGraphNodeSetParams, see(&w, c), graph_uses_child(a, b, c), CUgraphExec,
       CUgraphNode, CUgraph)
CHANGE(cuGraphExecNodeSetParams, see_params(&w, c), graph_uses_node(a, b, c), CUgraphExec,
       CUgraphNode, CUgraphNodeParams *)
CHANGE(cuGraphExecKernelNodeSetParams, c ? see_kernel(&w, c->func, NULL, NULL) : (void)0,
       graph_uses_kernel_v1(a, b, c), CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v1 *)
CHANGE(cuGraphExecKernelNodeSetParams_v2, c ? see_kernel(&w, c->func, c->kern, c->ctx) : (void)0,
       graph_uses_kernel(a, b, c), CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS *)
