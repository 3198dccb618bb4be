/*
 * The local memory of a graph's kernels: reserved when the graph is instantiated, where the
 * driver may take it, and before its first launch. An executable graph stands among the functions
 * (core/function.h) if it needs more than a context has to begin with.
 *
 * What nodes need is taken to be needed in the context of the launch. The bodies of conditional
 * nodes and what a device launches itself no call shows: they are found by the driver's figure.
 */
#pragma once

#include "abi/cuda.h"
#include "core/local.h"

/*
 * The most that a thread of the graph's kernels needs; 0 where that is no more than any context
 * has. CUDA_SUCCESS, or the answer for the program: a library of one passes the limit.
 */
CUresult graph_local_ask(CUgraph graph, uint32_t *out_thread_bytes);

/*
 * The executable graph's threads need so much, or more than was said before. Then it is
 * destroyed.
 */
void graph_local_raise(CUgraphExec exec, uint32_t thread_bytes);
void graph_local_end(CUgraphExec exec);

/*
 * Before a launch or upload: CUDA_SUCCESS, then local_finish() follows; or it would pass the limit.
 */
CUresult graph_local_begin(struct local_growth *growth, CUgraphExec exec);
