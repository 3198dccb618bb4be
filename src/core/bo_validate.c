#include "core/bo_batch.h"
#include "core/bo_device.h"
#include "core/bo_room.h"

#include <errno.h>

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
		rc = bo_room_prepare(bo, placement, round, &place, &memory);
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
