/*
 * A context under way: from "may I" to "it is mine". What it costs no call tells. It is reserved by
 * what one was seen to cost, and charged by what the driver's figure grew; a first one that passes
 * the limit is ended again.
 */
#pragma once

#include "hook/enter.h"

/* Constant between begin and the end, but for the functions here. */
struct making {
	struct dev dev;
	bool is_maker;   /* of the primary context: lets the next one look when it is over */
	bool was_alone;  /* no other change was under way when it began, and the card was asked */
	bool is_doubted; /* the learnt figure says that it does not fit: the card alone counts */
	struct charge_mark mark; /* before its first look; looks: when it began */
	uint64_t expected_bytes; /* reserved: what one was seen to cost; 0 = not known yet */
	uint64_t unseen_bytes; /* reserved in doubt where that is not known: the most it may cost */
	uint64_t before_bytes; /* overhead of this process before it */
	uint64_t cost_bytes;   /* what it took, after making_finish() */
};

/*
 * Before the call that makes a context on the device. ENTER_CHARGE: one of making_finish() and
 * making_give_up() follows. ENTER_REFUSE: *out_res is the answer.
 */
enum enter making_begin(struct making *m, CUdevice ord, CUresult *out_res);

/*
 * As that for the primary context: ENTER_FORWARD when it is there. One thread at a time makes it;
 * making_over() lets the next one look.
 */
enum enter making_begin_primary(struct making *m, CUdevice ord, CUresult *out_res);
void making_over(struct making *m);

/* The driver made none. */
void making_give_up(struct making *m);

/*
 * The driver made `ctx`: 0 and it is entered, or -EDQUOT when it passes the limit. The caller then
 * ends it, and answers with making_refuse().
 */
int making_finish(struct making *m, const void *ctx);
CUresult making_refuse(struct making *m);

/* Primary contexts begun so far on the device. */
unsigned making_primaries(struct dev dev);
