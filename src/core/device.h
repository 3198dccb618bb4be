/*
 * Devices. A CUDA ordinal, an NVML index and the region's index are three types that do not mix;
 * what ties them together is the UUID.
 */
#pragma once

#include "base/limits.h"
#include "shm/region.h"

#include <stdbool.h>
#include <stdint.h>

struct cuda_ord {
	int v;
};

/* Index of a device in the region's table. */
struct dev {
	int v;
};

/* What the driver says of a device. */
struct device_info {
	char uuid[RATION_UUID_BYTES];
	uint64_t physical_bytes; /* 0 = not known */
};

/*
 * Enters `listed` (NVML's devices, in its order) into the region's table, keeping room for those of
 * `own` (this process's, by ordinal), which are entered whatever happens. The creation lock is
 * held.
 */
void device_enter(struct region *region, const struct device_info *listed, int listed_count,
		  const struct device_info *own, int own_count);

/*
 * Learns this process's CUDA ordinals: `devices[o]` is the one with ordinal o. All must be in the
 * region's table. 0, or -ENOSPC when a device found no place in it.
 */
int device_bind(struct region *region, const struct device_info *devices, int count);

/* The device with this ordinal; false when there is none. */
bool device_by_ordinal(struct cuda_ord ord, struct dev *out_dev);

/* The ordinal of a device; false when this process does not see it. */
bool device_ordinal(struct dev dev, struct cuda_ord *out_ord);

/* Number of CUDA ordinals bound. */
int device_ordinals(void);

/*
 * Says in *out_error which item of the region's limits of a kind names no device of its table: 0
 * when all do, -ENODEV. The creation lock is held.
 */
int device_check_spec(const struct region *region, enum limits_kind kind,
		      struct limits_error *out_error);
