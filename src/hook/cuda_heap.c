/* What a context keeps besides modules: its heaps and stacks, and green contexts. */
#include "core/gate.h"
#include "drv/gpu_fence.h"
#include "hook/first_launch.h"
#include "hook/metering.h"
#include "hook/overhead.h"

/* The stack's area cannot be told from local memory: what it will take is reserved before. */
static CUresult reserve_stack(struct local_growth *growth, CUlimit limit, size_t value)
{
	*growth = (struct local_growth){ .is_growing = false };
	if (limit != CU_LIMIT_STACK_SIZE || value > UINT32_MAX)
		return CUDA_SUCCESS;
	return first_launch_reserve(growth, (uint32_t)value, NULL);
}

/* A limit that takes more than the tenant's leaves is set back. */
CUresult hook_cuCtxSetLimit(CUlimit limit, size_t value)
{
	struct local_growth growth;
	struct overhead o;
	size_t before;
	CUresult res;
	bool has_before;
	int rc;

	if (!ENTER_HAS(cuCtxSetLimit))
		return enter_missing();
	overhead_begin(&o);
	has_before = o.counts && real.cuCtxGetLimit &&
		     real.cuCtxGetLimit(&before, limit) == CUDA_SUCCESS;
	res = reserve_stack(&growth, limit, value);
	if (res != CUDA_SUCCESS)
		return res;
	res = GATE_CALL(real.cuCtxSetLimit(limit, value));
	local_finish(&growth, res == CUDA_SUCCESS ? LOCAL_GREW : LOCAL_FAILED);
	if (res != CUDA_SUCCESS)
		return res;
	rc = overhead_finish(&o);
	/* What functions had may be gone with a smaller stack. */
	if (limit == CU_LIMIT_STACK_SIZE && overhead_fell(&o))
		local_shrink(&growth.use);
	if (rc == 0)
		return res;
	if (has_before && GATE_CALL(real.cuCtxSetLimit(limit, before)) == CUDA_SUCCESS &&
	    limit == CU_LIMIT_STACK_SIZE) {
		growth.use.thread_bytes = (uint32_t)before;
		local_shrink(&growth.use);
	}
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
	if (o.is_refused)
		return enter_refusal();
	res = GATE_CALL(real.cuGreenCtxCreate(out_green, desc, dev, flags));
	if (res == CUDA_SUCCESS)
		gpu_fence_add_primary((struct cuda_ord){ dev });
	if (res != CUDA_SUCCESS || overhead_finish(&o) == 0)
		return res;
	GATE_CALL(real.cuGreenCtxDestroy(*out_green));
	return overhead_refuse(&o);
}

/* The context of its own that it is current by; of an unknown one there is none. */
static void end_work_in(CUgreenCtx green)
{
	CUcontext ctx;

	if (real.cuCtxFromGreenCtx && real.cuCtxFromGreenCtx(&ctx, green) == CUDA_SUCCESS)
		metering_end_context(ctx);
}

/* Which device it was on no call tells: the calling thread's is looked at, the others later. */
CUresult hook_cuGreenCtxDestroy(CUgreenCtx green)
{
	struct overhead o;
	CUresult res;

	if (!ENTER_HAS(cuGreenCtxDestroy))
		return enter_missing();
	overhead_begin(&o);
	if (init_is_member())
		end_work_in(green);
	res = GATE_CALL(real.cuGreenCtxDestroy(green));
	if (res == CUDA_SUCCESS)
		overhead_finish(&o);
	return res;
}
