/*
 * A movable tenant: linear and pitched memory is of objects (core/object.h) in the place of the
 * driver's own allocations. To the program it is what cuMemAlloc gives.
 */
#pragma once

#include "core/object.h"
#include "hook/enter.h"

/*
 * Says whether the tenant is movable, with the start of a member, when the devices are known. The
 * region is kept. 0; or an error, of which a line was logged: the tenant is oversubscribed, and
 * host memory cannot take the place of some device's.
 */
int movable_start(struct region *region);

/* True when linear memory of this process is of objects. One load. */
bool movable_is_on(void);

/* True when what has no room on a card may lie in host memory. */
bool movable_may_spill(void);

/* Of `card_bytes`, which the card has free, what this tenant may have there. */
uint64_t movable_card_free(struct dev dev, uint64_t card_bytes);

/*
 * What the tenant has in host memory in the place of its cards', and the most that it may. False
 * where nothing takes their place, or without a bound.
 */
struct movable_host {
	uint64_t used_bytes, limit_bytes;
};
bool movable_host(struct movable_host *out_host);

/* True for an address that the driver may not be asked about: it is among those of objects. */
static inline bool movable_has(CUdeviceptr addr)
{
	return movable_is_on() && object_is_ours(addr);
}

/* What became of a call. */
enum movable {
	MOVABLE_DRIVER, /* it is the driver's as it came */
	MOVABLE_DONE,   /* *out_res is the answer */
};

/* An allocation of `bytes`, 0 for what the driver will refuse, in the calling thread's context. */
enum movable movable_alloc(uint64_t bytes, CUdeviceptr *out_addr, CUresult *out_res);

/*
 * A free of what movable_has(). What the driver refuses of its own memory, it is asked to refuse.
 */
enum movable movable_free(CUdeviceptr addr, CUresult *out_res);

/*
 * An address that no memory of the driver's has: what it says of that, it says of what is not
 * there.
 */
#define MOVABLE_NOWHERE ((CUdeviceptr)1)
