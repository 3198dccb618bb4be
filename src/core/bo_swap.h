/*
 * Objects that leave device memory and others that take their room, while all work stands still
 * once.
 */
#pragma once

#include "core/bo.h"

/* One of them. */
struct bo_swap {
	struct bo *bo; /* of the device, in no other; the caller has a reference */
	int rc;        /* out: 0 where it lies as it should, else why not; -ECANCELED: not tried */
	bool is_had;   /* bo_swap()'s: it is reserved */
};

/*
 * Has those that go leave BO_VRAM for where ops->evict_to() says, and those that come lie there as
 * far as there is room then: at no time more lies there than may. Where they go to, memory is in
 * hand before anything stands still. Who is as large as another that goes gets the very memory that
 * the other leaves: nothing is given to the driver and asked of it again. All those are one move,
 * in parts, each followed by those that come in the place of the part before: so both directions
 * of the link are used. Then go the others, and with each part come those that have its room.
 *
 * Nobody else's object or memory is waited for. Whoever the patience asks is asked between the
 * steps too: nothing more goes when it is over. 0 when something was tried, as each rc says; else
 * why nothing was, and all lies as before: -EBUSY or -EAGAIN of ops->begin(), -EBUSY because it was
 * over, -ENOMEM when nothing had room.
 */
int bo_swap(struct bo_device *device, struct bo_swap *goes, unsigned goes_count,
	    struct bo_swap *comes, unsigned comes_count, const struct bo_patience *patience);
