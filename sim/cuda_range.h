/*
 * The memory map: what lies at every address a kernel or a copy may use.
 *
 * Changes need the driver's lock and the map's own. Calls read it under the driver's lock; a worker
 * that executes reads it under the map's lock alone, which it holds while it touches the bytes, so
 * that a mapping cannot go away under its hands.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/cuda.h"

enum range_kind {
	RANGE_LINEAR, /* cuMemAlloc, cuMemAllocPitch */
	RANGE_MODULE, /* a module's own memory */
	RANGE_MANAGED,
	RANGE_HOST,       /* cuMemHostAlloc, cuMemAllocHost */
	RANGE_REGISTERED, /* cuMemHostRegister */
	RANGE_MAPPED,     /* a cuMemMap mapping */
	RANGE_POOL,       /* what a pool holds; its allocations are the pool's own */
	RANGE_IPC,        /* another process's linear memory */
	RANGE_ARRAY,      /* an array's, which has no address for programs */
	RANGE_EXTERNAL,   /* a buffer in imported memory */
	RANGE_GRAPH,      /* a graph's allocation, whether there is memory behind it or not */
};

struct cuda_block;
struct cuda_handle;
struct CUmemPoolHandle_st;

struct cuda_range {
	/* constant while it is in the map */
	uint64_t start, size_bytes;
	enum range_kind kind;
	CUdevice dev;         /* -1: on the host */
	int index;            /* RANGE_POOL: of the device in the machine */
	struct CUctx_st *ctx; /* NULL: of no context */
	unsigned flags;       /* as given to the call that made it */
	uint64_t buffer_id;
	struct cuda_block *block;   /* RANGE_LINEAR: the shared block it lies or ends in, or NULL */
	uint64_t taken_bytes;       /* size of it in the heap, 0 inside a block */
	struct cuda_handle *handle; /* RANGE_MAPPED, RANGE_EXTERNAL */
	uint64_t map_start;         /* RANGE_EXTERNAL: the pages it lies in, taken_bytes long */
	uint64_t file_offset;       /* RANGE_POOL of a pool with a file: where it is there */
	struct CUmemPoolHandle_st *pool; /* RANGE_POOL */
	_Atomic signed char *place; /* RANGE_MANAGED: of each 2 MiB: 0 the host, else device + 1 */
	/* the driver's lock */
	bool has_sync_memops;
	uint64_t export; /* of its own blocks (RANGE_LINEAR), of it (RANGE_POOL): machine_export.h */
	/* both locks: ordinals that may read and write (RANGE_MAPPED, RANGE_GRAPH) */
	uint64_t readers, writers;
};

/* What the toucher of memory is. */
enum range_access { RANGE_READ, RANGE_WRITE };

/* The range that holds `address`, or NULL. */
struct cuda_range *cuda_range_find(uint64_t address);

/* The range that starts at or behind `address`, or NULL. */
struct cuda_range *cuda_range_next(uint64_t address);

/* Puts a range into the map and numbers it; its addresses are free. 0 or -ENOMEM. */
int cuda_range_insert(struct cuda_range *range);

/* Takes it out; the caller frees it. */
void cuda_range_remove(struct cuda_range *range);

/* True when nothing in the map touches [start, start + size). */
bool cuda_range_is_free(uint64_t start, uint64_t size_bytes);

/* True when the whole span may be touched so by work of `ctx` that runs as a kernel. */
bool cuda_range_is_accessible(const struct CUctx_st *ctx, uint64_t address, uint64_t size_bytes,
			      enum range_access access);

/* The same for a copy, which reaches linear memory of every device. */
bool cuda_range_is_copyable(const struct CUctx_st *ctx, uint64_t address, uint64_t size_bytes,
			    enum range_access access);

/* True when the map has all of a span, as one range or as mappings side by side. */
bool cuda_range_is_spanned(uint64_t address, uint64_t size_bytes);

/* The map's lock: a worker holds it shared while it touches memory, a change holds it alone. */
void cuda_range_lock_shared(void);
void cuda_range_lock_alone(void);
void cuda_range_unlock(void);
