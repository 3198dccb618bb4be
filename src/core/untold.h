/*
 * Charges that no look at the card can confirm: where the card cannot be asked, what a call that
 * loads something was let in with stays as its charge, until that is unloaded or its context ends.
 * Where it can be asked, all of them are in what a look says, and what is known here means nothing.
 *
 * Thread safe; nothing here calls the driver, or charges.
 */
#pragma once

#include "core/device.h"

#include <stdbool.h>
#include <stdint.h>

/* Starts: fork children begin with nothing. */
void untold_init(void);

/*
 * What of it is charged on each device: as module; and as data, managed variables, which no look
 * tells of anywhere.
 */
struct untold_bytes {
	uint64_t module[RATION_DEVICES], managed[RATION_DEVICES];
};

/*
 * So much more stays charged for `owner`, a driver's handle (NULL: for the context itself), in
 * `ctx` (NULL: in none). Without memory for it, it is not given back before the card is asked.
 */
void untold_add(const void *owner, const void *ctx, struct dev dev, uint64_t bytes);
void untold_add_managed(const void *owner, const void *ctx, struct dev dev, uint64_t bytes);

/* True when managed variables of the owner are charged. */
bool untold_has_managed(const void *owner);

/*
 * An owner is about to go, or did not: its handle may be another's as soon as the driver has it
 * back, so it goes by an address of the caller's meanwhile.
 */
void untold_rename(const void *was, const void *to);

/*
 * The owner, or a context with all that had come to it by `mark` (context_mark() before it went),
 * is gone: what is charged for it on each device is added, and is the caller's. NULL of either
 * takes nothing.
 */
void untold_take(const void *owner, struct untold_bytes *inout_bytes);
void untold_take_context(const void *ctx, uint64_t mark, struct untold_bytes *inout_bytes);
