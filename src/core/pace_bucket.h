/*
 * What core/pace.c and its parts do with the words of struct pace_device: any thread, any
 * process.
 */
#pragma once

#include "core/pace.h"

/* The words of `active` that there are. */
#define PACE_BUCKET_WORDS ((UINT64_C(1) << PACE_SLOTS / 64) - 1)
/* pace_slot.overlap is a ratio, kept as its parts: busy time above so many bits, cost below. */
enum { PACE_BUCKET_OVERLAP_BITS = 32 };

/* What all slots have in flight. */
struct pace_flight {
	int64_t predicted_ns;
	int64_t unmeasured_ns; /* predicted; of what runs longer, as much again as it has run */
	int64_t unfinished_ns; /* of it, debited already */
};

/* A word of time; one of another age or another's fault is 0. */
int64_t pace_bucket_word_ns(const uint64_t *word);

/* Adds to a word; takes off, and stops at 0: a word that was cleared meanwhile stays so. */
void pace_bucket_add(uint64_t *word, int64_t ns);
void pace_bucket_take(uint64_t *word, int64_t ns);

/* Has the slot's words counted. Before anything is in them. */
void pace_bucket_mark(struct pace *pace);

/*
 * What a tenant that was idle may save beyond its bucket: all that 50 ms of its share can be
 * over.
 */
int64_t pace_bucket_saving_ns(uint32_t share_pct);

/* How much of a slot's predicted time becomes busy time, as a 1024th, from a 64th to the whole. */
int64_t pace_bucket_overlap(const struct pace_slot *slot);

struct pace_flight pace_bucket_flight(struct pace *pace);

/*
 * Fills the bucket up to now, as far as cap_ns, and takes debit_ns out. Returns the level in ns
 * x percent. What is in it beyond cap_ns stays, up to the savings. While work is in flight the
 * bucket may hold its time above the cap: it is spent already.
 */
int64_t pace_bucket_change(struct pace *pace, uint32_t share_pct, int64_t cap_ns, int64_t debit_ns,
			   int64_t now_ns);

/*
 * The level as it counts for who asks: without what is late. Of that, time has paid what is
 * more than cap_ns together with the level.
 */
int64_t pace_bucket_without_late(struct pace *pace, int64_t level_ns, int64_t cap_ns);

/* Fills the bucket for a thread that asks; what it has. One that asks anew may find savings. */
int64_t pace_bucket_fill(struct pace *pace, uint32_t share_pct, const struct pace_flight *flight,
			 bool is_held, int64_t now_ns);

/* How long it takes until a debt is paid and there is enough for a few launches. */
int64_t pace_bucket_paid_after_ns(uint32_t share_pct, int64_t debt_ns);
