/*
 * Owners of slots who go, as this process has seen them: since when, and what they may still have.
 *
 * Thread safe.
 */
#pragma once

#include "shm/occupant.h"

/* How long after it was first seen to go that is taken to have gone of which nobody can say it. */
#define LEAVER_GONE_NS INT64_C(2000000000)

/*
 * Looks at the owner of slot `index` (occupant_look()): true when all that he had has gone, or is
 * another's who has looked (shm/heir.h), but what descriptors hold, which is *out_keep_bytes of
 * each device. The caller has the right to reap the slot, with OCCUPANT_BYTE_FREE also its byte.
 */
bool leaver_is_gone(struct ration_region *own, unsigned index, enum occupant_byte byte,
		    uint64_t out_keep_bytes[RATION_DEVICES]);

/*
 * What they hold of device `dev` who were seen so when it was last looked for the dead, and had not
 * gone; `dev` RATION_DEVICES: of host memory, in the place of the devices'.
 */
uint64_t leaver_bytes(const struct ration_region *own, int dev);
