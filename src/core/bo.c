#include "core/bo.h"

#include "core/bo_device.h"
#include "core/bo_reap.h"
#include "core/bo_reserve.h"
#include "core/bo_round.h"

#include <stddef.h>

void bo_init(struct bo *bo, struct bo_device *device, uint64_t addr, uint64_t bytes,
	     unsigned priority)
{
	*bo = (struct bo){
		.device = device,
		.addr = addr,
		.bytes = bytes,
		.refs = 1,
		.priority = (uint8_t)(priority < BO_PRIORITIES ? priority : BO_PRIORITIES - 1),
	};
	bo_device_lock(device);
	bo_device_list(bo);
	bo_device_unlock(device);
}

struct bo *bo_get(struct bo *bo)
{
	__atomic_add_fetch(&bo->refs, 1, __ATOMIC_RELAXED);
	return bo;
}

void bo_put(struct bo *bo)
{
	bool is_ours;

	/* Acquires what the other holders did to it before they gave theirs back. */
	if (__atomic_sub_fetch(&bo->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	bo_device_lock(bo->device);
	bo->is_deleted = true;
	bo_device_list(bo);
	is_ours = bo_reserve_try(bo, NULL);
	bo_device_unlock(bo->device);
	if (is_ours)
		bo_reap_one(bo);
}

void bo_add_fence(struct bo *bo, uint64_t fence)
{
	bo_device_lock(bo->device);
	if (fence > bo->fence)
		bo->fence = fence;
	bo_device_unlock(bo->device);
}

int bo_wait(struct bo *bo, const struct bo_ctx *ctx)
{
	struct bo_ctx how = { .no_wait = ctx && ctx->no_wait };
	struct bo_round round = { .ctx = &how };

	return bo_round_wait(&round, bo);
}

void bo_pin(struct bo *bo)
{
	bo_device_lock(bo->device);
	if (bo->pins++ == 0)
		bo_device_list(bo);
	bo_device_unlock(bo->device);
}

void bo_unpin(struct bo *bo)
{
	bo_device_lock(bo->device);
	if (bo->pins && --bo->pins == 0)
		bo_device_list(bo);
	bo_device_unlock(bo->device);
}

void bo_touch(struct bo *bo)
{
	bo_device_lock(bo->device);
	if (!bo->is_deleted && !bo->pins)
		bo_device_list(bo);
	bo_device_unlock(bo->device);
}
