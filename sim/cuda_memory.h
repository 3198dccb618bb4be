/* Linear device memory. The driver's lock protects it. */
#pragma once

#include <stdint.h>

#include "cuda_range.h"

/* Device memory of `ctx` in the map. NULL when the device or the host is full. */
struct cuda_range *cuda_memory_new(struct CUctx_st *ctx, uint64_t size_bytes, enum range_kind kind);

/* Of a range of its own in the heap: what lies in whole blocks that it alone has. */
uint64_t cuda_memory_own_bytes(const struct cuda_range *range);

/* Takes a range of any kind out of the map and gives its memory back, without waiting. */
void cuda_memory_delete(struct cuda_range *range);

/* As cuMemFree() of linear memory: after all work of its context. */
CUresult cuda_memory_free(CUdeviceptr address);

/* Frees all linear, managed and pinned memory of a context that ends. */
void cuda_memory_delete_all(struct CUctx_st *ctx);
