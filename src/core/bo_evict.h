/*
 * Room in a place, by what is there going elsewhere. bo_evict() is in bo.h.
 */
#pragma once

#include "core/bo_round.h"

/*
 * Makes some room in a place, about `bytes` if it can: ends deleted objects, or moves the least
 * recently used of the lowest priority elsewhere, together, or waits for one that is in use. 0 when
 * it is worth trying again; -ENOSPC when nothing there can go; -EBUSY when what could is in use;
 * -EDEADLK when an older ticket has it.
 */
int bo_evict_for_room(struct bo_device *device, enum bo_place place, uint64_t bytes,
		      struct bo_round *round);
