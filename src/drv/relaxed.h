/*
 * A capture of the program's must not be invalidated by a call that it did not make: calls of ours
 * that a capture forbids stand between these two.
 */
#pragma once

#include "abi/cuda.h"

#include <stdbool.h>

/* What the calling thread's mode was. */
struct relaxed {
	CUstreamCaptureMode mode;
	bool is_set;
};

/* Sets the calling thread's mode; relaxed_end() takes what it answered, in the same thread. */
struct relaxed relaxed_begin(void);
void relaxed_end(struct relaxed before);
