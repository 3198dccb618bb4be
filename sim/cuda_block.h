/*
 * Small allocations of one context share blocks of 2 MiB, in units of 512 bytes. The room behind
 * the end of a larger one is such a block too. Arrays share with arrays alone (docs/real-gpu.md). The driver's lock protects them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define BLOCK_UNIT_BYTES ((uint64_t)512)
/* The largest allocation that shares a block. */
#define BLOCK_SHARED_BYTES ((uint64_t)1 << 20)

struct CUctx_st;
struct cuda_block;

/* Takes `size_bytes`, at most BLOCK_SHARED_BYTES, for `ctx` in an open block or a new one. 0 or
 * -ENOMEM. */
int cuda_block_take(struct CUctx_st *ctx, bool is_array, uint64_t size_bytes, uint64_t *out_address,
		    struct cuda_block **out_block);

/* Opens a block of `ctx` that is taken already, the first `used_bytes` of it being an allocation's.
 * NULL when host memory is out. */
struct cuda_block *cuda_block_open(struct CUctx_st *ctx, bool is_array, uint64_t start,
				   uint64_t used_bytes);

/* Where to keep what names its memory among exports; 0 at first. */
uint64_t *cuda_block_export(struct cuda_block *block);

/* Gives it back; an empty block goes back to the device. */
void cuda_block_give(struct cuda_block *block, uint64_t address, uint64_t size_bytes);
