/*
 * Memory pools. A pool takes regions of device memory, in units of 32 MiB, and cuts stream-ordered
 * allocations from them. The driver's lock protects it; its rights are the map's as well.
 */
#pragma once

#include <stdbool.h>

#include "cuda_pool_held.h"
#include "cuda_range.h"

struct CUstream_st;

/* May work on `dev` touch the pool's memory so? The map's lock is held. */
bool cuda_pool_is_accessible(const struct CUmemPoolHandle_st *pool, CUdevice dev,
			     enum range_access access);

/* The allocation that holds `address`; NULL when it is free. It is not in the map itself. */
struct cuda_range *cuda_pool_find(struct CUmemPoolHandle_st *pool, uint64_t address);

/* Frees the allocation that starts at `address`, now. */
CUresult cuda_pool_free(struct CUmemPoolHandle_st *pool, uint64_t address);

/* The pool that allocations on a device come from; NULL when host memory is out. */
struct CUmemPoolHandle_st *cuda_pool_current(CUdevice dev);

/* The device's own pool; NULL when host memory is out. */
struct CUmemPoolHandle_st *cuda_pool_default(CUdevice dev);

/* Makes a pool the current one of its device. */
void cuda_pool_set_current(CUdevice dev, struct CUmemPoolHandle_st *pool);

/* A new pool. With `fd` >= 0 its memory lies in that file, which is the pool's from then on, also on
 * failure. NULL when host memory is out. */
struct CUmemPoolHandle_st *cuda_pool_new(CUdevice dev, uint64_t max_bytes, int fd);

/* The same of managed memory. */
struct CUmemPoolHandle_st *cuda_pool_new_managed(CUdevice dev, uint64_t max_bytes);
bool cuda_pool_is_managed(const struct CUmemPoolHandle_st *pool);

/* The same for the file of another process's pool: it gives no memory out. */
struct CUmemPoolHandle_st *cuda_pool_new_imported(CUdevice dev, int fd);
bool cuda_pool_is_imported(const struct CUmemPoolHandle_st *pool);

/* What it holds that was shared. */
struct cuda_pool_held **cuda_pool_held(struct CUmemPoolHandle_st *pool);

/* The pool's file; -1 when it has none. */
int cuda_pool_file(const struct CUmemPoolHandle_st *pool);

/* An allocation of an imported pool: `bytes` from `offset` on in its file. */
CUresult cuda_pool_adopt(struct CUmemPoolHandle_st *pool, uint64_t offset, uint64_t bytes,
			 uint64_t *out_address);

/* Gives the memory of a region back; it is out of the map already. */
void cuda_pool_release(struct cuda_range *region);

/* Ends a pool, now or when its last allocation is freed. CUDA_ERROR_INVALID_VALUE for a default. */
CUresult cuda_pool_end(struct CUmemPoolHandle_st *pool);

/* Cuts an allocation for use in a stream, or frees one in stream order. */
CUresult cuda_pool_alloc(struct CUmemPoolHandle_st *pool, uint64_t bytes,
			 struct CUstream_st *stream, uint64_t *out_address);
CUresult cuda_pool_free_async(struct CUmemPoolHandle_st *pool, uint64_t address,
			      struct CUstream_st *stream);

/* Gives regions back that hold nothing, as long as more than `keep_bytes` stay. */
void cuda_pool_trim(struct CUmemPoolHandle_st *pool, uint64_t keep_bytes);

/* The host has waited for work: pools give back what is free above their thresholds. */
void cuda_pool_trim_all(void);

/* The last context of a device is gone: its pools are emptied. */
void cuda_pool_empty_device(CUdevice dev);

/* What a pool is asked and told. */
struct cuda_pool_stats {
	uint64_t reserved_bytes, reserved_high_bytes, used_bytes, used_high_bytes;
	uint64_t threshold_bytes, max_bytes;
	int reuse[3]; /* follow event dependencies, opportunistic, internal dependencies */
};
struct cuda_pool_stats *cuda_pool_stats(struct CUmemPoolHandle_st *pool);
CUdevice cuda_pool_device(const struct CUmemPoolHandle_st *pool);

/* Grants or takes the right of another device. */
void cuda_pool_set_access(struct CUmemPoolHandle_st *pool, CUdevice dev, bool allowed);
