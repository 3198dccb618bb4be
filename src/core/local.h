/*
 * Local memory: what the threads of a kernel keep for themselves. The driver has one area in each
 * context, with room for every thread that can be resident on the device. It begins with the
 * stack that a context has (its own cost holds that) and grows when a function is launched whose
 * threads need more, so a context has the most that any function needed, not the sum.
 *
 * What an area will grow by is reserved before the launch, and set by the driver's own figure
 * after it. Thread safe; nothing here calls the driver but to look at the card, and that with no
 * lock held.
 */
#pragma once

#include "core/device.h"

#include <stdbool.h>
#include <stdint.h>

/* The stack that a context begins with. */
enum { LOCAL_STACK_BYTES = 1024 };

/* A context's area; taken out. */
struct local_area;

/* A launch, or what may bring one, in a context. */
struct local_use {
	const void *ctx;
	struct dev dev;
	uint64_t
		threads; /* that can be resident on the device; 0: not known, nothing is reserved */
	uint32_t thread_bytes; /* local memory of one */
};

/* A use whose area is to grow; on its caller's stack. Constant between reserve and finish. */
struct local_growth {
	struct local_use use;
	uint64_t
		bytes; /* what the area lacks; reserved, but for what another thread has reserved */
	uint64_t before_bytes; /* overhead of this process before it */
	bool is_growing;       /* false: there is room, nothing is to be done */
};

/* What a call did with the area. */
enum local_end {
	LOCAL_FAILED,  /* nothing */
	LOCAL_PERHAPS, /* it has grown if the card says so, of most of what it lacked */
	LOCAL_WHOLLY,  /* it has grown if the card says so of all of that: it may need less */
	LOCAL_GREW,
};

/* Starts, after charge_init() began. */
void local_init(void);

/* A context was made. One that nobody told of begins at its first use. */
void local_open(const void *ctx, struct dev dev);

/*
 * Before the driver call: reserves what the area lacks and tells core/function.h of `handle`
 * (NULL: of none). 0, then local_finish() follows; or -EDQUOT, and growth->bytes is what was
 * refused. It may wait, as quota_reserve(), with no lock held.
 */
int local_reserve(struct local_growth *growth, const struct local_use *use, const void *handle);

/*
 * Tells core/function.h what `handle` needs: whether a context (NULL: each that there is) has it.
 */
void local_tell(const void *handle, const void *ctx, uint32_t thread_bytes);

/* After it. */
void local_finish(struct local_growth *growth, enum local_end end);

/*
 * As that of some areas, of which a call may have let any grow: they have if the card says so of
 * all of them, unless it has failed.
 */
void local_finish_all(struct local_growth *growths, unsigned count, enum local_end end);

/* Another number each time that an area has come, has lost room or has ended. */
uint64_t local_epoch(void);

/*
 * What a context has for system calls (enum image_calls of core/image.h), and local memory for
 * each thread: that came with modules that make such calls; none in a context that is unknown.
 */
struct local_calls {
	unsigned calls;
	uint32_t thread_bytes;
};
struct local_calls local_calls(const void *ctx);

/* It has it for these too. Without memory for it, that is forgotten. */
void local_called(const void *ctx, struct dev dev, unsigned calls);

/* The driver took the area back to what a stack of this size takes. */
void local_shrink(const struct local_use *use);

/* Takes a context's area out before the driver ends the context; NULL when there is none. */
struct local_area *local_take(const void *ctx);

/*
 * The context ended, with what had come to it by `mark` (context_mark() before): what was charged
 * for its area beyond the context. Or it did not end.
 */
uint64_t local_end(struct local_area *area, uint64_t mark);
void local_put_back(struct local_area *area);
