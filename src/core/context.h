/*
 * The contexts of this process that we saw being made: on which device each is, what it was charged
 * with, and how many users it has (cuCtxAttach).
 *
 * Thread safe; nothing here calls the driver. As in core/track.h, a context is taken out before the
 * driver call that ends it and put back if that call fails.
 */
#pragma once

#include "core/device.h"

#include <stdbool.h>
#include <stdint.h>

/* One context, taken out. */
struct context;

/* What a context was charged with. */
struct context_cost {
	struct dev dev;
	uint64_t bytes;
};

/* Starts: fork children begin with nothing. */
void context_init(void);

/*
 * Enters a context with one user. Where one of that handle stood it ended unseen: its cost comes
 * back. Where there is no memory for it, it stays unknown.
 */
struct context_cost context_enter(const void *ctx, struct dev dev, uint64_t bytes);

/* True when a context that we know of is on the device. */
bool context_any(struct dev dev);

/* One user more of a known context. */
void context_attach(const void *ctx);

/*
 * One user less, before the driver call: true when that was the last of a known context, and
 * *out_context is it, taken out. context_attach() undoes it where it was not the last.
 */
bool context_detach(const void *ctx, struct context **out_context);

/* Now, in entered contexts; see context_take(). */
uint64_t context_mark(void);

/* One that has ended. */
struct context_gone {
	const void *ctx;
	uint64_t mark; /* context_mark() before that */
};

/* What came to a context of this handle when context_mark() said `mark` went with that one. */
static inline bool context_is_gone(const struct context_gone *gone, const void *ctx, uint64_t mark)
{
	return ctx == gone->ctx && mark <= gone->mark;
}

/* Takes a context that was entered before `mark` out: NULL when it is unknown. */
struct context *context_take(const void *ctx, uint64_t mark);

/* The context ended: what it was charged with. */
struct context_cost context_end(struct context *context);

/* It did not: as context_enter() where another has its handle now. */
struct context_cost context_put_back(struct context *context);
