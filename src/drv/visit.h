/*
 * The calling thread in another context for a few driver calls.
 */
#pragma once

#include "abi/cuda.h"

#include <stdbool.h>

/*
 * Makes `ctx` current, where it is not, until visit_end() gets what this says. NULL is nowhere, and
 * false.
 */
bool visit_begin(CUcontext ctx);
void visit_end(bool has_visited);

/*
 * The context of a created stream, of a green one's that whose memory and functions it has; NULL
 * where the driver does not say.
 */
CUcontext visit_stream_context(CUstream stream);
