/*
 * One piece of work in a stream, and the worker that executes it.
 *
 * Work is readied and released under the driver's lock, and run without it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "abi/cuda.h"
#include "cuda_turn.h"

struct CUgraph_st;
struct cuda_graph_memory;
struct cuda_kernel;
struct cuda_pool_piece;
struct cuda_record;
struct cuda_tile_call;
struct cuda_program;
struct CUstream_st;

enum { WORK_PARAMS = 6 };

struct cuda_work;

struct cuda_work_ops {
	CUgraphNodeType node_type; /* what it is in a graph */
	bool needs_turn;           /* executes on the device */
	/* May it start now? NULL: always. The driver's lock is held. */
	bool (*is_ready)(const struct cuda_work *work);
	/* Executes. The driver's lock is not held. */
	CUresult (*run)(struct cuda_work *work, struct CUctx_st *ctx, struct cuda_turn *turn);
	/* A copy of it was made, whose it becomes; may be NULL. The driver's lock is held. */
	void (*retain)(struct cuda_work *copy);
	/* Called once at the end, whether it ran or not, under the driver's lock; may be NULL. */
	void (*release)(struct cuda_work *work);
};

/* A copy or a fill of `depth` slices of `height` rows. */
struct cuda_area {
	uint64_t dst, src;
	uint64_t dst_pitch_bytes, src_pitch_bytes; /* from row to row */
	uint64_t dst_slice_bytes, src_slice_bytes; /* from slice to slice */
	uint64_t width_bytes, height, depth;
	uint32_t value;
	int value_bytes;
	uint64_t dst_mapping, src_mapping; /* the memory behind a mapped address; else its place */
	void *staging; /* the source's bytes, taken at the call; freed with the work */
	struct CUctx_st *dst_ctx, *src_ctx; /* whose rights count */
	bool is_dst_host, is_src_host;      /* pageable: no right needed */
	bool is_denied;                     /* the context that asked for it has no right */
};

struct cuda_work {
	struct cuda_work *next;
	uint64_t ticket; /* order of submission in the context */
	const struct cuda_work_ops *ops;
	union {
		struct {
			const struct cuda_kernel *kernel;
			uint64_t param[WORK_PARAMS];
			void *param_at[WORK_PARAMS]; /* once somebody asked for them */
			CUfunction func;             /* or a kernel, as it was named */
			struct CUctx_st *ctx;        /* where it runs */
			unsigned grid[3], block[3], shared_bytes;
			uint32_t local_bytes; /* of a thread */
			unsigned calls;       /* enum image_calls of its module */
		} launch;
		struct cuda_area area;
		struct {
			CUhostFn fn;
			CUstreamCallback callback;
			CUstream stream;
			void *data;
		} host;
		struct cuda_record *record;
		struct {
			uint64_t address, value;
			unsigned flags;
			int bytes;
		} value;
		struct {
			uint64_t address, bytes;
			int index; /* of the device in the machine, or HEAP_HOST */
		} prefetch;
		struct cuda_pool_piece *piece;
		struct cuda_program *program;
		struct CUgraph_st *child; /* the node's own */
		struct cuda_graph_memory *memory;
		struct cuda_tile_call *tiles;
	};
};

/* Zeroed work; NULL when host memory is out. */
struct cuda_work *cuda_work_new(const struct cuda_work_ops *ops);

/* A copy of work that was never queued. Its staging is shared. NULL when host memory is out. */
struct cuda_work *cuda_work_copy(const struct cuda_work *work);

/* Work that calls a host function. NULL when host memory is out. */
struct cuda_work *cuda_host_work(CUhostFn fn, void *data);

/* Releases work that has run or never will. */
void cuda_work_delete(struct cuda_work *work);

/* Makes sure the stream's worker is there and awake. 0 or -errno. */
int cuda_work_wake(struct CUstream_st *stream);

/* Sleeps until some work has ended somewhere or cuda_work_changed() was called. The driver's lock
 * must be held; it is dropped meanwhile. */
void cuda_work_wait(void);

/* Wakes all who sleep in cuda_work_wait(). */
void cuda_work_changed(void);
