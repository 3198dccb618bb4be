/*
 * The busy time of one device, over all streams and processes of the tenant: a ring of 20 us bins.
 *
 * Each bin has one moment of its own, at a place in it that a hash of its number gives, and it is set
 * if that moment was busy. So the set bins are an unbiased sample of the *union* of everything that
 * is ever said to be busy, whoever says it, however short, however often: an interval of 2 us sets
 * one bin in ten, two processes that were busy at once set the same bins, and a kernel that repeats
 * every 20 us meets every place in a bin.
 */
#pragma once

#include <ration/pace.h>

/*
 * Says that [begin_ns, end_ns) of CLOCK_MONOTONIC was busy. Returns how much of it nobody had said
 * yet, in ns: 20 us for each bin set first by this call. What is older than the ring is new each time.
 * At most the last two seconds of the interval are entered.
 */
int64_t busy_ring_set(struct pace_ring *ring, int64_t begin_ns, int64_t end_ns);

/* Busy time within [begin_ns, end_ns), which is clipped to what the ring still holds at end_ns. */
int64_t busy_ring_busy_ns(const struct pace_ring *ring, int64_t begin_ns, int64_t end_ns);
