/*
 * Modules whose variables may lie in blocks of allocations: the driver puts what is small where
 * there is room, in one context, and gives a block back with the last of either (core/track.h). A
 * block that allocations opened stays on the card for a variable in it when they are freed, and no
 * call tells. So what the last allocation of such a block leaves stays charged until a look at the
 * card says what is held, as much as variables may need.
 *
 * Thread safe; nothing here calls the driver, or charges.
 */
#pragma once

#include "core/device.h"

#include <stdbool.h>
#include <stdint.h>

struct lodger;

/* Starts: fork children begin with nothing. */
void lodger_init(void);

/*
 * `owner`, a module's or library's handle, has variables in `ctx` on the device that may hold
 * `bytes` of shared blocks. Before the look at the card after the call that brought them; a second
 * time for both changes nothing.
 */
void lodger_enter(const void *owner, const void *ctx, struct dev dev, uint64_t bytes);

/* True when any may be in blocks of the device: one load. */
bool lodger_any(struct dev dev);

/*
 * The owner is about to be unloaded: its lodgers leave, out of the books before the driver can give
 * its handle to another, and count until lodger_over() says whether it is gone. NULL is fine.
 */
struct lodger *lodger_take(const void *owner);
void lodger_over(struct lodger *taken, bool is_gone);

/* The context ended, with those that had come by `mark` (context_mark() before it went). */
void lodger_end_context(const void *ctx, uint64_t mark);

/*
 * Of `bytes` that allocations no longer hold of shared blocks, so many may be held by lodgers
 * beyond what stays charged for them already: they stay, from now on.
 */
uint64_t lodger_stay(struct dev dev, uint64_t bytes);

/* True when any stay: one load. */
bool lodger_stays(struct dev dev);

/* They stay no more: a look at the card says what is held. Returns how many. */
uint64_t lodger_settle(struct dev dev);
