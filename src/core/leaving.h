/*
 * Waiting for processes of the tenant that leave: what one that was killed had of a device, or of
 * host memory, is charged until its exit is over (shm/occupant.h), a tenth of a second later or so.
 * Nobody is refused for want of it before that, within bounds.
 *
 * Thread safe. The caller holds no lock.
 */
#pragma once

#include "core/doubt.h"

#include <stdint.h>

struct region;
struct backing_bounds;

/* Starts. The region is kept, not owned. Without it nobody is waited for. */
void leaving_init(const struct region *region);

/*
 * Gives back what the dead hold, as quota_reap(). Then waits, if `bytes` would fit but for what
 * those hold who leave and for what is in doubt, until they do or nobody leaves any more. The
 * caller was refused, and tries again in any case.
 */
void leaving_await(struct dev dev, uint64_t bytes);

/* What `call` says, a reservation of `bytes` that was refused, made again after that. */
#define LEAVING_TRY(dev, bytes, call)              \
	({                                         \
		leaving_await((dev), (bytes));     \
		DOUBT_TRY((dev), (bytes), (call)); \
	})

/* Likewise for `bytes` of the tenant's host memory, where objects may lie there. */
void leaving_await_host(const struct backing_bounds *bounds, uint64_t bytes);
