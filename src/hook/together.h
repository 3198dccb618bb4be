/*
 * How processes of a tenant whose kernels wait for each other's (hook/collective.h) are suspended:
 * together. What one has launched is not done before another has launched what it waits for, so who
 * is done first lets the others' wait end: it opens its gate for a moment, again and again, until
 * all are done at once. A process whose own devices wait for each other does so alone.
 *
 * Each says in the region how it stands, and looks at the others once more after it has decided, so
 * that seldom one is left behind. Those that left come back for it, a few times; not from a deep
 * suspension.
 */
#pragma once

#include "abi/cuda.h"
#include "core/device.h"
#include "drv/gpu_still.h"
#include "shm/region.h"

#include <stdbool.h>

/* Starts, with the region: fork children begin with nothing. */
void together_start(struct region *region);

/* The program is given a function of that name, or one whose name the driver tells. */
void together_given_name(const char *name);
void together_given(CUfunction function);

/*
 * The calling thread is about to launch something on the device; what it launched there was one of
 * them, or a graph with some. The first may be left out where time is not limited.
 */
void together_launching(struct dev dev);
void together_launched(struct dev dev);

/* True when it was given such a function. */
bool together_is_linked(void);

/*
 * As gpu_still_begin(), when all others of the tenant that may wait for this process's work stand
 * still too, or have left; after some time it does for itself, if it can. -ECANCELED when
 * waits->is_over() says so, which has to be there. The worker's.
 */
int together_begin(const struct gpu_still_waits *waits);

/* What is wanted was looked at after `resumes` of the region was this. The worker's. */
void together_seen(uint32_t resumes);

/* It left, for whatever reason: nobody waits for it to stand still. Once more after each look. */
void together_left(void);

/* It did not leave after all, or came back. */
void together_end(void);

/* True when another that may wait for this one's work could not leave. While this one has left. */
bool together_is_missed(void);
