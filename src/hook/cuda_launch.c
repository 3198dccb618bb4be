/* Every launch passes the gate, and is held and measured where GPU time is limited. */
#include "drv/visit.h"
#include "hook/gated.h"

/* Sizes of grid and block, bytes of shared memory: parameters b to h. */
#define SHAPE                                                                               \
	unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, \
		unsigned int
#define BLOCKS ((uint64_t)b * c * d)
/* What NULL means to the calls for per-thread streams. */
#define OWN(stream) ((stream) ? (stream) : CU_STREAM_PER_THREAD)

static void uses_config(const CUlaunchConfig *config, bool is_per_thread, CUfunction function,
			void *const *params, void *const *extra)
{
	if (!config)
		return;
	uses_launch(function, (uint64_t)config->gridDimX * config->gridDimY * config->gridDimZ,
		    is_per_thread ? OWN(config->hStream) : config->hStream, params, extra);
}

WORK_WITH(cuLaunchKernel, uses_launch(a, BLOCKS, i, j, k), a, work_kernel(i, false, a, BLOCKS),
	  CUfunction, SHAPE, CUstream, void **, void **)
WORK_WITH(cuLaunchKernel_ptsz, uses_launch(a, BLOCKS, OWN(i), j, k), a,
	  work_kernel(i, true, a, BLOCKS), CUfunction, SHAPE, CUstream, void **, void **)
WORK_WITH(cuLaunchKernelEx, uses_config(a, false, b, c, d), b, work_config(a, false, b),
	  const CUlaunchConfig *, CUfunction, void **, void **)
WORK_WITH(cuLaunchKernelEx_ptsz, uses_config(a, true, b, c, d), b, work_config(a, true, b),
	  const CUlaunchConfig *, CUfunction, void **, void **)
WORK_WITH(cuLaunchCooperativeKernel, uses_launch(a, BLOCKS, i, j, NULL), a,
	  work_kernel(i, false, a, BLOCKS), CUfunction, SHAPE, CUstream, void **)
WORK_WITH(cuLaunchCooperativeKernel_ptsz, uses_launch(a, BLOCKS, OWN(i), j, NULL), a,
	  work_kernel(i, true, a, BLOCKS), CUfunction, SHAPE, CUstream, void **)
WORK(cuLaunch, a, work_kernel(NULL, false, a, 1), CUfunction)
WORK(cuLaunchGrid, a, work_kernel(NULL, false, a, (uint64_t)(unsigned)b *(unsigned)c), CUfunction,
     int, int)
WORK(cuLaunchGridAsync, a, work_kernel(d, false, a, (uint64_t)(unsigned)b *(unsigned)c), CUfunction,
     int, int, CUstream)

/* The launch's work in its own device: the context of its stream is the thread's meanwhile. */
static CUresult begin_one(struct work *w, const CUDA_LAUNCH_PARAMS *launch)
{
	uint64_t blocks = (uint64_t)launch->gridDimX * launch->gridDimY * launch->gridDimZ;
	bool has_visited = visit_begin(visit_stream_context(launch->hStream));
	CUresult res = work_begin(w, work_kernel(launch->hStream, false, launch->function, blocks));

	visit_end(has_visited);
	return res;
}

static void end_one(struct work *w, const CUDA_LAUNCH_PARAMS *launch, CUresult res)
{
	bool has_visited = visit_begin(visit_stream_context(launch->hStream));

	work_end(w, res);
	visit_end(has_visited);
}

/* One launch in each of several devices: each counts in its own. What is none the driver refuses. */
CUresult hook_cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launches, unsigned int count,
						   unsigned int flags)
{
	unsigned int begun = 0, most = launches && count <= RATION_DEVICES ? count : 0;
	struct work w[RATION_DEVICES];
	CUresult res = CUDA_SUCCESS;

	if (!ENTER_HAS(cuLaunchCooperativeKernelMultiDevice))
		return enter_missing();
	for (; begun < most && res == CUDA_SUCCESS; begun++)
		res = begin_one(&w[begun], &launches[begun]);
	/* What was refused has ended itself. */
	if (res != CUDA_SUCCESS)
		begun--;
	else
		res = GATE_CALL(real.cuLaunchCooperativeKernelMultiDevice(launches, count, flags));
	for (unsigned int i = 0; i < begun; i++)
		end_one(&w[i], &launches[i], res);
	return res;
}
