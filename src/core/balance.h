/*
 * What of a tenant's memory lies on the device, and what in host memory: changed now and then by
 * what is used (core/heat.h). One thread, the worker's.
 */
#pragma once

#include "core/backing.h"

/* How it went lately; one of zeros at first. */
struct balance {
	unsigned rest;   /* rounds in which nothing is tried: moves did not get their moment */
	unsigned failed; /* how often so, one after the other, twice where it was dear */
};

/* A round of the worker: what it has seen to. */
struct balance_round {
	uint32_t room_wanted, host_wanted; /* the region's words */
	bool (*is_asked)(void);            /* true when it has something else to do; may be NULL */
};

/*
 * A round is over: the uses are counted, and what pays is moved. Work that is under way is waited
 * for, for a second or two, since the device is busy meanwhile; the wait ends when others want
 * memory, objects or the gate, and when is_asked() says so. True when something lies in host
 * memory, so that uses matter.
 */
bool balance_tick(struct balance *balance, struct backing_device *device,
		  const struct balance_round *round);
