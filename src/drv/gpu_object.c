#include "drv/gpu_object.h"

#include "core/gate.h"
#include "drv/epoch.h"
#include "drv/gpu_fence.h"
#include "drv/gpu_still.h"
#include "drv/gpu_vmm.h"
#include "drv/real.h"

void gpu_object_init(void)
{
	gpu_bo_init();
	gpu_still_init();
	gpu_fence_init();
	epoch_init();
}

CUresult gpu_object_sync_memops(const void *ctx)
{
	CUcontext popped;
	unsigned flags;
	CUresult res;

	if (!real.cuCtxGetFlags || !real.cuCtxSetFlags || !real.cuCtxPushCurrent_v2 ||
	    !real.cuCtxPopCurrent_v2 ||
	    real.cuCtxPushCurrent_v2((CUcontext)(uintptr_t)ctx) != CUDA_SUCCESS)
		return CUDA_ERROR_NOT_SUPPORTED;
	res = real.cuCtxGetFlags(&flags);
	if (res == CUDA_SUCCESS && !(flags & CU_CTX_SYNC_MEMOPS))
		res = real.cuCtxSetFlags(flags | CU_CTX_SYNC_MEMOPS);
	real.cuCtxPopCurrent_v2(&popped);
	return res == CUDA_SUCCESS ? res : CUDA_ERROR_NOT_SUPPORTED;
}

bool gpu_object_can_spill(struct cuda_ord ord)
{
	struct gpu_bo *owner;

	return gpu_bo_open(ord, NULL, &owner) == 0 && gpu_bo_has_gtt(owner);
}

static int reserve(void *owner, uint64_t bytes, uint64_t *out_addr)
{
	(void)owner;
	return GATE_CALL(gpu_vmm_reserve(bytes, 0, out_addr));
}

static uint64_t fence(void *owner)
{
	(void)owner;
	return epoch_is_idle() ? 0 : epoch_open();
}

static uint64_t done(void *owner)
{
	(void)owner;
	return epoch_done();
}

const struct object_ops gpu_object_ops = {
	.reserve = reserve,
	.fence = fence,
	.done = done,
	.bo = &gpu_bo_ops,
};
