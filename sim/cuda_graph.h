/*
 * Graphs. A graph keeps its nodes in the order they came, which satisfies all their dependencies;
 * an executable graph is a copy of them that a stream runs one after the other. The driver's lock
 * protects both.
 */
#pragma once

#include <stdint.h>

#include "abi/cuda.h"
#include "cuda_call.h"

struct cuda_area;
struct cuda_work;

struct CUgraphNode_st {
	struct CUgraph_st *graph;
	struct cuda_work *work; /* NULL: an empty node */
};

struct CUgraph_st {
	uint64_t id; /* constant; never used again */
	struct CUgraphNode_st **node;
	int count, room;
	int is_captured_into; /* a capture owns it */
	int is_child;         /* a node owns it */
	int has_memory;       /* it has nodes that allocate or free */
};

/* What an executable graph does. A launch keeps the one it began with when an update puts another
 * one in its place. */
struct cuda_program {
	struct cuda_work **work;
	const struct CUgraphNode_st **node; /* what each came from: an address to compare with */
	int count;
	int references;
};

struct CUgraphExec_st {
	struct cuda_program *program;
	unsigned long long flags;
};

/* An empty graph. NULL when host memory is out. */
struct CUgraph_st *cuda_graph_new(void);

/* Starts a call that adds a node: all it depends on must be the graph's own. On success the driver's
 * lock is held. */
CUresult cuda_graph_begin_add(enum cuda_id id, CUgraphNode *out_node, CUgraph graph,
			      const CUgraphNode *dependencies, size_t count);

/* Takes a graph and its nodes away. */
void cuda_graph_delete(struct CUgraph_st *graph);

/* Adds a node; owns the work, also on failure. */
CUresult cuda_graph_add(struct CUgraph_st *graph, struct cuda_work *work,
			struct CUgraphNode_st **out_node);

/* A program of copies of the nodes' work. NULL when host memory is out. */
struct cuda_program *cuda_program_new(const struct CUgraph_st *graph);

/* One reference less; NULL is nothing. */
void cuda_program_put(struct cuda_program *program);

/* A copy of a program with its own reference. NULL when host memory is out. */
struct cuda_program *cuda_program_copy(const struct cuda_program *program);

/* Local memory for its kernels in the current context, if there is one: before anything is launched. */
CUresult cuda_program_grow(const struct cuda_program *program);

/* Work of a kernel node in the current context. */
CUresult cuda_graph_kernel_work(const CUDA_KERNEL_NODE_PARAMS *p, struct cuda_work **out_work);

/* A node that copies or fills, done by the context. */
CUresult cuda_graph_add_copy(CUgraph graph, const CUDA_MEMCPY3D *copy, CUcontext ctx,
			     CUgraphNode *out_node);
CUresult cuda_graph_add_fill(CUgraph graph, const CUDA_MEMSET_NODE_PARAMS *params, CUcontext ctx,
			     CUgraphNode *out_node);

/* The parameters of CUDA 10 in the form of today. */
CUDA_KERNEL_NODE_PARAMS cuda_graph_widen(const CUDA_KERNEL_NODE_PARAMS_v1 *p);

/* What a memset node fills, checked. */
CUresult cuda_graph_fill_area(const CUDA_MEMSET_NODE_PARAMS *p, struct CUctx_st *ctx,
			      struct cuda_area *out_area);
