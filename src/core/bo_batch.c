#include "core/bo_batch.h"

#include "core/bo_device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void bo_batch_init(struct bo_batch *batch, struct bo_device *device)
{
	batch->device = device;
	batch->moves = batch->own;
	batch->count = 0;
	batch->room = BO_BATCH_OWN;
}

void bo_batch_fini(struct bo_batch *batch)
{
	if (batch->moves != batch->own)
		free(batch->moves);
}

bool bo_batch_make_room(struct bo_batch *batch, unsigned count)
{
	unsigned room = batch->room;
	struct bo_move *moves;

	while (room - batch->count < count)
		room *= 2;
	if (room == batch->room)
		return true;
	moves = malloc((size_t)room * sizeof(*moves));
	if (!moves)
		return false;
	memcpy(moves, batch->moves, batch->count * sizeof(*moves));
	for (unsigned i = 0; i < batch->count; i++)
		if (moves[i].giver)
			moves[i].giver = &moves[moves[i].giver - batch->moves];
	bo_batch_fini(batch);
	batch->moves = moves;
	batch->room = room;
	return true;
}

bool bo_batch_has_room(struct bo_batch *batch)
{
	return bo_batch_make_room(batch, 1);
}

void bo_batch_add(struct bo_batch *batch, struct bo *bo, enum bo_place place,
		  struct bo_memory memory)
{
	batch->moves[batch->count++] = (struct bo_move){
		.bo = bo,
		.from_place = bo->place,
		.to_place = place,
		.from = bo->memory,
		.to = memory,
		.rc = -ECANCELED,
	};
}

void bo_batch_add_heir(struct bo_batch *batch, struct bo *bo, unsigned giver)
{
	struct bo_move *from = &batch->moves[giver];

	from->has_heir = true;
	bo_batch_add(batch, bo, from->from_place, from->from);
	batch->moves[batch->count - 1].giver = from;
}

/* Says where the object is now. With the mutex. */
static void settle(const struct bo_move *move)
{
	struct bo *bo = move->bo;

	if (move->rc == 0)
		bo_device_settle(bo, move->to_place, move->to);
	else if (move->rc == -EIO) {
		bo_device_settle(bo, BO_NONE, (struct bo_memory){ 0, 0 });
		bo->is_lost = true;
	}
}

/* What is left over of one: what it had, unless that is its heir's, or what it did not get. */
static void give(struct bo_device *device, const struct bo_move *move)
{
	if ((move->rc == 0 && !move->has_heir) || move->rc == -EIO)
		bo_device_give(device, move->from_place, move->from);
	/* Of a giver that did not go it is still the giver's. */
	if (move->rc < 0 && (!move->giver || move->giver->rc == 0))
		bo_device_give(device, move->to_place, move->to);
}

uint64_t bo_batch_run(struct bo_batch *batch)
{
	struct bo_device *device = batch->device;
	uint64_t copied_bytes = 0;

	if (!batch->count)
		return 0;
	device->ops->move(device->owner, batch->moves, batch->count);
	bo_device_lock(device);
	for (unsigned i = 0; i < batch->count; i++)
		settle(&batch->moves[i]);
	bo_device_unlock(device);
	for (unsigned i = 0; i < batch->count; i++) {
		const struct bo_move *move = &batch->moves[i];

		give(device, move);
		if (move->rc == 0 && move->from_place != BO_NONE && move->to_place != BO_NONE)
			copied_bytes += move->bo->bytes;
	}
	return copied_bytes;
}
