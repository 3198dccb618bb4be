/* How many blocks of a kernel fit: the question brings its library into the context. */
#include "hook/first_launch.h"
#include "hook/gated.h"

/* Defines hook_<sym>; `function` is the parameter, a, b, c..., that is the kernel. */
#define QUESTION(sym, function, ...)                                \
	CUresult hook_##sym(GATED_PARAMS(__VA_ARGS__))              \
	{                                                           \
		CUresult res;                                       \
                                                                    \
		if (!ENTER_HAS(sym))                                \
			return enter_missing();                     \
		res = first_launch_let_in(function);                \
		if (res != CUDA_SUCCESS)                            \
			return res;                                 \
		return ROOM_ASK(real.sym(GATED_ARGS(__VA_ARGS__))); \
	}

QUESTION(cuOccupancyAvailableDynamicSMemPerBlock, b, size_t *, CUfunction, int, int)
QUESTION(cuOccupancyMaxActiveBlocksPerMultiprocessor, b, int *, CUfunction, int, size_t)
QUESTION(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, b, int *, CUfunction, int, size_t,
	 unsigned int)
QUESTION(cuOccupancyMaxActiveClusters, b, int *, CUfunction, const CUlaunchConfig *)
QUESTION(cuOccupancyMaxPotentialBlockSize, c, int *, int *, CUfunction, CUoccupancyB2DSize, size_t,
	 int)
QUESTION(cuOccupancyMaxPotentialBlockSizeWithFlags, c, int *, int *, CUfunction, CUoccupancyB2DSize,
	 size_t, int, unsigned int)
QUESTION(cuOccupancyMaxPotentialClusterSize, b, int *, CUfunction, const CUlaunchConfig *)
