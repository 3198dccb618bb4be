/*
 * Graphs. A graph keeps its nodes in the order they came, which satisfies all their dependencies;
 * an executable graph is a copy of them that a stream runs one after the other. The driver's lock
 * protects both.
 */
#pragma once

#include "abi/cuda.h"

struct cuda_work;

struct CUgraphNode_st {
	struct CUgraph_st *graph;
	struct cuda_work *work; /* NULL: an empty node */
};

struct CUgraph_st {
	struct CUgraphNode_st **node;
	int count, room;
	int is_captured_into; /* a capture owns it */
};

struct CUgraphExec_st {
	struct cuda_work **work;
	int count;
	int references; /* by handle and by launches under way */
	unsigned long long flags;
};

/* An empty graph. NULL when host memory is out. */
struct CUgraph_st *cuda_graph_new(void);

/* Takes a graph and its nodes away. */
void cuda_graph_delete(struct CUgraph_st *graph);

/* Adds a node; owns the work, also on failure. */
CUresult cuda_graph_add(struct CUgraph_st *graph, struct cuda_work *work,
			struct CUgraphNode_st **out_node);
