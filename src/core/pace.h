/*
 * Pacing: one bucket of GPU time per tenant and device, shared by all its processes.
 *
 * It fills at share_pct of real time up to min(50 ms x share, 5 ms) and is debited by what was
 * measured (core/meter.h). Below zero is debt, which only time pays. What has been submitted and not
 * measured counts by its prediction, in the process's slot; a dead process's part goes with its slot.
 *
 * pace_ask() says "go" or "hold until then, for this reason". Whoever holds sleeps until then, or
 * until pace_device.change moves, and asks again with the same struct pace_hold. All functions may be
 * called by any thread of any process at any time; the clock is CLOCK_MONOTONIC, passed in.
 */
#pragma once

#include "core/pace_policy.h"

#include <ration/pace.h>

#include <stdbool.h>

enum pace_reason {
	PACE_GO,
	PACE_DEBT,     /* the bucket is in debt */
	PACE_INFLIGHT, /* it is not, but what is in flight may need what is in it */
	PACE_ASKED,    /* recent_kernel or a suspension */
};

enum { PACE_NO_LIMIT_PCT = 100 };
/* What is granted at a time at most; the second while the bucket is nearly full. */
#define PACE_GRANT_NS INT64_C(200000)
#define PACE_GRANT_MOST_NS INT64_C(1000000)
/* Who was held for a debt goes on when there is so much, or half a bucket where that is less. */
#define PACE_BURST_NS INT64_C(400000)
/*
 * Where other processes use the device, who was held beside work that is in flight goes on when there is so
 * much more: several launches in a turn, since the device takes a tenth of a millisecond to turn to another.
 */
#define PACE_TURN_NS INT64_C(160000)

/* One process's place on one device. Constant after it was filled in, but for the last two. */
struct pace {
	struct pace_device *device;
	unsigned slot;
	struct pace_device *all; /* the tenant's devices, `device` is one of them */
	unsigned count;
	int64_t turn_ns; /* when its turn began (core/pace_turn.h); atomic */
	bool is_awaited; /* pace_await(); atomic */
};

/* One thread's hold. Zero before the first question of a launch; its thread's alone. */
struct pace_hold {
	enum pace_reason reason;
	uint32_t share_pct; /* that wake_ns was reckoned with */
	int64_t from_ns;    /* when it began, 0: not held */
	int64_t since_ns;   /* when it began for this reason */
	int64_t wake_ns;    /* end of a debt hold, fixed when it began */
	int64_t meet_ns;    /* end of the wait for what other devices owe, likewise */
	bool is_crowded;    /* the caller's: other processes use the device */
	bool is_linked;     /* the caller's: its kernels may wait for those of other devices */
	bool has_met;       /* it was held for what other devices owe */
};

struct pace_answer {
	enum pace_reason reason;
	int64_t until_ns; /* a hold: ask again then at the latest */
	/* Go: work of so much predicted time may be submitted; it is in unmeasured_ns already. */
	int64_t grant_ns;
	bool has_others; /* another process of the tenant had a turn a moment ago */
};

/* What the bucket may hold, in ns. */
int64_t pace_cap_ns(uint32_t share_pct);

/* What is in the bucket now, in ns; negative is debt. Fills it. */
int64_t pace_level_ns(struct pace *pace, uint32_t share_pct, int64_t now_ns);

/* May work that is predicted to take cost_ns be submitted? */
void pace_ask(struct pace *pace, const struct pace_terms *terms, struct pace_hold *hold,
	      int64_t cost_ns, int64_t now_ns, struct pace_answer *out_answer);

/* `ns` of what was granted was measured, or will not be submitted. */
void pace_settle(struct pace *pace, int64_t ns);

/* `ns` of GPU time were used: debits the bucket and counts it to the process. */
void pace_debit(struct pace *pace, uint32_t share_pct, int64_t ns, int64_t now_ns);

/* `ns` of what was debited need never be paid. */
void pace_forgive(struct pace *pace, uint32_t share_pct, int64_t ns, int64_t now_ns);

/*
 * Of what was debited, `ns` more (less, when negative) belong to work that is still running. A debt
 * is reckoned without it: a kernel that waits for a held launch must not put that launch off.
 */
void pace_unfinished(struct pace *pace, int64_t ns);

/*
 * Of what was debited, `ns` more (less, when negative) need not be paid at once: a debt is reckoned
 * without it, and what the bucket is filled with beyond what it may hold pays for it.
 */
void pace_late(struct pace *pace, int64_t ns);

/* How much of that there is. */
int64_t pace_late_ns(const struct pace *pace);

/*
 * Work predicted to take cost_ns made the device busy for busy_ns more. Where streams run side by side
 * the sum of their predictions is more than what they use together; what is in flight is reckoned by
 * the ratio that was seen of late. Told while no other process has work.
 */
void pace_overlap(struct pace *pace, int64_t busy_ns, int64_t cost_ns);

/* How many processes of the tenant have launched something on the device, this one included. */
unsigned pace_processes(const struct pace *pace);

/* No other process of the tenant has work that was not measured. */
bool pace_is_alone(const struct pace *pace);

/* Work was seen to end. */
void pace_progress(struct pace *pace, int64_t now_ns);

/* True if a launch was let through without progress since since_ns. */
bool pace_has_let(const struct pace *pace, int64_t since_ns);

/* A thread was held for `ns`. */
void pace_held(struct pace *pace, int64_t ns);

/*
 * While it is awaited, work elsewhere waits for what this process launches, and all is to end soon
 * (hook/together.h). Its launches are held only when the tenant owes what takes seconds to pay; of
 * what the device waited meanwhile nothing is paid before it is over (core/late.h).
 */
void pace_await(struct pace *pace, bool is_awaited);
bool pace_is_awaited(const struct pace *pace);

/* The terms changed, or somebody wants the sleepers to look: moves the futex; the caller wakes it. */
void pace_change(struct pace *pace);
