/*
 * How many captures of streams are under way. While there is one, nothing of ours asks for a whole
 * context (a capture in it would end invalid), and nothing moves: what a capture remembers of
 * memory must be so when it ends.
 *
 * Who begins a capture counts it before it passes the gate, and where somebody may be inside with a
 * call of a whole context, with the gate shut. So who is inside and finds none, or has shut the
 * gate and finds none, may go on until it leaves or opens.
 */
#pragma once

#include "abi/cuda.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Captures that began and did not end, as far as is known. */
extern _Atomic uint32_t capture_count __attribute__((visibility("hidden")));

static inline bool capture_any(void)
{
	return atomic_load(&capture_count) != 0;
}

/* One more. */
void capture_begin(void);

/* One less; never below none. */
void capture_end(void);

/*
 * Notes that a counted capture is in the stream: with its stream or its context it ends too.
 * Forgetting says whether it was noted, and leaves the count as it is.
 */
void capture_note(CUstream stream);
bool capture_forget(CUstream stream);

/* Those in streams of a context that is gone are over. */
void capture_end_context(CUcontext ctx);
