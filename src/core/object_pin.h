/* Objects that others reach by ways of their own: their memory stays where it is. */
#pragma once

#include "core/object.h"
#include "core/object_device.h"

/*
 * Keeps the object with this number at `addr` on the device until it is freed. Pinning twice is
 * pinning once. Waits at the gate while the program is suspended and, for some seconds, until a
 * moment comes in which it can be brought there: all tries are made here. 0; -ENOENT when it was
 * freed meanwhile; -ENOMEM when it is elsewhere and the device has no room; -EBUSY, or -EAGAIN
 * during a capture, when it could not be had in time.
 */
int object_pin(uint64_t addr, uint64_t id);

/*
 * device's mutex, which is let go meanwhile: the piece is pinned no longer, as whoever frees it
 * wants it. Who comes meanwhile finds it not pinned.
 */
void object_pin_end(struct object_device *d, struct range_node *node,
		    const struct object_info *info);

/* Notes of the object with this number at `addr` that its copies are to be waited for, or not. */
void object_pin_set_sync(uint64_t addr, uint64_t id, bool is_sync);
