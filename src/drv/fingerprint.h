/*
 * Which row of NVML's process list is this process's, where it does not stand under our pid: an
 * allocation of a size that nobody guesses is made and given back, and the row that rose and fell
 * by just that is ours.
 */
#pragma once

#include "abi/nvml.h"

#include <stdbool.h>
#include <stdint.h>

/* Memory of a device is had in blocks of this size: what is asked is what the list shows. */
#define FINGERPRINT_BLOCK_BYTES (UINT64_C(2) << 20)

/* What the caller does for it. */
struct fingerprint {
	/* Takes device memory, blocks of 2 MiB. False when there is none. */
	bool (*take)(void *arg, uint64_t bytes);
	/* Gives back what was taken last. False when that failed: it is not taken again then. */
	bool (*give)(void *arg);
	void *arg;
	/*
	 * That many blocks at once at most, two at least: how many they are tells the rows apart.
	 */
	unsigned blocks_most;
	uint64_t seed; /* of the sizes: another for every process */
};

/*
 * The pid of our row, or 0 when it was not found. Some twenty questions to NVML, about a
 * millisecond; four times as many where it is not found.
 */
unsigned fingerprint_find(nvmlDevice_t dev, const struct fingerprint *fingerprint);
