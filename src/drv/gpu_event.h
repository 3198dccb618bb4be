/*
 * Events of ours in the program's streams, and the time at which each ran.
 *
 * A context has a pool of them and a clock: nanoseconds of the GPU since an event of that context, kept
 * up while it lives. It is known by a key that no later context has, whatever its handle; what is asked
 * of one that is gone finds nothing.
 *
 * Thread safe: one mutex, never held across a driver call that can wait. Events and keys are 0 for none.
 */
#pragma once

#include "abi/cuda.h"

#include <stdbool.h>
#include <stdint.h>

enum gpu_event_state {
	GPU_EVENT_DONE,    /* *out_gpu_ns is when */
	GPU_EVENT_RUNNING, /* what is before it is not done */
	GPU_EVENT_LOST,    /* the driver does not say, or the context is gone */
};

/* Starts: fork children begin with nothing. */
void gpu_event_init(void);

/* The key of a living context, a new one at first; 0 where too many are kept. */
uint64_t gpu_event_context(CUcontext ctx);

/* The handle of a context that lives, NULL of one that is gone. */
CUcontext gpu_event_handle(uint64_t context);

/*
 * An event of the context; a new one only with `may_make`, by a thread of the program that has work
 * there: a context that ends meanwhile is the program's mistake. 0 where there is none, or too many are out.
 */
uint64_t gpu_event_take(uint64_t context, bool may_make);

/* Puts the event behind what is in the stream; behind all of its context's with `is_whole`. */
bool gpu_event_record(uint64_t event, CUstream stream, bool is_whole);

/* What became of an event that was recorded. */
enum gpu_event_state gpu_event_read(uint64_t event, int64_t *out_gpu_ns);

/* The event may be used again. */
void gpu_event_give(uint64_t event);

/* The driver is about to end the context, with all its events: its key, or 0. */
uint64_t gpu_event_forget(CUcontext ctx);
