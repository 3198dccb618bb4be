/*
 * Times a launch now and then, by two events of ours around it, so that core/link_cost.h learns
 * what its uses of host memory cost. Both go where the launch goes, directly before and behind it:
 * what waits for one another in the legacy stream does so for the launch anyhow.
 *
 * Thread safe. No event goes into a capture.
 */
#pragma once

#include "abi/cuda.h"

#include <stdbool.h>
#include <stdint.h>

void uses_sample_init(void);

/* Directly before a launch of this kind, which uses so much in host memory: times it, or not. */
void uses_sample_begin(uint64_t kind, uint64_t far_bytes, CUstream stream);

/* When this thread began to time the launch that comes next, or came; 0: it does not. */
extern __thread int64_t uses_sample_from_ns
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

static inline bool uses_sample_is_on(void)
{
	return uses_sample_from_ns != 0;
}

/* Directly after it, in the same thread. */
void uses_sample_end(void);

/* The program is about to end the stream, or with NULL a context: nothing is timed in it. */
void uses_sample_forget(CUstream stream);
