/*
 * Launches like an earlier one of their thread: the same function and size into the same stream,
 * while nothing has happened that would change where it goes or how it is to be treated. Such a
 * launch is compared, counted and handed on; all others go the long way (hook/work.h), which keeps
 * what it found out for the next.
 *
 * A thread has its own places, so that nothing here is locked. again_epoch() stands in a page that
 * a fork child finds cleared: what was kept before is void there.
 */
#pragma once

#include "base/clock.h"
#include "base/process.h"
#include "core/meter.h"
#include "drv/real.h"
#include "hook/stream_key.h"
#include "hook/work_call.h"

#include <stdatomic.h>

enum { AGAIN_PLACES_LOG2 = 6, AGAIN_PLACES = 1 << AGAIN_PLACES_LOG2 };
/* No epoch: of a place with nothing in it. */
#define AGAIN_NEVER UINT64_MAX

/* In `epoch`: the thread's context says where it goes, and has to be `ctx`. */
#define AGAIN_BY_CONTEXT (UINT64_C(1) << 63)

struct again {
	/* What was launched. */
	uint64_t what, amount;
	CUstream stream; /* again_stream() */
	uint64_t epoch;  /* when it was, and AGAIN_BY_CONTEXT; any other makes it void */
	/* What was found out. */
	struct meter_thread *thread;
	struct lane *lane;
	struct means_entry *entry; /* known */
	uint64_t kind;             /* that the entry had */
	struct meter *meter;
	CUcontext ctx; /* of AGAIN_BY_CONTEXT */
} __attribute__((aligned(128)));

/* The calling thread's places; at first those of nobody, in which there is nothing. */
extern __thread struct again *again_places
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

extern union again_shared {
	_Atomic uint64_t epoch;
	char page[PROCESS_PAGE_BYTES];
} again_shared __attribute__((visibility("hidden")));

/* Starts in this process: nothing that was kept before counts. */
void again_init(void);

/*
 * Raised whenever a stream or a context ended, a capture began or a function was handed out that
 * was never launched: what a thread remembers of where its work goes is void.
 */
static inline uint64_t again_epoch(void)
{
	return atomic_load_explicit(&again_shared.epoch, memory_order_acquire);
}

void again_void(void);

/* The places of a new thread. */
void again_clear(struct again *places);

/* Where a call's work goes: two names of a stream may be one. */
static inline CUstream again_stream(const struct work_call *call)
{
	return call->is_per_thread && !call->stream ? CU_STREAM_PER_THREAD : call->stream;
}

/*
 * Where a launch like this one is kept. Handles of functions and of streams lie in rows with like
 * steps: so many of either do not meet.
 */
static inline struct again *again_place(const struct work_call *call)
{
	uint64_t sum = call->what + 9 * (uint64_t)(uintptr_t)again_stream(call) + call->amount;
	uint32_t hash = (uint32_t)sum * 0x9e3779b1u;

	return &again_places[hash >> (32 - AGAIN_PLACES_LOG2)];
}

/* The place if it holds by context, and that is the calling thread's; else NULL. */
struct again *again_by_context(struct again *at, uint64_t epoch);

/* The earlier launch that this one is like; NULL when there is none. */
__attribute__((always_inline)) static inline struct again *again_find(const struct work_call *call)
{
	struct again *at = again_place(call);
	uint64_t epoch;

	if (at->what != call->what || at->amount != call->amount ||
	    at->stream != again_stream(call))
		return NULL;
	epoch = again_epoch();
	return __builtin_expect(at->epoch == epoch, 1) ? at : again_by_context(at, epoch);
}

/* True when it may go without being held, and no marker goes before it: then it costs so much. */
__attribute__((always_inline)) static inline bool again_may_go(const struct again *at,
							       int64_t *out_cost_ns)
{
	int64_t cost_ns = means_cost_ns(at->entry);

	/* One branch for both: neither is often true. */
	if ((lane_wants(at->lane) | __atomic_load_n(&at->thread->attention, __ATOMIC_RELAXED)) ||
	    __atomic_load_n(&at->entry->key, __ATOMIC_RELAXED) != at->kind ||
	    at->thread->grant_ns < cost_ns)
		return false;
	*out_cost_ns = cost_ns;
	return true;
}

/* It goes: its time is off what the thread may submit. again_end() or again_cancel() follows. */
static inline void again_begin(struct again *at, int64_t cost_ns)
{
	at->thread->grant_ns -= cost_ns;
}

/* The launch did not take place. */
void again_cancel(struct again *at, int64_t cost_ns) __attribute__((cold));

/* It did: the driver call has returned. */
static inline void again_end(struct again *at, int64_t cost_ns)
{
	struct lane *lane = at->lane;
	int64_t now_ns = clock_now_ns();

	lane_launched(lane, cost_ns, now_ns);
	if (__builtin_expect(now_ns >= lane->due_ns, 0)) {
		at->thread->cost_ns = cost_ns;
		/* Never wants a marker behind it: the launch was none of a pair. */
		meter_look(at->meter, at->thread, lane, now_ns);
	}
}
