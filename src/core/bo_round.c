#include "core/bo_round.h"

#include "base/clock.h"
#include "core/bo_device.h"

#include <errno.h>

void bo_round_begin(struct bo_round *round, struct bo_device *device, struct bo_ctx *ctx)
{
	*round = (struct bo_round){
		.ctx = ctx,
		.id = __atomic_add_fetch(&device->rounds, 1, __ATOMIC_RELAXED),
	};
}

int64_t bo_round_until(struct bo_round *round)
{
	if (round->ctx->no_wait)
		return 1;
	if (!round->until_ns)
		round->until_ns = clock_now_ns() + BO_WAIT_NS;
	return round->until_ns;
}

int bo_round_wait(struct bo_round *round, struct bo *bo)
{
	const struct bo_device *device = bo->device;
	uint64_t fence;

	bo_device_lock(bo->device);
	fence = bo->fence;
	bo_device_unlock(bo->device);
	if (!fence || device->ops->is_done(device->owner, fence))
		return 0;
	if (round->ctx->no_wait)
		return -EBUSY;
	return device->ops->wait(device->owner, fence, bo_round_until(round));
}
