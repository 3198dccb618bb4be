/*
 * Times a launch now and then, by two events of ours around it, so that core/link_cost.h learns
 * what its uses of host memory cost. The second event comes with the thread's next launch, if the
 * first is still at work then; what ended before says nothing.
 *
 * Thread safe. No event goes into a capture.
 */
#pragma once

#include "abi/cuda.h"

#include <stdbool.h>
#include <stdint.h>

void uses_sample_init(void);

/* Before a launch of the thread is looked at: ends what it is timing. */
void uses_sample_end(void);

/* The program is about to end the stream, or with NULL a context: nothing is timed in it. */
void uses_sample_forget(CUstream stream);

/* Directly before a launch of this kind, which uses so much in host memory: times it, or not. */
void uses_sample_begin(uint64_t kind, uint64_t far_bytes, CUstream stream);
