/* Every launch passes the gate. */
#include "hook/gated.h"

/* Sizes of grid and block, bytes of shared memory. */
#define SHAPE                                                                               \
	unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, \
		unsigned int

WORK(cuLaunchKernel, ((struct work_call){ .stream = i, .kind = (uint64_t)(uintptr_t)a }),
     CUfunction, SHAPE, CUstream, void **, void **)
GATED(cuLaunchKernel_ptsz, CUfunction, SHAPE, CUstream, void **, void **)
GATED(cuLaunchKernelEx, const CUlaunchConfig *, CUfunction, void **, void **)
GATED(cuLaunchKernelEx_ptsz, const CUlaunchConfig *, CUfunction, void **, void **)
GATED(cuLaunchCooperativeKernel, CUfunction, SHAPE, CUstream, void **)
GATED(cuLaunchCooperativeKernel_ptsz, CUfunction, SHAPE, CUstream, void **)
GATED(cuLaunchCooperativeKernelMultiDevice, CUDA_LAUNCH_PARAMS *, unsigned int, unsigned int)
GATED(cuLaunch, CUfunction)
GATED(cuLaunchGrid, CUfunction, int, int)
GATED(cuLaunchGridAsync, CUfunction, int, int, CUstream)
