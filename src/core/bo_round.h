/*
 * One attempt to place objects, with what it has to make room for that: how long it may wait, what
 * it has found out, and which places it is about to empty.
 */
#pragma once

#include "core/bo.h"

/* Of one thread. */
struct bo_round {
	struct bo_ctx *ctx;
	const struct bo *placed; /* for this one room is made: it is no victim. May be NULL */
	int64_t until_ns;        /* 0: nothing was waited for yet */
	uint64_t id;             /* what refused to go in it is marked so */
	unsigned leaving;        /* a bit for each place that is being emptied */
	uint64_t taken_bytes[BO_PLACES]; /* of what is pending: this round's */
};

void bo_round_begin(struct bo_round *round, struct bo_device *device, struct bo_ctx *ctx);

/* Until when it waits at most (clock_now_ns()); 1 when it may not. */
int64_t bo_round_until(struct bo_round *round);

/* Waits for the object's fence. 0 or -EBUSY. */
int bo_round_wait(struct bo_round *round, struct bo *bo);
