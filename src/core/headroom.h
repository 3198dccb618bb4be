/*
 * Headroom: what the card itself had free when the driver was asked last. As long as that is at
 * least a tenant's whole limit, the limit alone says what the tenant can get, and the driver need
 * not be asked again at once: what the tenant has taken of the card since is charged, so it is off
 * both.
 *
 * Other tenants take memory meanwhile: that is seen up to HEADROOM_NS later.
 *
 * Thread safe; the clock is passed in.
 */
#pragma once

#include "core/device.h"

#include <stdbool.h>
#include <stdint.h>

#define HEADROOM_NS (INT64_C(1) << 17)

/*
 * The driver, asked at `now_ns` (CLOCK_MONOTONIC) or later, said what the card has free and how
 * much it has in all, which is always the same.
 */
void headroom_note(struct dev dev, uint64_t free_bytes, uint64_t total_bytes, int64_t now_ns);

/* True, with the card's size, when it had at least `bytes` free a moment before `now_ns`. */
bool headroom_covers(struct dev dev, uint64_t bytes, int64_t now_ns, uint64_t *out_total_bytes);
