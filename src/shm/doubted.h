/*
 * What calls under way have reserved in doubt: charged as anything is, and perhaps given back in a
 * moment. Whoever is refused for want of it sees that here and waits a little. Words of the slot,
 * in ration/region.h; they charge nothing, so they need no journal.
 *
 * Thread safe between processes: nobody changes another's words but who reaps its slot.
 */
#pragma once

#include <ration/region.h>

/*
 * Shows what the slot has in doubt, on all devices together, and on which, as bits. Its owner, one
 * thread at a time.
 */
void doubted_show(struct ration_region *own, unsigned slot, uint64_t devices, uint64_t bytes);

/*
 * What all slots have in doubt on the device: not less than it is, but more where a slot has on
 * several devices at once. The dead count until they are reaped.
 */
uint64_t doubted_sum(const struct ration_region *own, int dev);

/* The slot has nothing in doubt; who takes or reaps it. */
void doubted_clear(struct ration_region *own, unsigned slot);
