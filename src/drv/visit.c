#include "drv/visit.h"

#include "core/green.h"
#include "drv/real.h"

#include <stdint.h>

bool visit_begin(CUcontext ctx)
{
	CUcontext current;

	return ctx && real.cuCtxGetCurrent && real.cuCtxPushCurrent_v2 && real.cuCtxPopCurrent_v2 &&
	       real.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current != ctx &&
	       real.cuCtxPushCurrent_v2(ctx) == CUDA_SUCCESS;
}

void visit_end(bool has_visited)
{
	CUcontext popped;

	if (has_visited)
		real.cuCtxPopCurrent_v2(&popped);
}

CUcontext visit_stream_context(CUstream stream)
{
	CUcontext ctx;

	if (!real.cuStreamGetCtx || real.cuStreamGetCtx(stream, &ctx) != CUDA_SUCCESS)
		return NULL;
	return (CUcontext)(uintptr_t)green_owner(ctx);
}
