/*
 * The local memory of a graph's kernels: reserved when the graph is instantiated, where the
 * driver may take it, and before its first launch. An executable graph stands among the functions
 * (core/function.h) and in core/exec_local.h if it needs more than a context has to begin with.
 *
 * In which context the driver takes it is not documented: it is reserved in the current one, that
 * of the stream and those that the nodes name. The bodies of conditional nodes and what a device
 * launches itself no call shows: they are found by the driver's figure.
 */
#pragma once

#include "abi/cuda.h"
#include "core/exec_local.h"
#include "core/local.h"

/* The most places: those of the nodes, the current context and the stream's. */
enum { GRAPH_LOCAL_PLACES = EXEC_LOCAL_PLACES + 2 };

/* What may grow by one call; on its caller's stack. */
struct graph_local_growth {
	unsigned count;
	bool is_less;      /* perhaps less is needed than was reserved */
	bool is_looked_at; /* by graph_local_begin() */
	struct exec_local_run run;
	const void *place[GRAPH_LOCAL_PLACES];
	struct local_growth at[GRAPH_LOCAL_PLACES];
};

/*
 * What the graph's kernels need; nothing where that is no more than any context has. CUDA_SUCCESS,
 * or the answer for the program: a library of one passes the limit.
 */
CUresult graph_local_ask(CUgraph graph, struct exec_local_need *out_need);

/*
 * Before a graph of that need is instantiated, which may be uploaded into that stream (NULL: the
 * default one). CUDA_SUCCESS, then graph_local_finish() follows; or it would pass the limit.
 */
CUresult graph_local_reserve(struct graph_local_growth *growth, const struct exec_local_need *need,
			     CUstream stream);
void graph_local_finish(struct graph_local_growth *growth, enum local_end end);

/* The executable graph was made; `local` is no longer the caller's. Then it is destroyed. */
void graph_local_made(CUgraphExec exec, struct exec_local *local,
		      const struct exec_local_need *need);
void graph_local_end(CUgraphExec exec);

/*
 * Before a launch or upload: CUDA_SUCCESS, then graph_local_launched() or, of an upload,
 * graph_local_finish() follows; or it would pass the limit.
 */
CUresult graph_local_begin(struct graph_local_growth *growth, CUgraphExec exec, CUstream stream);
void graph_local_launched(struct graph_local_growth *growth, CUgraphExec exec, CUresult res);
