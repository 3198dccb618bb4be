/* Libraries: images loaded once, of which every context gets a module when it first needs one. */
#pragma once

#include "abi/cuda.h"
#include "cuda_kernel.h"

struct CUkern_st {
	const struct cuda_kernel *kernel;
	struct CUlib_st *library;
	int max_dynamic_shared_bytes; /* the driver's lock: of its function in every context */
	int carveout_pct;
};

struct CUlib_st {
	struct cuda_image *image;
	struct CUkern_st *kernel; /* one for each kernel */
};
