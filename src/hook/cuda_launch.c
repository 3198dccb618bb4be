/* Every launch passes the gate. */
#include "core/gate.h"
#include "hook/enter.h"

/*
 * Defines hook_<sym>(params): passes the gate, calls the driver with args, leaves. The driver is
 * there when it is called by a pointer that we handed out; a linked program may come first.
 */
#define GATED(sym, params, args)                \
	CUresult hook_##sym params              \
	{                                       \
		uint32_t was_in;                \
		CUresult res;                   \
                                                \
		if (!ENTER_HAS(sym))            \
			return enter_missing(); \
		was_in = gate_enter();          \
		res = real.sym args;            \
		gate_leave(was_in);             \
		return res;                     \
	}

#define KERNEL_PARAMS                                                                        \
	(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, \
	 unsigned int block_x, unsigned int block_y, unsigned int block_z,                   \
	 unsigned int shared_bytes, CUstream stream, void **params, void **extra)
#define KERNEL_ARGS                                                                         \
	(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, \
	 params, extra)

#define EX_PARAMS (const CUlaunchConfig *config, CUfunction function, void **params, void **extra)
#define EX_ARGS (config, function, params, extra)

#define COOPERATIVE_PARAMS                                                                   \
	(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, \
	 unsigned int block_x, unsigned int block_y, unsigned int block_z,                   \
	 unsigned int shared_bytes, CUstream stream, void **params)
#define COOPERATIVE_ARGS \
	(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, params)

#define MULTI_PARAMS (CUDA_LAUNCH_PARAMS * launches, unsigned int count, unsigned int flags)
#define MULTI_ARGS (launches, count, flags)

GATED(cuLaunchKernel, KERNEL_PARAMS, KERNEL_ARGS)
GATED(cuLaunchKernel_ptsz, KERNEL_PARAMS, KERNEL_ARGS)
GATED(cuLaunchKernelEx, EX_PARAMS, EX_ARGS)
GATED(cuLaunchKernelEx_ptsz, EX_PARAMS, EX_ARGS)
GATED(cuLaunchCooperativeKernel, COOPERATIVE_PARAMS, COOPERATIVE_ARGS)
GATED(cuLaunchCooperativeKernel_ptsz, COOPERATIVE_PARAMS, COOPERATIVE_ARGS)
GATED(cuLaunchCooperativeKernelMultiDevice, MULTI_PARAMS, MULTI_ARGS)
GATED(cuLaunch, (CUfunction function), (function))
GATED(cuLaunchGrid, (CUfunction function, int width, int height), (function, width, height))
GATED(cuLaunchGridAsync, (CUfunction function, int width, int height, CUstream stream),
      (function, width, height, stream))
