/*
 * The nodes of a graph, by the driver's answers, those of graphs in it too. The bodies of
 * conditional nodes are not among them.
 */
#pragma once

#include "abi/cuda.h"

#include <stdbool.h>

/* A node, in so many graphs beyond the first. False: no more are to be seen. */
typedef bool graph_nodes_see(CUgraphNode node, CUgraphNodeType type, unsigned depth, void *arg);

/*
 * Has all nodes seen, of a graph that is `depth` deep; a child graph's follow its node. False when
 * some were not: the driver did not say, they are too deep, or `see` said so.
 */
bool graph_nodes_each(CUgraph graph, unsigned depth, graph_nodes_see *see, void *arg);

/* What a kernel's node has; without a CUkernel from drivers before 12.0. */
bool graph_nodes_kernel(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *out_params);

/* The old form as the new one. */
CUDA_KERNEL_NODE_PARAMS graph_nodes_widen(const CUDA_KERNEL_NODE_PARAMS_v1 *params);
