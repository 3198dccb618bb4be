/*
 * Objects that leave a card for what cannot move. The tenant's other processes are asked by a word
 * of the region, and their workers do it.
 */
#pragma once

#include "core/object.h"
#include "core/object_device.h"

/*
 * Has about `bytes` of the device's memory that are of objects leave it, the least recently used
 * first: this process's, then those of others. Waits a bounded time for work that uses them. True
 * when some went.
 */
bool object_evict(struct dev dev, uint64_t bytes);

/* What the tenant's objects have of the card: more cannot go. */
uint64_t object_evict_most(struct dev dev);

/* A round of the worker: what others of the tenant asked for. */
void object_evict_tick(struct object_device *d);
