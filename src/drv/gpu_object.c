#include "drv/gpu_object.h"

#include "base/clock.h"
#include "base/process.h"
#include "drv/gpu_vmm.h"
#include "drv/real.h"
#include "drv/relaxed.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

enum { DEVICES = GPU_VMM_DEVICES };

struct gpu_object {
	struct cuda_ord ord; /* constant after gpu_object_owner() */
	_Atomic uint64_t epoch;
};

struct gpu_object_state {
	struct gpu_object devices[DEVICES];
};
PROCESS_STATE(gpu_object_state, state);

void gpu_object_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

void *gpu_object_owner(struct cuda_ord ord)
{
	if (ord.v < 0 || ord.v >= DEVICES || !gpu_vmm_is_there(ord))
		return NULL;
	state.s.devices[ord.v].ord = ord;
	return &state.s.devices[ord.v];
}

void gpu_object_enter_context(struct cuda_ord ord, const void *ctx)
{
	(void)ord;
	(void)ctx;
}

void gpu_object_leave_context(const void *ctx)
{
	(void)ctx;
}

CUresult gpu_object_sync_memops(const void *ctx)
{
	CUcontext popped;
	unsigned flags;
	CUresult res;

	if (!real.cuCtxGetFlags || !real.cuCtxSetFlags ||
	    real.cuCtxPushCurrent_v2((CUcontext)(uintptr_t)ctx) != CUDA_SUCCESS)
		return CUDA_ERROR_NOT_SUPPORTED;
	res = real.cuCtxGetFlags(&flags);
	if (res == CUDA_SUCCESS && !(flags & CU_CTX_SYNC_MEMOPS))
		res = real.cuCtxSetFlags(flags | CU_CTX_SYNC_MEMOPS);
	real.cuCtxPopCurrent_v2(&popped);
	return res == CUDA_SUCCESS ? res : CUDA_ERROR_NOT_SUPPORTED;
}

static int reserve(void *owner, uint64_t bytes, uint64_t *out_addr)
{
	(void)owner;
	return gpu_vmm_reserve(bytes, 0, out_addr);
}

static uint64_t fence(void *owner)
{
	struct gpu_object *g = owner;

	return atomic_load(&g->epoch) + 1;
}

static uint64_t done(void *owner)
{
	struct gpu_object *g = owner;
	uint64_t e = atomic_load(&g->epoch) + 1;

	if (real.cuCtxSynchronize && real.cuCtxSynchronize() == CUDA_SUCCESS)
		atomic_store(&g->epoch, e);
	return atomic_load(&g->epoch);
}

static int alloc(void *owner, const struct bo *bo, enum bo_place place,
		 struct bo_memory *out_memory)
{
	struct gpu_object *g = owner;
	int rc;

	if (place != BO_VRAM)
		return -ENOSPC;
	rc = gpu_vmm_create(g->ord, GPU_VMM_DEVICE, bo->bytes, &out_memory->handle);
	out_memory->bytes = bo->bytes;
	return rc == -ENOMEM ? -ENOSPC : rc;
}

static void free_memory(void *owner, enum bo_place place, struct bo_memory memory)
{
	(void)owner;
	(void)place;
	gpu_vmm_release(memory.handle);
}

static void move_one(struct gpu_object *g, struct bo_move *m)
{
	if (m->to_place == BO_VRAM && m->from_place == BO_NONE) {
		m->rc = gpu_vmm_map(m->bo->addr, m->bo->bytes, m->to.handle);
		if (m->rc == 0) {
			m->rc = gpu_vmm_allow(m->bo->addr, m->bo->bytes, &g->ord, 1);
			if (m->rc < 0)
				gpu_vmm_unmap(m->bo->addr, m->bo->bytes);
		}
	} else if (m->to_place == BO_NONE && m->from_place == BO_VRAM) {
		m->rc = gpu_vmm_unmap(m->bo->addr, m->bo->bytes);
	} else {
		m->rc = -ENOTSUP;
	}
}

static void move(void *owner, struct bo_move *moves, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		move_one(owner, &moves[i]);
}

static bool is_done(void *owner, uint64_t number)
{
	struct gpu_object *g = owner;

	return number <= atomic_load(&g->epoch) || number <= done(owner);
}

static int wait_for(void *owner, uint64_t number, int64_t until_ns)
{
	(void)until_ns;
	return is_done(owner, number) ? 0 : -EBUSY;
}

static const struct bo_ops bo_ops = {
	.alloc = alloc,
	.free = free_memory,
	.move = move,
	.is_done = is_done,
	.wait = wait_for,
};

const struct object_ops gpu_object_ops = {
	.reserve = reserve,
	.fence = fence,
	.done = done,
	.bo = &bo_ops,
};
