#include "core/bo_room.h"

#include "base/bytes.h"
#include "core/bo_device.h"
#include "core/bo_evict.h"

#include <errno.h>

static bool is_asked(const struct bo_want *want, enum bo_room_pass pass)
{
	return !(want->flags & (pass == BO_ROOM_FREE ? BO_FALLBACK : BO_DESIRED));
}

bool bo_room_has(const struct bo *bo, const struct bo_placement *placement, enum bo_room_pass pass)
{
	for (unsigned i = 0; i < placement->count; i++)
		if (placement->wants[i].place == bo->place && is_asked(&placement->wants[i], pass))
			return true;
	return false;
}

/* What has to go so that the object fits; all its bytes when it is not the limit that refuses. */
static uint64_t lacking(const struct bo *bo, enum bo_place place)
{
	const struct bo_manager *manager = &bo->device->managers[place];
	uint64_t free_bytes;

	bo_device_lock(bo->device);
	free_bytes = bytes_beyond(manager->limit_bytes, manager->used_bytes);
	bo_device_unlock(bo->device);
	return free_bytes < bo->bytes ? bo->bytes - free_bytes : bo->bytes;
}

/* In one place. */
static int take(const struct bo *bo, enum bo_place place, enum bo_room_pass pass,
		struct bo_round *round, struct bo_memory *out_memory)
{
	int rc;

	for (;;) {
		rc = bo_device_take(bo, place, out_memory);
		if (rc != -ENOSPC || pass == BO_ROOM_FREE)
			return rc;
		rc = bo_evict_for_room(bo->device, place, lacking(bo, place), round);
		if (rc < 0)
			return rc;
	}
}

/* The error to hand on: what may be better later, before what will not. */
static int worse(int a, int b)
{
	if (a == -EBUSY || b == -EBUSY)
		return -EBUSY;
	return a == -ENOSPC ? b : a;
}

int bo_room_find(const struct bo *bo, const struct bo_placement *placement, enum bo_room_pass pass,
		 struct bo_round *round, enum bo_place *out_place, struct bo_memory *out_memory)
{
	int rc = -ENOSPC;

	for (unsigned i = 0; i < placement->count; i++) {
		enum bo_place place = placement->wants[i].place;
		int tried;

		if (!is_asked(&placement->wants[i], pass) || place <= BO_NONE ||
		    place >= BO_PLACES || round->leaving & 1u << place)
			continue;
		tried = take(bo, place, pass, round, out_memory);
		if (tried == 0) {
			round->taken_bytes[place] += out_memory->bytes;
			*out_place = place;
			return 0;
		}
		if (tried == -EDEADLK)
			return tried;
		rc = worse(rc, tried);
	}
	return rc;
}
