/*
 * What is used of backings, and where it lies: noted by whoever gives the device work, looked at by
 * the worker (core/balance.h). A use of a whole backing is one count, however many objects it has.
 *
 * No lock; takes a few nanoseconds.
 */
#pragma once

#include "core/backing.h"

/* What work uses: how much of each byte, in HEAT_USE; and what it was found to be. */
struct backing_uses {
	uint32_t weight;    /* HEAT_USE: once */
	uint64_t far_bytes; /* added up: what of it lies in host memory */
};

/* Notes that work uses [addr, addr + bytes), which lies in it. Any thread. */
void backing_use(struct backing *backing, uint64_t addr, uint64_t bytes, struct backing_uses *uses);

/* The uses of an object since this was asked last. The worker alone. */
uint32_t backing_use_take(struct backing_object *object);

/*
 * Whether it lies on the device: said by who moves it, at once. A launch that finds it far and is
 * taken for one that found all near would be what others are compared with (core/link_cost.h).
 */
void backing_use_set_far(struct backing_object *object, bool is_far);
