#include "core/limit.h"

#include "base/limits.h"
#include "shm/spec.h"

#include <string.h>

static void configure(struct limit *l, int d, uint64_t amount)
{
	atomic_store_explicit(&l->configured[d], amount, memory_order_relaxed);
}

/* The word of a device; 0 where it was cleared. */
static uint64_t word_of(const struct limit *l, int d)
{
	const struct region *r = l->region;

	return region_word(r->hami, r->own, l->kind, d);
}

/* Reads the text of the limits again. False when it cannot be now: nothing has changed then. */
static bool read_spec(struct limit *l)
{
	char spec[RATION_SPEC_BYTES];
	uint32_t change;

	if (spec_read(l->region->own, l->kind, spec, &change) < 0)
		return false;
	for (int d = 0; d < RATION_DEVICES && l->uuid[d][0]; d++)
		configure(l, d, limits_for_device(l->kind, spec, d, l->uuid[d]));
	atomic_store_explicit(&l->change, change, memory_order_relaxed);
	return true;
}

/*
 * The limit as configured, by the text as it is now; by what was read last where it cannot be read.
 */
static uint64_t configured(struct limit *l, int d)
{
	uint32_t change = spec_change(l->region->own, l->kind);

	if (change != atomic_load_explicit(&l->change, memory_order_relaxed) &&
	    !atomic_exchange(&l->is_reading, true)) {
		read_spec(l);
		atomic_store(&l->is_reading, false);
	}
	return atomic_load_explicit(&l->configured[d], memory_order_relaxed);
}

uint64_t limit_now(struct limit *l, struct dev dev, bool is_region_whole)
{
	_Atomic uint64_t *last = &l->last[dev.v];

	if (is_region_whole) {
		uint64_t amount = word_of(l, dev.v);

		/* A word that was cleared does not lift a limit that was configured. */
		amount = amount ? amount : configured(l, dev.v);
		atomic_store_explicit(last, limits_effective(l->kind, amount),
				      memory_order_relaxed);
	}
	return atomic_load_explicit(last, memory_order_relaxed);
}

void limit_init(struct limit *l, const struct region *region, enum limits_kind kind)
{
	int n = region_device_count(region->own);

	l->region = region;
	l->kind = kind;
	for (int d = 0; d < n; d++)
		memcpy(l->uuid[d], region->own->devices[d].uuid, RATION_UUID_BYTES - 1);
	if (!read_spec(l)) {
		/* It is being changed: what is in force holds until it can be read. */
		atomic_store(&l->change, UINT32_MAX);
		for (int d = 0; d < n; d++)
			configure(l, d, word_of(l, d));
	}
	/* A region that is lost before anybody asked lifts nothing either. */
	for (int d = 0; d < n; d++)
		limit_now(l, (struct dev){ d }, true);
}
