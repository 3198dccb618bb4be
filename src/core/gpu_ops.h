/*
 * What the policy needs of the driver. src/drv implements it; unit tests give a fake.
 */
#pragma once

#include "core/device.h"

#include <stdbool.h>
#include <stdint.h>

struct gpu_ops {
	/*
	 * Device memory that the driver says this process holds on the device with this UUID: 0
	 * with *out_bytes (0 when it holds none), -ENOTSUP when the driver cannot say, -EAGAIN when
	 * not now.
	 */
	int (*process_bytes)(const char *uuid, uint64_t *out_bytes);

	/*
	 * Has the memory pools of this process give back what they hold of the device and do not
	 * use. True when there was a pool to ask. May be NULL.
	 */
	bool (*reclaim)(struct dev dev);

	/*
	 * True when the driver has no allocation that begins at the address: it was freed. May be
	 * NULL; false where the driver cannot say.
	 */
	bool (*is_freed)(uint64_t addr);

	/* Settles what those pools hold now. May be NULL. */
	void (*refresh)(struct dev dev);
};
