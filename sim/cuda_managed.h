/* Managed memory: host memory that becomes resident on a device where a kernel touches it. */
#pragma once

#include "cuda_range.h"

struct CUctx_st;

/* A managed range of the context; NULL when host and devices have no room for it. */
struct cuda_range *cuda_managed_new(struct CUctx_st *ctx, uint64_t bytes, unsigned flags);

/* A kernel or a fill of `ctx` touches these addresses: managed blocks among them become resident on
 * its device as long as it has room. The map's lock is held, shared. */
void cuda_managed_touch(const struct CUctx_st *ctx, uint64_t address, uint64_t size_bytes);

/* Gives the memory of a managed range back; it is out of the map already. */
void cuda_managed_release(struct cuda_range *range);
