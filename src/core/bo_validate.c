#include "core/bo_batch.h"
#include "core/bo_device.h"
#include "core/bo_room.h"

#include <errno.h>

static bool is_anywhere(const struct bo *bo, const struct bo_placement *placement)
{
	return bo_room_has(bo, placement, BO_ROOM_FREE) ||
	       bo_room_has(bo, placement, BO_ROOM_EVICT);
}

/* Memory where it is to lie, and its work is done. 1 when there is nothing to do. */
static int prepare(struct bo *bo, const struct bo_placement *placement, struct bo_round *round,
		   enum bo_place *out_place, struct bo_memory *out_memory)
{
	enum bo_room_pass pass = BO_ROOM_FREE;
	enum bo_place place = BO_NONE;
	struct bo_memory memory = { 0, 0 };
	int rc = 0;

	if (bo->is_lost)
		return -EIO;
	if (bo->pins)
		return is_anywhere(bo, placement) ? 1 : -EINVAL;
	if (placement->count == 0 && bo->place == BO_NONE)
		return 1;
	round->placed = bo;
	for (; placement->count; pass = BO_ROOM_EVICT) {
		if (bo_room_has(bo, placement, pass))
			return 1;
		rc = bo_room_find(bo, placement, pass, round, &place, &memory);
		if (rc == 0 || rc == -EDEADLK || pass == BO_ROOM_EVICT)
			break;
	}
	if (rc < 0)
		return rc;
	rc = bo_round_wait(round, bo);
	if (rc < 0) {
		round->taken_bytes[place] -= memory.bytes;
		bo_device_give(bo->device, place, memory);
		return rc;
	}
	*out_place = place;
	*out_memory = memory;
	return 0;
}

int bo_validate_all(struct bo *const *objects, unsigned count, const struct bo_placement *placement,
		    struct bo_ctx *ctx)
{
	struct bo_device *device = count ? objects[0]->device : NULL;
	struct bo_batch batch;
	struct bo_round round;
	int rc = 0;

	if (!count)
		return 0;
	bo_batch_init(&batch, device);
	bo_round_begin(&round, device, ctx);
	for (unsigned i = 0; i < count && rc == 0; i++) {
		struct bo_memory memory;
		enum bo_place place;
		int done;

		if (!bo_batch_has_room(&batch))
			rc = -ENOMEM;
		else
			done = prepare(objects[i], placement, &round, &place, &memory);
		if (rc == 0 && done == 0)
			bo_batch_add(&batch, objects[i], place, memory);
		else if (rc == 0 && done < 0)
			rc = done == -ENOSPC ? -ENOMEM : done;
	}
	ctx->moved_bytes += bo_batch_run(&batch);
	for (unsigned i = 0; i < batch.count; i++)
		if (rc == 0)
			rc = batch.moves[i].rc;
	bo_batch_fini(&batch);
	return rc;
}

int bo_validate(struct bo *bo, const struct bo_placement *placement, struct bo_ctx *ctx)
{
	return bo_validate_all(&bo, 1, placement, ctx);
}
