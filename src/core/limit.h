/*
 * The limits of one kind, as this process reads them from its region: the word of the device, which
 * a monitor may change at any time, or what is configured where that was cleared.
 *
 * Thread safe, without a lock. The text is read again only when its change has moved.
 */
#pragma once

#include "core/device.h"

#include <stdatomic.h>

struct limit {
	/* Constant after limit_init(). */
	const struct region *region;
	enum limits_kind kind;
	char uuid[RATION_DEVICES][RATION_UUID_BYTES]; /* of the devices known then */
	/* As configured, 0 = none, and the change of the text it was read from; atomic. */
	_Atomic uint64_t configured[RATION_DEVICES];
	_Atomic uint32_t change;
	_Atomic bool is_reading; /* one thread reads the text, others take what was read; atomic */
	_Atomic uint64_t last[RATION_DEVICES]; /* what limit_now() said last; atomic */
};

/* Starts with all zero. `region` is kept, not owned. */
void limit_init(struct limit *limit, const struct region *region, enum limits_kind kind);

/*
 * The limit of a device in the unit of its kind, 0 for none. What was read last where the region is
 * not whole: it is not touched then.
 */
uint64_t limit_now(struct limit *limit, struct dev dev, bool is_region_whole);
