/*
 * Nodes that are graphs themselves. Such a node has a copy of the graph it was made of; an executable
 * graph has the nodes of that in the place of the node. The driver's lock protects them.
 */
#pragma once

struct CUgraph_st;
struct cuda_work;

/* The graph of a node's work; NULL when that is something else, NULL for no work. */
struct CUgraph_st *cuda_graph_child_of(const struct cuda_work *work);

/* Copies of a graph and of a node's work with all that is in it; NULL when host memory is out. */
struct CUgraph_st *cuda_graph_copy(const struct CUgraph_st *graph);
struct cuda_work *cuda_graph_copy_work(const struct cuda_work *work);
