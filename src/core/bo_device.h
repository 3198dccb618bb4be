/*
 * What bo.c and the bo_*.c have in common: the device's mutex, its lists, and what is counted.
 */
#pragma once

#include "core/bo.h"

void bo_device_lock(struct bo_device *device);
void bo_device_unlock(struct bo_device *device);

/*
 * Puts an object last into the list that its state asks for: deleted, pinned, unplaced or its
 * place's. With the mutex.
 */
void bo_device_list(struct bo *bo);

/* Takes it out of the list that it is in. With the mutex. */
void bo_device_unlist(struct bo *bo);

/*
 * Counts and takes memory for an object, pending until bo_device_settle(). 0, -ENOSPC, or what
 * ops->alloc() says. Without the mutex, as the next.
 */
int bo_device_take(const struct bo *bo, enum bo_place place, struct bo_memory *out_memory);

/* Gives pending memory back, then stops counting it. Nothing to do for BO_NONE. */
void bo_device_give(struct bo_device *device, enum bo_place place, struct bo_memory memory);

/*
 * The object's memory is the other now, which was pending; its own is pending. With the mutex, as
 * its holder.
 */
void bo_device_settle(struct bo *bo, enum bo_place place, struct bo_memory memory);
