/*
 * What processes of a tenant share of memory pools, as all of them see it: struct
 * ration_shared_pools in ration/region.h. Thread safe between processes and threads.
 */
#pragma once

#include <ration/region.h>

/* The slot's owner has given, or has had, so much. */
void shared_pools_set_given(struct ration_region *own, unsigned slot, uint64_t bytes);
void shared_pools_set_taken(struct ration_region *own, unsigned slot, uint64_t bytes);

/* One slot's, and the sums of all; UINT64_MAX where they would be more. */
uint64_t shared_pools_given(const struct ration_region *own, unsigned slot);
uint64_t shared_pools_all_given(const struct ration_region *own);
uint64_t shared_pools_all_taken(const struct ration_region *own);

/* The slot has neither; who takes or reaps it. */
void shared_pools_clear(struct ration_region *own, unsigned slot);
