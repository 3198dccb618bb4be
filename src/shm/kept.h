/*
 * The block of a limit that is kept back: whether the driver has room for a small allocation in a
 * block that it gave before, no call tells, so one more block must be there for the moment in which
 * it is found out. While a process of the tenant has small allocations on a device, nothing else
 * takes the last block of the limit. Words of the slots, and one of the region that is set while
 * any of them may be, in ration/region.h; they charge nothing, so they need no journal.
 *
 * Thread safe between processes: nobody changes another's word but who reaps its slot.
 */
#pragma once

#include <ration/region.h>

#include <stdbool.h>

/*
 * The slot's owner has small allocations on the device, or none any more: with the last of all
 * slots that ends for the device.
 */
void kept_show(struct ration_region *own, unsigned slot, int dev, bool has);

/* True when a block of the device's limit is kept back; one load. */
bool kept_is(const struct ration_region *own, int dev);

/*
 * As that, after a look at all slots, whatever a stranger wrote: nothing is kept back when none has
 * any. The dead count until they are reaped.
 */
bool kept_look(struct ration_region *own, int dev);

/* The slot has none; who takes or reaps it. */
void kept_clear(struct ration_region *own, unsigned slot);
