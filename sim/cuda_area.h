/* Copies and fills of areas of memory, from whatever call they come. */
#pragma once

#include <stdbool.h>

#include "abi/cuda.h"
#include "cuda_work.h"

/* What a call says about one side of a copy. */
enum area_side {
	SIDE_ANY, /* the map tells; what is not in it is host memory */
	SIDE_HOST,
	SIDE_DEVICE, /* must be in the map */
	SIDE_ARRAY,  /* an array's memory */
};

/* Fills in who owns the memory of both sides and checks that the map has all of it. An area with
 * nothing in it is valid. */
CUresult cuda_area_resolve(struct cuda_area *area, struct CUctx_st *ctx, enum area_side dst,
			   enum area_side src);

/* The same for a fill. */
CUresult cuda_area_resolve_fill(struct cuda_area *area, struct CUctx_st *ctx);

/*
 * A call in a stream of another device than the thread's context is on: that has to reach both
 * sides too. When it does not, the work fails.
 */
void cuda_area_ask(struct cuda_area *area, struct CUctx_st *current);

/* True when there is nothing to copy or to fill. */
bool cuda_area_is_empty(const struct cuda_area *area);

/* True when a side of it is pageable host memory. */
bool cuda_area_is_pageable(const struct cuda_area *area);

/* True when a side of it is host memory of any kind. */
bool cuda_area_has_host(const struct cuda_area *area);

/* Work that does it; with `may_stage` a small pageable source is read now. NULL when host memory is
 * out. */
struct cuda_work *cuda_area_copy_work(const struct cuda_area *area, bool may_stage);
struct cuda_work *cuda_area_fill_work(const struct cuda_area *area);
