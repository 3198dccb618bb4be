/*
 * Pieces of other processes' pools that this process has had by cuMemPoolImportPointer. The card
 * holds their memory for it until it destroys its pool or ends, also after all have freed them
 * (docs/real-gpu.md). Who gave them is charged for that (core/given.h), if he is of the tenant; of
 * what none of its processes has given this one is.
 *
 * Thread safe; nothing here calls the driver.
 */
#pragma once

#include "core/device.h"

#include <stdbool.h>
#include <stdint.h>

struct region;

/* Starts, after quota_init(): fork children begin with nothing. */
void taken_init(struct region *region, unsigned slot);

/* Says anew what others see of it, where our slot was reaped in error and is ours again. */
void taken_hold(void);

/*
 * Around the driver's call, during which it may have any; taken_enter() comes between, with what
 * was taken from the pool. -EDQUOT where that is charged here and passes the limit: it is charged
 * all the same, and is to be given back to the driver, who holds it on.
 */
void taken_begin(void);
int taken_enter(const void *pool, struct dev dev, uint64_t addr, uint64_t bytes);
void taken_over(void);

/* The imported pool was destroyed. One load where nothing was taken. */
void taken_pool_end(const void *pool);
