/*
 * What the tenant's other processes keep at hand of a card, charged, with nothing in it
 * (core/object_spare.h): they give it back for whoever would be refused without.
 *
 * Thread safe. The caller holds no lock.
 */
#pragma once

#include "core/device.h"

#include <stdbool.h>

struct region;

/* Starts. The region is kept, not owned; `slot` is this process's in it. */
void others_init(struct region *region, unsigned slot);

/*
 * Asks them for what they keep of the device, and waits a moment until they have none: at once where
 * they have none, true when it became less.
 */
bool others_give(struct dev dev);
