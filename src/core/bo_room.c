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
	uint64_t gains;
	int rc;

	for (;;) {
		rc = bo_device_take(bo, place, out_memory, &gains);
		if (rc != -ENOSPC || pass == BO_ROOM_FREE)
			return rc;
		rc = bo_evict_for_room(bo->device, place, lacking(bo, place), gains, round);
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
			bo_round_take(round, place, out_memory->bytes);
			*out_place = place;
			return 0;
		}
		if (tried == -EDEADLK)
			return tried;
		rc = worse(rc, tried);
	}
	return rc;
}

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

/* 0 when it is to move; as bo_room_prepare(). */
static int is_to_move(struct bo *bo, const struct bo_placement *placement)
{
	if (bo->is_lost)
		return -EIO;
	if (is_pinned(bo))
		return is_anywhere(bo, placement) ? 1 : -EINVAL;
	return placement->count == 0 && bo->place == BO_NONE;
}

int bo_room_follow(struct bo *bo, const struct bo_placement *placement, struct bo_round *round)
{
	int rc = is_to_move(bo, placement);

	if (rc == 0 && bo_room_has(bo, placement, BO_ROOM_FREE))
		rc = 1;
	return rc == 0 ? bo_round_wait(round, bo) : rc;
}

int bo_room_prepare(struct bo *bo, const struct bo_placement *placement, struct bo_round *round,
		    enum bo_place *out_place, struct bo_memory *out_memory)
{
	enum bo_room_pass pass = BO_ROOM_FREE;
	enum bo_place place = BO_NONE;
	struct bo_memory memory = { 0, 0 };
	int rc = is_to_move(bo, placement);

	if (rc)
		return rc;
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
