#include "core/bo_batch.h"
#include "core/bo_device.h"
#include "core/bo_room.h"

#include <errno.h>

static bool is_anywhere(const struct bo *bo, const struct bo_placement *placement)
{
	return bo_room_has(bo, placement, BO_ROOM_FREE) ||
	       bo_room_has(bo, placement, BO_ROOM_EVICT);
}

/* It may end being so meanwhile, but not begin: that is for who has the object reserved. */
static bool is_pinned(struct bo *bo)
{
	bool is;

	bo_device_lock(bo->device);
	is = bo->pins > 0;
	bo_device_unlock(bo->device);
	return is;
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
	if (is_pinned(bo))
		return is_anywhere(bo, placement) ? 1 : -EINVAL;
	if (placement->count == 0 && bo->place == BO_NONE)
		return 1;
	round->placed = bo;
	for (; placement->count; pass = BO_ROOM_EVICT) {
		if (bo_room_has(bo, placement, pass))
			return 1;
		rc = bo_room_find(bo, placement, pass, round, &place, &memory);
		if (rc == 0 || pass == BO_ROOM_EVICT)
			break;
	}
	if (rc < 0)
		return rc;
	rc = bo_round_wait(round, bo);
	if (rc < 0) {
		bo_round_drop(round, place, memory.bytes);
		bo_device_give(bo->device, place, memory);
		return rc;
	}
	*out_place = place;
	*out_memory = memory;
	return 0;
}

/* Moves what is in the batch. 0, or the first error. */
static int run(struct bo_batch *batch, struct bo_round *round)
{
	int rc = 0;

	for (unsigned i = 0; i < batch->count; i++)
		bo_round_drop(round, batch->moves[i].to_place, batch->moves[i].to.bytes);
	round->ctx->moved_bytes += bo_batch_run(batch);
	for (unsigned i = 0; i < batch->count && rc == 0; i++)
		rc = batch->moves[i].rc;
	batch->count = 0;
	return rc;
}

/* Adds the object if it has to be moved. Where there is no room for it, the others move before. */
static int add(struct bo_batch *batch, struct bo *bo, const struct bo_placement *placement,
	       struct bo_round *round)
{
	struct bo_memory memory;
	enum bo_place place;
	int rc = bo_batch_has_room(batch) ? 0 : run(batch, round);

	if (rc == 0)
		rc = prepare(bo, placement, round, &place, &memory);
	if (rc == 0)
		bo_batch_add(batch, bo, place, memory);
	return rc == -ENOSPC ? -ENOMEM : rc;
}

int bo_validate_all(struct bo *const *objects, unsigned count, const struct bo_placement *placement,
		    struct bo_ctx *ctx)
{
	struct bo_batch batch;
	struct bo_round round;
	int rc = 0, run_rc;

	if (!count)
		return 0;
	bo_batch_init(&batch, objects[0]->device);
	bo_round_begin(&round, objects[0]->device, ctx);
	for (unsigned i = 0; i < count && rc >= 0; i++)
		rc = add(&batch, objects[i], placement, &round);
	run_rc = run(&batch, &round);
	bo_round_end(&round);
	bo_batch_fini(&batch);
	return rc < 0 ? rc : run_rc;
}

int bo_validate(struct bo *bo, const struct bo_placement *placement, struct bo_ctx *ctx)
{
	return bo_validate_all(&bo, 1, placement, ctx);
}
