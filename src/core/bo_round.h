/*
 * One attempt to place objects, with what it has to make room for that: how long it may wait, who
 * would not go, which places it is about to empty, and what it has taken and nobody lies in yet.
 */
#pragma once

#include "core/bo.h"

enum { BO_ROUND_OWN = 8 };

/* Of one thread. Not to be copied. */
struct bo_round {
	/* constant */
	struct bo_device *device;
	struct bo_ctx *ctx;
	/* its thread's alone */
	const struct bo *placed; /* for this one room is made: it is no victim. May be NULL */
	int64_t until_ns;        /* 0: nothing was waited for yet */
	unsigned leaving;        /* a bit for each place that is being emptied */
	/* the objects that would not go: none is asked twice, so that an attempt ends */
	const struct bo **refused;
	unsigned refused_count, refused_room;
	bool was_busy; /* one of them because work or somebody used it */
	bool is_over;  /* who refuses could not be noted: nobody is asked any more */
	const struct bo *own[BO_ROUND_OWN];
	/* its thread writes, with the device's mutex */
	uint64_t taken_bytes[BO_PLACES]; /* of what is pending there: this round's */
	TAILQ_ENTRY(bo_round) in_takers; /* while taken_bytes[] has any */
};

void bo_round_begin(struct bo_round *round, struct bo_device *device, struct bo_ctx *ctx);

/* It has dropped all that it took. */
void bo_round_end(struct bo_round *round);

/* Until when it waits at most (clock_now_ns()); 1 when it may not. */
int64_t bo_round_until(struct bo_round *round);

/*
 * As that, for what a ticket would have to tell whether it comes: without one not for long, since
 * who is waited for may be waiting for what this thread has.
 */
int64_t bo_round_until_soon(struct bo_round *round);

/* Waits for the object's fence. 0 or -EBUSY. */
int bo_round_wait(struct bo_round *round, struct bo *bo);

/* The object would not go. */
void bo_round_refuse(struct bo_round *round, const struct bo *bo);
bool bo_round_has_refused(const struct bo_round *round, const struct bo *bo);

/*
 * It has taken memory in a place and may have to wait for others before somebody lies in it. Then
 * not any more: it is about to be settled or given back.
 */
void bo_round_take(struct bo_round *round, enum bo_place place, uint64_t bytes);
void bo_round_drop(struct bo_round *round, enum bo_place place, uint64_t bytes);

/*
 * Waits for what others have pending in a place, or are ending there. 0 when it is worth trying
 * again, at once if there was a gain since `gains`; -ENOSPC when nobody has any; -EBUSY; -EDEADLK
 * when somebody older has: it may be waiting for what this thread has.
 */
int bo_round_wait_for_others(struct bo_round *round, enum bo_place place, uint64_t gains);
