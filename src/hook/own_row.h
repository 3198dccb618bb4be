/*
 * This process's row in NVML's process list, where it stands under a pid that is not ours.
 */
#pragma once

#include "core/device.h"

#include <stdbool.h>

/*
 * Searches the row by allocations in `ctx`, a context of this process on the device, within the
 * limit. True when it was found: from now on the driver's figure can be had, and the tenant's views
 * name this process. Nothing of the calling thread is under way.
 */
bool own_row_find(struct dev dev, const void *ctx);

/*
 * As that, by who comes again and needs no context: searches when it is due, after a search that
 * found nothing ever later.
 */
bool own_row_look(struct dev dev, struct cuda_ord ord);

/*
 * After a refusal of `bytes`: true, after a moment, when what is missing may be what another
 * process of the tenant holds for its search, and it is worth another try. *inout_waits begins at
 * 0.
 */
bool own_row_wait(struct dev dev, uint64_t bytes, int *inout_waits);
