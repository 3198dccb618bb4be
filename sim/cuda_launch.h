/* What a launch asks for, from whatever call it came. */
#pragma once

#include <stdbool.h>

#include "abi/cuda.h"

struct cuda_work;

struct cuda_launch {
	CUfunction func;
	unsigned grid[3], block[3];
	unsigned shared_bytes;
	void **params, **extra;
	bool is_cooperative;
	unsigned sms; /* it may use; 0: all of the device */
};

/*
 * Checks the launch for a context and makes work of it. The driver's lock is held. Local memory grows when
 * the work is submitted.
 */
CUresult cuda_launch_work(const struct cuda_launch *launch, struct CUctx_st *ctx,
			  struct cuda_work **out_work);
