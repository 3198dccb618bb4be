/*
 * Memory that a process exported and died with: the card may go on holding it for who imported it,
 * in whose figure it is from then on (docs/real-gpu.md). So it stays charged to the dead until all
 * members that import have looked what they hold, as core/handed.h does it for the living.
 *
 * Thread safe between processes and threads.
 */
#pragma once

#include <ration/region.h>
#include <stdbool.h>

/* The slot's owner is about to export memory. */
void heir_note_export(struct ration_region *own, unsigned slot);

/* The slot has exported nothing; who takes or reaps it. */
void heir_clear(struct ration_region *own, unsigned slot);

/*
 * The dead owner's memory that descriptors still hold (shm/exported.h), whoever has them, or that
 * others may have of his pools (shm/shared_pools.h): 1 where there is any, with the bytes of each
 * device; 0; or -errno where that cannot be said now, as for want of a descriptor.
 */
int heir_keeps(const struct ration_region *own, unsigned slot, uint64_t out_bytes[RATION_DEVICES]);

/*
 * The owner of the slot is dead, and all that it had alone has gone: true when nobody has to look
 * any more at what it had, but what heir_keeps() says, which is *out_keep_bytes of each device.
 * The caller has the right to reap the slot, and asks again.
 */
bool heir_have_looked(struct ration_region *own, unsigned slot,
		      uint64_t out_keep_bytes[RATION_DEVICES]);
