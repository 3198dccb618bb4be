/*
 * Which row of NVML's process list is this process's, where it does not stand under our pid: an
 * allocation of a size that nobody guesses is made and given back, and the row that rose and fell
 * by just that is ours.
 */
#pragma once

#include "abi/nvml.h"

#include <stdbool.h>
#include <stdint.h>

/* What the caller does for it. */
struct fingerprint {
	/* Takes device memory, a multiple of 2 MiB up to 32 MiB. False when there is none. */
	bool (*take)(void *arg, uint64_t bytes);
	/* Gives back what was taken last. False when that failed: it is not taken again then. */
	bool (*give)(void *arg);
	void *arg;
	uint64_t seed; /* of the sizes: another for every process */
};

/*
 * The pid of our row, or 0 when it was not found. Three to eight rounds of three questions to NVML:
 * about a millisecond.
 */
unsigned fingerprint_find(nvmlDevice_t dev, const struct fingerprint *fingerprint);
