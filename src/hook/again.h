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

enum { AGAIN_PLACES = 64 };
/* No epoch: of a place with nothing in it. */
#define AGAIN_NEVER UINT64_MAX

struct again {
	/* What was launched. */
	uint64_t what, amount;
	CUstream stream;
	uint64_t epoch; /* when it was; any other makes it void */
	bool is_per_thread;
	bool is_by_context; /* the thread's context says where it goes: it has to be `ctx` */
	CUcontext ctx;
	/* What was found out. */
	struct meter_thread *thread;
	struct lane *lane;
	struct means_entry *entry; /* known */
	uint64_t kind;             /* that the entry had */
	struct meter *meter;
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

/* Where a launch like this one is kept. */
static inline struct again *again_place(const struct work_call *call)
{
	uint64_t hash = call->what >> 5 ^ call->what >> 11 ^ call->amount ^
			(uint64_t)(uintptr_t)call->stream >> 7;

	return &again_places[hash % AGAIN_PLACES];
}

/* True when the calling thread's context is that of the place. */
bool again_is_current(const struct again *at);

/*
 * The earlier launch that this one is like, if it may go without being held and no marker goes
 * before it: its time, *out_cost_ns, is off what the thread may submit then, and again_end() or
 * again_cancel() follows the driver call. Else NULL.
 */
__attribute__((always_inline)) static inline struct again *again_find(const struct work_call *call,
								      int64_t *out_cost_ns)
{
	struct again *at = again_place(call);
	struct meter_thread *thread = at->thread;
	int64_t cost_ns, left_ns;

	if (at->what != call->what || at->amount != call->amount || at->stream != call->stream ||
	    at->is_per_thread != call->is_per_thread || at->epoch != again_epoch() ||
	    lane_wants(at->lane) || __atomic_load_n(&at->entry->key, __ATOMIC_RELAXED) != at->kind)
		return NULL;
	if (at->is_by_context && !again_is_current(at))
		return NULL;
	cost_ns = means_cost_ns(at->entry);
	left_ns = thread->grant_ns - cost_ns;
	if (left_ns < 0 || __atomic_load_n(&thread->attention, __ATOMIC_RELAXED))
		return NULL;
	thread->grant_ns = left_ns;
	*out_cost_ns = cost_ns;
	return at;
}

/* The launch did not take place. */
void again_cancel(struct again *at, int64_t cost_ns) __attribute__((cold));

/* It did: the driver call has returned. */
static inline void again_end(struct again *at, int64_t cost_ns)
{
	int64_t now_ns = clock_now_ns();

	lane_launched(at->lane, cost_ns, now_ns);
	if (__builtin_expect(now_ns >= at->lane->due_ns, 0)) {
		at->thread->cost_ns = cost_ns;
		/* Never wants a marker behind it: the launch was none of a pair. */
		meter_look(at->meter, at->thread, at->lane, now_ns);
	}
}
