#include "core/bo_reap.h"

#include "core/bo_batch.h"
#include "core/bo_device.h"
#include "core/bo_reserve.h"

/* What has no memory any more is the owner's again. True when it was so. */
static bool end(struct bo *bo)
{
	struct bo_device *device = bo->device;
	bool is_over = bo->place == BO_NONE;

	bo_device_lock(device);
	bo_reserve_end(bo);
	if (is_over) {
		bo_device_unlist(bo);
		device->ending++;
	}
	bo_device_unlock(device);
	if (!is_over)
		return false;
	device->ops->destroy(device->owner, bo);
	bo_device_lock(device);
	device->ending--;
	bo_device_unlock(device);
	return true;
}

bool bo_reap_is_under_way(struct bo_device *device)
{
	bool is_any;
	struct bo *bo;

	bo_device_lock(device);
	is_any = device->ending > 0;
	TAILQ_FOREACH(bo, &device->deleted, in_list)
		is_any |= bo->is_reserved;
	bo_device_unlock(device);
	return is_any;
}

/* Unmaps those of the batch, together, and ends them. Returns the bytes. */
static uint64_t end_all(struct bo_batch *batch)
{
	uint64_t bytes = 0;

	bo_batch_run(batch);
	for (unsigned i = 0; i < batch->count; i++)
		if (end(batch->moves[i].bo))
			bytes += batch->moves[i].from.bytes;
	return bytes;
}

static bool is_done(struct bo_device *device, uint64_t fence)
{
	return !fence || device->ops->is_done(device->owner, fence);
}

bool bo_reap_one(struct bo *bo)
{
	struct bo_batch batch;

	if (bo->place != BO_NONE && is_done(bo->device, bo->fence)) {
		bo_batch_init(&batch, bo->device);
		bo_batch_add(&batch, bo, BO_NONE, (struct bo_memory){ 0, 0 });
		bo_batch_run(&batch);
	}
	return end(bo);
}

/* Reserves all in a place (BO_PLACES: in any) that nobody has, as far as there is room. */
static void reserve_all(struct bo_batch *batch, enum bo_place place)
{
	struct bo *bo;

	bo_device_lock(batch->device);
	TAILQ_FOREACH(bo, &batch->device->deleted, in_list) {
		if (place != BO_PLACES && bo->place != place)
			continue;
		if (!bo_batch_has_room(batch))
			break;
		if (bo_reserve_try(bo, NULL))
			bo_batch_add(batch, bo, BO_NONE, (struct bo_memory){ 0, 0 });
	}
	bo_device_unlock(batch->device);
}

/* Keeps of the batch what is done. Fences ascend, so that few have to be asked about. */
static void keep_done(struct bo_batch *batch)
{
	uint64_t done = 0, under_way = UINT64_MAX;
	unsigned kept = 0;

	for (unsigned i = 0; i < batch->count; i++) {
		struct bo *bo = batch->moves[i].bo;

		if (bo->fence > done && bo->fence < under_way) {
			if (is_done(batch->device, bo->fence))
				done = bo->fence;
			else
				under_way = bo->fence;
		}
		if (bo->fence <= done)
			batch->moves[kept++] = batch->moves[i];
		else
			bo_reserve_drop(bo);
	}
	batch->count = kept;
}

uint64_t bo_reap_place(struct bo_device *device, enum bo_place place)
{
	struct bo_batch batch;
	uint64_t bytes;

	bo_batch_init(&batch, device);
	reserve_all(&batch, place);
	keep_done(&batch);
	bytes = end_all(&batch);
	bo_batch_fini(&batch);
	return bytes;
}

bool bo_reap(struct bo_device *device)
{
	bool are_left;

	bo_reap_place(device, BO_PLACES);
	bo_device_lock(device);
	are_left = !TAILQ_EMPTY(&device->deleted);
	bo_device_unlock(device);
	return are_left;
}

bool bo_reap_wait(struct bo_device *device, enum bo_place place, int64_t until_ns)
{
	struct bo *bo, *first = NULL;

	bo_device_lock(device);
	TAILQ_FOREACH(bo, &device->deleted, in_list)
		if (bo->place == place && !bo->is_reserved && (!first || bo->fence < first->fence))
			first = bo;
	if (first)
		bo_reserve_try(first, NULL);
	bo_device_unlock(device);
	if (!first)
		return false;
	device->ops->wait(device->owner, first->fence, until_ns);
	return bo_reap_one(first);
}
