/*
 * How much of a tenant's memory lies in places that have a bound of their own: on the cards, of
 * what may leave them, and in host memory in their place. struct ration_residency in
 * ration/region.h.
 *
 * A process adds to its own words first and then looks at the sum of all, so that two that ask at
 * once never pass a bound together; both may be refused then. What a dead process held counts until
 * its slot is reaped. No journal is needed: nobody changes another's words but who reaps its slot.
 *
 * Thread safe between processes and threads.
 */
#pragma once

#include <ration/region.h>
#include <stdint.h>

/* The number of the place that is host memory; others are devices of the region. */
enum { RESIDENCY_HOST = RATION_DEVICES };

/*
 * Adds to what the slot has in a place unless the sum would pass `limit_bytes` (UINT64_MAX: no
 * bound). 0 or -EDQUOT, and then nothing has changed.
 */
int residency_add(struct ration_region *own, unsigned slot, int place, uint64_t bytes,
		  uint64_t limit_bytes);

/* Takes off what was added. */
void residency_sub(struct ration_region *own, unsigned slot, int place, uint64_t bytes);

/* What all slots have in a place, of dead processes too that were not reaped. */
uint64_t residency_sum(const struct ration_region *own, int place);

/* The slot has nothing anywhere; who takes or reaps it. */
void residency_clear(struct ration_region *own, unsigned slot);
