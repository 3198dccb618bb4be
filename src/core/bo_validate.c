#include "core/bo_batch.h"
#include "core/bo_device.h"

#include <errno.h>

enum pass {
	PASS_ROOM,  /* only where there is room */
	PASS_EVICT, /* others have to go */
};

static bool fits_pass(const struct bo_want *want, enum pass pass)
{
	return !(want->flags & (pass == PASS_ROOM ? BO_FALLBACK : BO_DESIRED));
}

static bool lies_there(const struct bo *bo, const struct bo_placement *placement, enum pass pass)
{
	for (unsigned i = 0; i < placement->count; i++)
		if (placement->wants[i].place == bo->place && fits_pass(&placement->wants[i], pass))
			return true;
	return false;
}

/* The bytes go too. */
static int move_to(struct bo *bo, enum bo_place place, struct bo_memory memory, struct bo_ctx *ctx)
{
	struct bo_batch batch;

	bo_batch_init(&batch, bo->device);
	bo_batch_add(&batch, bo, place, memory);
	ctx->moved_bytes += bo_batch_run(&batch);
	return batch.moves[0].rc;
}

int bo_validate(struct bo *bo, const struct bo_placement *placement, struct bo_ctx *ctx)
{
	struct bo_memory memory = { 0, 0 };
	enum bo_place place = BO_NONE;
	int rc = -ENOMEM;

	if (bo->is_lost)
		return -EIO;
	if (lies_there(bo, placement, PASS_ROOM))
		return 0;
	if (bo->pins)
		return -EINVAL;
	for (unsigned i = 0; i < placement->count && rc < 0; i++) {
		place = placement->wants[i].place;
		if (fits_pass(&placement->wants[i], PASS_ROOM))
			rc = bo_device_take(bo, place, &memory);
	}
	if (placement->count && rc < 0)
		return -ENOMEM;
	rc = bo_wait(bo, ctx);
	if (rc < 0) {
		bo_device_give(bo->device, place, memory);
		return rc;
	}
	return move_to(bo, place, memory, ctx);
}
