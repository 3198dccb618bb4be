#include "drv/gpu_object.h"

#include "base/process.h"
#include "core/gate.h"
#include "drv/epoch.h"
#include "drv/gpu_fence.h"
#include "drv/gpu_still.h"
#include "drv/gpu_vmm.h"
#include "drv/real.h"

#include <stdatomic.h>

struct gpu_object_state {
	/* One more than gate_passes() when all work was done; 0: that is not known. Atomic. */
	_Atomic uint64_t idle;
};
PROCESS_STATE(gpu_object_state, state);

void gpu_object_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
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

/* With more threads than these to look at a fence is cheaper. */
enum { FEW_CELLS = 16 };

/* While nobody has passed the gate since all was done there is nothing to wait for. */
static uint64_t fence(void *owner)
{
	(void)owner;
	if (gate_cells() <= FEW_CELLS &&
	    atomic_load_explicit(&state.s.idle, memory_order_acquire) == gate_passes() + 1)
		return 0;
	return epoch_open();
}

static uint64_t done(void *owner)
{
	uint64_t others = gate_passes_of_others(), open = epoch_open(), end = epoch_done(), all;

	(void)owner;
	if (end < open)
		return end;
	/* This thread has passed the gate too, but gave the device nothing. */
	all = gate_passes();
	if (gate_passes_of_others() == others)
		atomic_store_explicit(&state.s.idle, all + 1, memory_order_release);
	return end;
}

const struct object_ops gpu_object_ops = {
	.reserve = reserve,
	.fence = fence,
	.done = done,
	.bo = &gpu_bo_ops,
};
