/*
 * What the driver's own functions that kernels may call (printf, malloc, assert, launches from the
 * device) take of a context: with the first module that has such calls a larger stack for every
 * resident thread, and room for launches that wait; with the first launch the heap, which is
 * awaited from the load on (core/promise.h). None of it is given back before the context ends.
 */
#pragma once

#include "abi/cuda.h"
#include "core/device.h"

#include <stdbool.h>
#include <stdint.h>

/* A load in the calling thread's context; zeros: of an image without such calls. */
struct system_calls {
	const void *ctx; /* NULL: nothing is taken */
	struct dev dev;
	unsigned calls; /* enum image_calls */
	uint64_t bytes; /* that the load takes at most, and what is awaited then */
	uint64_t heap_bytes;
};

/* Before it: what it takes at most in that context. */
struct system_calls system_calls_of(unsigned calls);

/*
 * After it, before the look at the card: `owner`, a module or library, has brought them. False
 * without memory for that, or room for a heap that is to be awaited anew: it is to be unloaded
 * again.
 */
bool system_calls_came(const struct system_calls *s, const void *owner);

/*
 * What cuCtxSetLimit() of a limit takes at once, at most, that was `before`: more of a heap that is
 * not there yet, and of room for launches that is; 0 of other limits.
 */
uint64_t system_calls_limit_bytes(CUlimit limit, size_t before, size_t value);

/* It was set. */
void system_calls_limit(CUlimit limit, size_t value);

/*
 * As that, where the card cannot be asked: of `reserved_bytes` for it on the device, what stays
 * charged until the context ends is noted (core/untold.h). The rest, and what a smaller heap that
 * is not there yet takes less, is the caller's to release.
 */
uint64_t system_calls_limit_untold(CUlimit limit, struct dev dev, size_t before, size_t value,
				   uint64_t reserved_bytes);
