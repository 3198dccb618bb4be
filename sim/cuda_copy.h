/* Copies in a line, and what copies in more dimensions share with them. */
#pragma once

#include <stdbool.h>

#include "abi/cuda.h"
#include "cuda_call.h"
#include "cuda_stream.h"

struct cuda_area;

/* Starts a copy in a stream that is to be found for the current context. On success the driver's
 * lock is held. */
CUresult cuda_copy_begin(enum cuda_id id, enum stream_default form, CUstream handle,
			 struct CUctx_st **out_ctx, struct CUstream_st **out_stream);

/* Submits a resolved copy; waits for it when the call is a synchronous one that touches the host, or
 * when pageable memory would be needed after it. The driver's lock is held. */
CUresult cuda_copy_submit(const struct cuda_area *area, struct CUstream_st *stream, bool is_sync);

/* Checks a description and resolves it for `ctx`. */
CUresult cuda_copy_area(const CUDA_MEMCPY3D *c, struct CUctx_st *ctx, struct cuda_area *out_area);

/* A pair: the call itself and the form whose default stream is the calling thread's. */
#define PAIR(symbol, twin, params, function, ...)                                 \
	CUresult symbol params                                                    \
	{                                                                         \
		return function(CUDA_ID_##symbol, DEFAULT_LEGACY, __VA_ARGS__);   \
	}                                                                         \
	CUresult twin params                                                      \
	{                                                                         \
		return function(CUDA_ID_##twin, DEFAULT_PER_THREAD, __VA_ARGS__); \
	}
