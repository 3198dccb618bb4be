/* What a context's limits cost: its stacks and local memory, and its heaps. The driver's lock
 * protects it. */
#pragma once

#include <stdint.h>

#include "abi/cuda.h"

struct CUctx_st;

/* A new context has the limits that its own cost holds. */
void cuda_limit_start(struct CUctx_st *ctx);

/* Gives back what its limits took. */
void cuda_limit_stop(struct CUctx_st *ctx);

/*
 * A kernel is to run whose threads need so much local memory each, of a module with these calls
 * (enum cuda_image_calls): the first that may use the heap brings it.
 */
CUresult cuda_limit_grow(struct CUctx_st *ctx, uint32_t thread_bytes, unsigned calls);

/* A module with these calls comes: its stack and its launches need room. */
CUresult cuda_limit_calls(struct CUctx_st *ctx, unsigned calls);
