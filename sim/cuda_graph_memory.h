/*
 * Allocations of graphs. Each has its addresses from the moment its node is added; device memory is
 * behind them from the first upload or launch on, until the device's store is trimmed while no work
 * needs it. Who touches the addresses before the node ran or after the memory was freed touches
 * nothing. The driver's lock protects them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "abi/cuda.h"

struct CUgraph_st;
struct CUstream_st;
struct cuda_program;
struct cuda_work;

struct cuda_graph_chunk;

struct cuda_graph_memory {
	CUDA_MEM_ALLOC_NODE_PARAMS params; /* constant; with a list of accesses of its own */
	CUdevice dev;                      /* constant */
	uint64_t owner_id;                 /* constant: the graph that allocates it */
	uint64_t devices;                  /* constant: ordinals that may touch it */
	uint64_t taken_bytes;              /* constant: whole pages */
	struct cuda_range *range;          /* in the map from the first to the last moment */
	struct cuda_graph_chunk *chunk;    /* device memory behind it; NULL: none */
	int references;                    /* nodes, programs and frees; one for being unfreed */
	int uses;                          /* launches and frees under way */
	bool is_claimed;                   /* an executable graph allocates it */
	bool is_unfreed;                   /* launched, and to be freed from outside its graph */
	bool is_freed_by_owner, is_freed_by_other;
	bool is_freed_here; /* for the duration of one call: by the program at hand */
	struct cuda_graph_memory *next;
};

/* The allocation that starts at `address`; NULL when there is none. */
struct cuda_graph_memory *cuda_graph_memory_find(CUdeviceptr address);

/* An allocation as described, without a reference; `params` has its address afterwards. NULL when
 * host memory or addresses are out. */
struct cuda_graph_memory *cuda_graph_memory_new(const CUDA_MEM_ALLOC_NODE_PARAMS *params,
						uint64_t owner_id, uint64_t devices);

/* Work of a node that allocates or frees it. NULL when host memory is out; then an allocation that
 * nobody refers to is gone. */
struct cuda_work *cuda_graph_memory_alloc_work(struct cuda_graph_memory *memory);
struct cuda_work *cuda_graph_memory_free_work(struct cuda_graph_memory *memory);

/* The allocation of a node of this type; NULL when it is none, NULL for no work. */
struct cuda_graph_memory *cuda_graph_memory_of(const struct cuda_work *work, CUgraphNodeType type);

/* A cuMemAllocAsync or cuMemFreeAsync in a capturing stream becomes a node. */
CUresult cuda_graph_memory_capture_alloc(struct CUstream_st *stream, CUdevice dev, size_t bytes,
					 uint64_t *out_address);
CUresult cuda_graph_memory_capture_free(struct CUstream_st *stream, CUdeviceptr address);

/* Frees an allocation that a launch left: after all work of `ctx`, or in stream order. */
CUresult cuda_graph_memory_free(CUdeviceptr address, struct CUctx_st *ctx);
CUresult cuda_graph_memory_free_async(CUdeviceptr address, struct CUstream_st *stream);

/* True when a program has nodes of allocations. */
bool cuda_graph_memory_is_in(const struct cuda_program *program);

/* An executable graph begins: only one may be there of each allocation. It ends. */
CUresult cuda_graph_memory_claim(const struct cuda_program *program);
void cuda_graph_memory_unclaim(const struct cuda_program *program);

/* Puts device memory behind all allocations of a program. */
CUresult cuda_graph_memory_place(const struct cuda_program *program,
				 const struct CUstream_st *stream);

/* A launch of the program begins: as cuda_graph_memory_place(), and its allocations are in use until
 * cuda_graph_memory_done(). With `frees_itself` what an earlier launch left is freed first. */
CUresult cuda_graph_memory_launch(const struct cuda_program *program,
				  const struct CUstream_st *stream, bool frees_itself);
void cuda_graph_memory_done(const struct cuda_program *program);

/* The open file description of `fd` keeps all that its graph took with it; there is memory behind
 * it. */
CUresult cuda_graph_memory_mark(const struct cuda_graph_memory *memory, int fd);

/* Takes the device memory from behind allocations that no work needs, back into the store. */
void cuda_graph_memory_rest(CUdevice dev);

/* The last context of a device is gone: nothing of its store stays. */
void cuda_graph_memory_empty_device(CUdevice dev);
