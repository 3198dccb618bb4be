/* Copies described in one, two or three dimensions. */
#pragma once

#include <stdbool.h>

#include "abi/cuda.h"

struct cuda_area;
struct CUstream_st;

/* Submits a resolved copy; waits for it when the call is a synchronous one that touches the host, or
 * when pageable memory would be needed after it. The driver's lock is held. */
CUresult cuda_copy_submit(const struct cuda_area *area, struct CUstream_st *stream, bool is_sync);

/* Checks a description and resolves it for `ctx`. */
CUresult cuda_copy_area(const CUDA_MEMCPY3D *c, struct CUctx_st *ctx, struct cuda_area *out_area);
