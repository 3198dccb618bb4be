/* Arrays: memory that only copies reach. This device keeps them row by row. The driver's lock
 * protects them. */
#pragma once

#include <stdint.h>

#include "abi/cuda.h"

struct CUarray_st {
	struct CUctx_st *ctx;
	struct cuda_range *memory;
	CUDA_ARRAY3D_DESCRIPTOR desc;
	uint64_t element_bytes, pitch_bytes, slice_bytes;
	struct CUmipmappedArray_st *mipmap; /* it is a level of this one; NULL: of its own */
	struct CUarray_st *next, **link;
};

/* The array a handle means; NULL when there is none. */
struct CUarray_st *cuda_array_find(CUarray handle);

/* A level of a mipmap; NULL when there is none. */
struct CUarray_st *cuda_array_level(CUmipmappedArray mipmap, unsigned level);

/* Takes away the arrays of a context that ends. */
void cuda_array_delete_all(struct CUctx_st *ctx);
