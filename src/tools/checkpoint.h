/*
 * The driver's checkpoint of whole processes (CUDA 12.8 up), asked from outside of them: what a
 * process has on the GPU, its contexts too, goes to memory of the process and comes back.
 */
#pragma once

#include "abi/cuda.h"

#include <stdbool.h>
#include <stddef.h>

/* What a call answered, and which it was. */
struct checkpoint_error {
	const char *call; /* "cuCheckpointProcessLock" and the like */
	CUresult result;
};

/*
 * Loads the driver; with is_sim the software GPU. Once. 0, or -errno with a line in out_error:
 * there is none, it cannot do it, or it does not start.
 */
int checkpoint_open(bool is_sim, char *out_error, size_t error_bytes);

/*
 * Takes the process off the GPU. What was begun before and left half-done, by a command that was
 * killed, is carried on; nothing is to be done for one that is away. 0; -EIO with *out_error, and the
 * process as it was before, as far as the driver lets it.
 */
int checkpoint_take(int pid, unsigned wait_ms, struct checkpoint_error *out_error);

/*
 * Brings it back, or does what is left of that. Nothing is to be done for one that runs. 0; -ENOMEM when the GPU has no room: it is away still; -EIO; both with
 * *out_error.
 */
int checkpoint_bring_back(int pid, struct checkpoint_error *out_error);

/* The name of an answer. */
const char *checkpoint_error_name(CUresult result);
