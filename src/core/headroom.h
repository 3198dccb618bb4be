/*
 * Headroom: how much of the card a tenant could have, by what the card itself had free when the driver
 * was asked last and what the tenant held then. As long as that is more than its limit, the limit
 * alone says what is free, and the driver need not be asked again at once: what the tenant takes
 * meanwhile changes both alike. What this process gives back may not (managed memory, work that still
 * runs), so then it is forgotten.
 *
 * Thread safe; the clock is passed in.
 */
#pragma once

#include "core/device.h"

#include <stdbool.h>
#include <stdint.h>

/* For how long it is taken for true at most: other tenants may take memory meanwhile. */
#define HEADROOM_NS (INT64_C(1) << 17)

/*
 * The driver, asked at `now_ns` (CLOCK_MONOTONIC), said what the card has free, which with what the
 * tenant held of it is `within_reach_bytes`, and how much it has in all, which is always the same.
 */
void headroom_note(struct dev dev, uint64_t within_reach_bytes, uint64_t total_bytes,
		   int64_t now_ns);

/* Ends what is known. */
void headroom_forget(struct dev dev);

/* True, with the card's size, when the tenant could have at least `bytes` of it at `now_ns`. */
bool headroom_covers(struct dev dev, uint64_t bytes, int64_t now_ns, uint64_t *out_total_bytes);
