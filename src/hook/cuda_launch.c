/* Every launch passes the gate, and is held and measured where GPU time is limited. */
#include "hook/gated.h"

/* Sizes of grid and block, bytes of shared memory: parameters b to h. */
#define SHAPE                                                                               \
	unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, \
		unsigned int
#define BLOCKS ((uint64_t)b * c * d)

WORK_WITH(cuLaunchKernel, uses_launch(a, j, k), a, work_kernel(i, false, a, BLOCKS), CUfunction,
	  SHAPE, CUstream, void **, void **)
WORK_WITH(cuLaunchKernel_ptsz, uses_launch(a, j, k), a, work_kernel(i, true, a, BLOCKS), CUfunction,
	  SHAPE, CUstream, void **, void **)
WORK_WITH(cuLaunchKernelEx, uses_launch(b, c, d), b, work_config(a, false, b),
	  const CUlaunchConfig *, CUfunction, void **, void **)
WORK_WITH(cuLaunchKernelEx_ptsz, uses_launch(b, c, d), b, work_config(a, true, b),
	  const CUlaunchConfig *, CUfunction, void **, void **)
WORK_WITH(cuLaunchCooperativeKernel, uses_launch(a, j, NULL), a, work_kernel(i, false, a, BLOCKS),
	  CUfunction, SHAPE, CUstream, void **)
WORK_WITH(cuLaunchCooperativeKernel_ptsz, uses_launch(a, j, NULL), a,
	  work_kernel(i, true, a, BLOCKS), CUfunction, SHAPE, CUstream, void **)
/* Of the calling thread's device: the driver wants one of each, from one thread. */
WORK(cuLaunchCooperativeKernelMultiDevice, a ? a->function : NULL, work_launches(a, b),
     CUDA_LAUNCH_PARAMS *, unsigned int, unsigned int)
WORK(cuLaunch, a, work_kernel(NULL, false, a, 1), CUfunction)
WORK(cuLaunchGrid, a, work_kernel(NULL, false, a, (uint64_t)(unsigned)b *(unsigned)c), CUfunction,
     int, int)
WORK(cuLaunchGridAsync, a, work_kernel(d, false, a, (uint64_t)(unsigned)b *(unsigned)c), CUfunction,
     int, int, CUstream)
