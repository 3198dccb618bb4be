/* Small allocations of one context share blocks of 2 MiB, in units of 512 bytes. */
#pragma once

#include <stdint.h>

#define BLOCK_UNIT_BYTES ((uint64_t)512)

struct CUctx_st;
struct cuda_block;

/* Takes `size_bytes` (less than a block) for `ctx`, in an open block or a new one. 0 or -ENOMEM. */
int cuda_block_take(struct CUctx_st *ctx, uint64_t size_bytes, uint64_t *out_address,
		    struct cuda_block **out_block);

/* Gives it back; an empty block goes back to the device. */
void cuda_block_give(struct cuda_block *block, uint64_t address, uint64_t size_bytes);
