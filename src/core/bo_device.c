#include "core/bo_device.h"

#include "base/bytes.h"

#include <errno.h>

void bo_device_init(struct bo_device *device, const struct bo_ops *ops, void *owner)
{
	*device = (struct bo_device){ .ops = ops, .owner = owner };
	pthread_mutex_init(&device->mutex, NULL);
	for (unsigned place = 0; place < BO_PLACES; place++) {
		device->managers[place].limit_bytes = UINT64_MAX;
		for (unsigned i = 0; i < BO_PRIORITIES; i++)
			TAILQ_INIT(&device->managers[place].lru[i]);
	}
	TAILQ_INIT(&device->pinned);
	TAILQ_INIT(&device->deleted);
	TAILQ_INIT(&device->unplaced);
}

/* With the mutex. */
static bool is_empty(const struct bo_device *device)
{
	for (unsigned place = 0; place < BO_PLACES; place++)
		for (unsigned i = 0; i < BO_PRIORITIES; i++)
			if (!TAILQ_EMPTY(&device->managers[place].lru[i]))
				return false;
	return TAILQ_EMPTY(&device->pinned) && TAILQ_EMPTY(&device->deleted) &&
	       TAILQ_EMPTY(&device->unplaced);
}

int bo_device_fini(struct bo_device *device)
{
	bool was_empty;

	bo_reap(device);
	bo_device_lock(device);
	was_empty = is_empty(device);
	bo_device_unlock(device);
	if (!was_empty)
		return -EBUSY;
	pthread_mutex_destroy(&device->mutex);
	return 0;
}

void bo_device_lock(struct bo_device *device)
{
	pthread_mutex_lock(&device->mutex);
}

void bo_device_unlock(struct bo_device *device)
{
	if (device->on_change)
		device->on_change(device);
	pthread_mutex_unlock(&device->mutex);
}

void bo_device_set_limit(struct bo_device *device, enum bo_place place, uint64_t bytes)
{
	bo_device_lock(device);
	device->managers[place].limit_bytes = bytes;
	bo_device_unlock(device);
}

uint64_t bo_device_used(struct bo_device *device, enum bo_place place)
{
	uint64_t bytes;

	bo_device_lock(device);
	bytes = device->managers[place].used_bytes;
	bo_device_unlock(device);
	return bytes;
}

static struct bo_list *list_for(struct bo *bo)
{
	if (bo->is_deleted)
		return &bo->device->deleted;
	if (bo->pins)
		return &bo->device->pinned;
	if (bo->place == BO_NONE)
		return &bo->device->unplaced;
	return &bo->device->managers[bo->place].lru[bo->priority];
}

void bo_device_unlist(struct bo *bo)
{
	if (bo->list)
		TAILQ_REMOVE(bo->list, bo, in_list);
	bo->list = NULL;
}

void bo_device_list(struct bo *bo)
{
	bo_device_unlist(bo);
	bo->list = list_for(bo);
	TAILQ_INSERT_TAIL(bo->list, bo, in_list);
}

/* Counts `bytes` more as pending, if they may lie there. */
static int count(struct bo_device *device, enum bo_place place, uint64_t bytes)
{
	struct bo_manager *manager = &device->managers[place];
	int rc = -ENOSPC;

	bo_device_lock(device);
	if (bytes <= bytes_beyond(manager->limit_bytes, manager->used_bytes)) {
		manager->used_bytes += bytes;
		manager->pending_bytes += bytes;
		rc = 0;
	}
	bo_device_unlock(device);
	return rc;
}

static void uncount(struct bo_device *device, enum bo_place place, uint64_t bytes)
{
	bo_device_lock(device);
	device->managers[place].used_bytes -= bytes;
	device->managers[place].pending_bytes -= bytes;
	bo_device_unlock(device);
}

int bo_device_take(const struct bo *bo, enum bo_place place, struct bo_memory *out_memory)
{
	struct bo_device *device = bo->device;
	struct bo_memory memory = { 0, 0 };
	int rc = count(device, place, bo->bytes);

	if (rc < 0)
		return rc;
	rc = device->ops->alloc(device->owner, bo, place, &memory);
	if (rc < 0)
		goto out_uncount;
	/* What it has beyond the object's bytes counts too. */
	if (memory.bytes != bo->bytes)
		rc = count(device, place, memory.bytes - bo->bytes);
	if (rc < 0)
		goto out_free;
	*out_memory = memory;
	return 0;
out_free:
	device->ops->free(device->owner, place, memory);
out_uncount:
	uncount(device, place, bo->bytes);
	return rc;
}

void bo_device_give(struct bo_device *device, enum bo_place place, struct bo_memory memory)
{
	if (place == BO_NONE)
		return;
	device->ops->free(device->owner, place, memory);
	uncount(device, place, memory.bytes);
}

void bo_device_settle(struct bo *bo, enum bo_place place, struct bo_memory memory)
{
	struct bo_manager *managers = bo->device->managers;

	if (place != BO_NONE)
		managers[place].pending_bytes -= memory.bytes;
	if (bo->place != BO_NONE)
		managers[bo->place].pending_bytes += bo->memory.bytes;
	bo->place = place;
	bo->memory = memory;
	bo_device_list(bo);
}
