/*
 * What of a tenant's memory lies on the device, and what in host memory: changed now and then by
 * what is used (core/heat.h). One thread, the worker's.
 */
#pragma once

#include "core/backing.h"

/* How it went lately; one of zeros at first. */
struct balance {
	unsigned rest;   /* rounds in which nothing is tried: moves did not get their moment */
	unsigned failed; /* how often so, one after the other */
};

/*
 * A round is over: the uses are counted, and what pays is moved. True when something lies in host
 * memory, so that uses matter.
 */
bool balance_tick(struct balance *balance, struct backing_device *device);
