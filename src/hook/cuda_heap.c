/* What a context keeps besides modules: its heaps and stacks, and green contexts. */
#include "core/gate.h"
#include "hook/overhead.h"

/* A limit that takes more than the tenant's leaves is set back. */
CUresult hook_cuCtxSetLimit(CUlimit limit, size_t value)
{
	struct overhead o;
	size_t before;
	CUresult res;
	bool has_before;

	if (!ENTER_HAS(cuCtxSetLimit))
		return enter_missing();
	overhead_begin(&o);
	has_before = o.counts && real.cuCtxGetLimit &&
		     real.cuCtxGetLimit(&before, limit) == CUDA_SUCCESS;
	res = GATE_CALL(real.cuCtxSetLimit(limit, value));
	if (res != CUDA_SUCCESS || overhead_finish(&o) == 0)
		return res;
	if (has_before)
		GATE_CALL(real.cuCtxSetLimit(limit, before));
	return overhead_refuse(&o);
}

CUresult hook_cuGreenCtxCreate(CUgreenCtx *out_green, CUdevResourceDesc desc, CUdevice dev,
			       unsigned int flags)
{
	struct overhead o;
	CUresult res;

	if (!ENTER_HAS(cuGreenCtxCreate))
		return enter_missing();
	overhead_begin_on(&o, dev);
	res = GATE_CALL(real.cuGreenCtxCreate(out_green, desc, dev, flags));
	if (res != CUDA_SUCCESS || overhead_finish(&o) == 0)
		return res;
	GATE_CALL(real.cuGreenCtxDestroy(*out_green));
	return overhead_refuse(&o);
}

/* Which device it was on no call tells: the calling thread's is looked at, the others later. */
CUresult hook_cuGreenCtxDestroy(CUgreenCtx green)
{
	struct overhead o;
	CUresult res;

	if (!ENTER_HAS(cuGreenCtxDestroy))
		return enter_missing();
	overhead_begin(&o);
	res = GATE_CALL(real.cuGreenCtxDestroy(green));
	if (res == CUDA_SUCCESS)
		overhead_finish(&o);
	return res;
}
