/*
 * What the region holds about GPU time, one structure a device: the tenant's bucket, the ring of busy
 * bins and each slot's part. All words are changed by atomic operations of any process of the tenant;
 * a process that is killed between any two instructions leaves at most its own slot's words behind,
 * which count only while the slot's bit in `active` is set. All zero is a new device: an empty
 * bucket. Nothing in here is used as an index or a length.
 */
#ifndef RATION_PACE_H
#define RATION_PACE_H

#include <stddef.h>
#include <stdint.h>

/* A ring word holds 48 bins of 20 us under a 16-bit tag, the round of the ring: 2.03 s in all. */
#define PACE_BIN_NS INT64_C(20000)
enum { PACE_WORD_BINS = 48, PACE_RING_WORDS = 2112, PACE_SLOTS = 1024 };

struct pace_ring {
	uint64_t words[PACE_RING_WORDS]; /* atomic, any process */
};

/* One process's part. Its process adds; whoever reaps the slot clears. Atomic. */
struct pace_slot {
	_Alignas(64) uint64_t unmeasured_ns; /* predicted time of what was submitted or granted */
	uint64_t unfinished_ns;              /* debited already for work that has not ended */
	uint64_t busy_ns;         /* bins that this process was the first to set, since its start */
	uint64_t held_ns;         /* time its threads were held, since its start */
	uint64_t second_ns;       /* CLOCK_MONOTONIC: when the second under way began */
	uint64_t second_busy_ns;  /* busy_ns at that moment */
	uint64_t second_share_ns; /* busy in the full second before it */
	uint64_t overlap; /* core/pace.c: how much of its predicted time becomes busy time */
};

struct pace_device {
	/* Both by one 128-bit compare-and-swap. GPU time x percent, so that filling is exact. */
	_Alignas(64) int64_t level_pct_ns;
	int64_t filled_ns;                /* CLOCK_MONOTONIC up to which it was filled */
	uint64_t progress_ns;             /* when a process of the tenant last saw work end */
	uint64_t let;                     /* launches let through without progress: core/pace.c */
	uint64_t let_ns;                  /* when the last of them was */
	uint32_t change;                  /* futex, shared: raised by each change of the terms */
	uint32_t share_pct;               /* that a linked process was last held to: core/late.h */
	uint64_t second_ns;               /* when the next word was read from the ring */
	uint64_t second_busy_ns;          /* busy in the second before */
	uint64_t active[PACE_SLOTS / 64]; /* bit n: slot n's words count */
	uint64_t saved_ns;                /* when the bucket last held savings */
	uint64_t active_words;            /* bit n: active[n] was ever not 0; never cleared */
	uint64_t turn;      /* core/pace_turn.c: whose held launches go, and until when */
	uint64_t first;     /* likewise: who was held longest, and since when */
	uint64_t first_ns;  /* and until when it may still come */
	uint64_t late_ns;   /* debited, and not to be paid at once: core/late.h */
	uint64_t linked_ns; /* when a linked process last asked */
	uint64_t lost_ns;   /* when a turn of others was last told from its time: core/replay.h */
	struct pace_ring ring;
	struct pace_slot slots[PACE_SLOTS];
};

_Static_assert(sizeof(struct pace_slot) == 64, "a slot's part is one cache line");
_Static_assert(offsetof(struct pace_device, active) == 64, "pace_device.active has moved");
_Static_assert(offsetof(struct pace_device, ring) == 256, "pace_device.ring has moved");
_Static_assert(offsetof(struct pace_device, slots) == 256 + 8 * PACE_RING_WORDS,
	       "pace_device.slots has moved");
_Static_assert(sizeof(struct pace_device) == 256 + 8 * PACE_RING_WORDS + 64 * PACE_SLOTS,
	       "pace_device has another size");

#endif
