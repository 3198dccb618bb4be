/*
 * The share: how much of a device's time the tenant may use, by its configuration.
 *
 * Thread safe, without a lock. `now_ns` is clock_now_ns(). When the region is not ours any more,
 * both say what was so last.
 */
#pragma once

#include "core/device.h"

/* Starts after quota_init(), with the same region, which is kept, not owned. */
void share_init(struct region *region);

/* The tenant's limit of GPU time on a device, in percent: 1..99, or 0 for none. */
unsigned share_limit_pct(struct dev dev, int64_t now_ns);

/*
 * True when there is a limit and it holds now: always, never or while the monitor wants it, as the
 * tenant's policy says.
 */
bool share_in_force(struct dev dev, int64_t now_ns);
