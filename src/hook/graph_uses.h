/*
 * What the nodes of executable graphs use of objects: told by the parameters of kernels, copies and
 * fills, child graphs included, when a graph is instantiated or changed, and noted at its launches
 * while some of the objects lie in host memory. Only oversubscribed tenants look.
 *
 * A kernel counts as a launch of its function does (core/link_cost.h), also where its node is
 * disabled. Of what bodies of conditional nodes, batches of copies and launches by the device use
 * nothing is seen, nor what is not seen of launches (hook/uses.h).
 *
 * The calls about a change are made when the driver has made it: then it has loaded the kernels,
 * and is asked about none that it would load for that. Thread safe.
 */
#pragma once

#include "abi/cuda.h"

/* It was instantiated of, or updated by, this graph, which is as it was then. */
void graph_uses_made(CUgraphExec exec, CUgraph graph);
void graph_uses_updated(CUgraphExec exec, CUgraph graph);

/* One of its nodes was changed. */
void graph_uses_kernel(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params);
void graph_uses_kernel_v1(CUgraphExec exec, CUgraphNode node,
			  const CUDA_KERNEL_NODE_PARAMS_v1 *params);
void graph_uses_copy(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *params);
void graph_uses_fill(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params);
void graph_uses_child(CUgraphExec exec, CUgraphNode node, CUgraph graph);
void graph_uses_node(CUgraphExec exec, CUgraphNode node, const CUgraphNodeParams *params);

/* Before a launch. */
void graph_uses_launch(CUgraphExec exec);
