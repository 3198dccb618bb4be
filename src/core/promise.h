/*
 * What contexts are to take with a launch that nobody can tell from others: the heap of kernels'
 * malloc. The driver makes it when the first kernel that may allocate from it is launched, and not
 * when its module is loaded or its size is set. It is charged with the module, so that the launch
 * cannot pass the limit, until a look at the card finds it there.
 *
 * Thread safe; nothing here calls the driver, or charges.
 */
#pragma once

#include "core/device.h"

#include <stdbool.h>
#include <stdint.h>

/* Starts: fork children begin with nothing. */
void promise_init(void);

/* True when nothing is awaited or known to be there in the context. */
bool promise_is_wanted(const void *ctx);

/*
 * The context is to take so much, for what `owner`, a module or library, brought; where it is
 * awaited already the owner counts too, and where it is there nothing happens. Before a look at the
 * card, which keeps the reservation for it. 0, -ENOMEM, or -ENODATA without `bytes` where nothing
 * is awaited any more: whoever brought it is gone, and nobody has reserved it.
 */
int promise_make(const void *ctx, struct dev dev, const void *owner, uint64_t bytes);

/* Where it is awaited, it counts as there: it is charged elsewhere, until the context ends. */
void promise_keep(const void *ctx);

/* One that is awaited, in a context that nobody ends. */
struct promise {
	const void *ctx;
	uint64_t number; /* of no other, whatever its context's handle; from 1 on */
};

/* The device's with the next higher number than `after`. */
bool promise_next(struct dev dev, uint64_t after, struct promise *out);

/* The one of that number has come: as promise_keep(), in a change that is under way. */
void promise_come(uint64_t number);

/* Where it is awaited, it is to be so much. */
void promise_change(const void *ctx, uint64_t bytes);

/*
 * An owner or a context is about to go, or did not: its handle may be another's as soon as the
 * driver has it back, so it goes by an address of the caller's meanwhile.
 */
void promise_rename(const void *was, const void *to);

/* The owner is gone: with the last that awaits it nothing is to come; or its context is. */
void promise_end_owner(const void *owner);
void promise_end_context(const void *ctx);

/* What is awaited on the device in all, which the card has not given yet. */
uint64_t promise_bytes(struct dev dev);

/*
 * The next look may find so much less than was reserved: for something else, which takes that at
 * most. Before that look.
 */
void promise_may_lack(struct dev dev, uint64_t bytes);

/*
 * A look at the card found `now_bytes` of overhead, where `before_bytes` were charged with all that
 * was reserved or awaited. What is still awaited; growth as large as that, and larger than what may
 * be something else, has brought it.
 */
uint64_t promise_look(struct dev dev, uint64_t before_bytes, uint64_t now_bytes);
