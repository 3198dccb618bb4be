#include "shm/kept.h"

_Static_assert(RATION_DEVICES <= 32, "a bit for each in small_devices");

void kept_show(struct ration_region *own, unsigned slot, int dev, bool has)
{
	uint32_t *devices = &own->slots[slot].small_devices, bit = UINT32_C(1) << dev;

	if (!has) {
		__atomic_fetch_and(devices, ~bit, __ATOMIC_RELAXED);
		return;
	}
	__atomic_fetch_or(devices, bit, __ATOMIC_SEQ_CST);
	__atomic_fetch_or(&own->kept_devices, bit, __ATOMIC_SEQ_CST);
}

bool kept_is(const struct ration_region *own, int dev)
{
	return __atomic_load_n(&own->kept_devices, __ATOMIC_RELAXED) >> dev & 1;
}

static bool has_small(const struct ration_region *own, uint32_t bit)
{
	for (int i = 0; i < HAMI_SLOTS; i++)
		if (__atomic_load_n(&own->hint[i], __ATOMIC_RELAXED) &&
		    __atomic_load_n(&own->slots[i].small_devices, __ATOMIC_SEQ_CST) & bit)
			return true;
	return false;
}

bool kept_look(struct ration_region *own, int dev)
{
	uint32_t bit = UINT32_C(1) << dev;

	if (!kept_is(own, dev))
		return false;
	if (has_small(own, bit))
		return true;
	/* Who shows his first now sets the bit behind this, or is seen by a second look. */
	__atomic_fetch_and(&own->kept_devices, ~bit, __ATOMIC_SEQ_CST);
	if (!has_small(own, bit))
		return false;
	__atomic_fetch_or(&own->kept_devices, bit, __ATOMIC_SEQ_CST);
	return true;
}

void kept_clear(struct ration_region *own, unsigned slot)
{
	__atomic_store_n(&own->slots[slot].small_devices, 0, __ATOMIC_RELAXED);
}
