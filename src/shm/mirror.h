/*
 * What the tenant's monitors read of a slot: the HAMi fields, and Ration's own for views. After the
 * account has changed; it counts nothing.
 *
 * Thread safe between processes; of the owner's threads one at a time.
 */
#pragma once

#include "shm/region.h"

#include <stdbool.h>

/* Bytes that the owner of a slot holds on a device, by kind. */
struct mirror_held {
	uint64_t context_bytes, module_bytes, data_bytes;
};

/*
 * Shows them. The sum grows first and shrinks last, so that it is never below its parts together;
 * `grows` says which of the two it does.
 */
void mirror_show(const struct region *region, unsigned slot, int dev,
		 const struct mirror_held *held, bool grows);

/*
 * Shows how busy the owner of a slot kept a device in the last second, 0 to 100; of a slot that is
 * free nothing stays. Beside mirror_show() of another thread.
 */
void mirror_show_busy(const struct region *region, unsigned slot, int dev, unsigned busy_pct);
