/* The parameters of a kernel: all words among them that lie as pointers would. */
#pragma once

#include "abi/cuda.h"

typedef void uses_params_fn(CUdeviceptr word, void *arg);

/*
 * Shows each word to `see`: of `extra`, or unless there is that of `params`, by the sizes that the
 * driver tells of the function or kernel; of those nothing where it tells none. Both may be NULL.
 */
void uses_params(CUfunction function, void *const *params, void *const *extra, uses_params_fn *see,
		 void *arg);
