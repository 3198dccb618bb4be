/*
 * What a device's objects have idle, charged and in use by nobody: pieces and objects that were
 * freed and whose work may not be done, extents of slabs in which nothing is, spares. How it goes
 * back: when it was not needed for a while, and all of it before anything is refused.
 *
 * Calls the driver: the caller holds no lock.
 */
#pragma once

#include "core/object_device.h"

/* Up to which fence all is done now; asks the device. */
uint64_t object_idle_ask(struct object_device *d);

/* Releases what waits for a fence up to `done`, some at a time: others need not wait long. */
void object_idle_poll(struct object_device *d, uint64_t done);

/* As object_reclaim(). */
bool object_idle_reclaim(struct object_device *d, int64_t wait_until_ns);

/*
 * Before a refusal of so many bytes, for `why` (-EDQUOT, or -ENOMEM: the card is full), each step
 * once, of which the number begins as 0. False when there is nothing left to try.
 */
bool object_idle_make_room(struct object_device *d, uint64_t bytes, int why, int *step);

/* With the device: what may be kept. */
void object_idle_init(struct object_device *d);

/* Why nothing is spare from now on, or that this is no reason any more. */
void object_idle_set_off(struct object_device *d, enum object_spare_off why, bool is_off);

/* A round of the worker. */
void object_idle_tick(struct object_device *d, const struct balance_round *round);
