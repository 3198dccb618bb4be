#include "shm/kept.h"

_Static_assert(RATION_DEVICES <= 32, "a bit for each in small_devices");

bool kept_is(const struct ration_region *own, int dev)
{
	return __atomic_load_n(&own->kept_devices, __ATOMIC_RELAXED) >> dev & 1;
}

static bool has_small(const struct ration_region *own, uint32_t bit)
{
	for (int i = 0; i < HAMI_SLOTS; i++) {
		/* Few slots are taken: eight hints at a time. */
		if (i % 8 == 0 && !__atomic_load_n((const uint64_t *)(const void *)&own->hint[i],
						   __ATOMIC_RELAXED))
			i += 7;
		else if (__atomic_load_n(&own->hint[i], __ATOMIC_RELAXED) &&
			 __atomic_load_n(&own->slots[i].small_devices, __ATOMIC_SEQ_CST) & bit)
			return true;
	}
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

void kept_show(struct ration_region *own, unsigned slot, int dev, bool has)
{
	uint32_t *devices = &own->slots[slot].small_devices, bit = UINT32_C(1) << dev;

	if (!has) {
		__atomic_fetch_and(devices, ~bit, __ATOMIC_SEQ_CST);
		kept_look(own, dev);
		return;
	}
	__atomic_fetch_or(devices, bit, __ATOMIC_SEQ_CST);
	__atomic_fetch_or(&own->kept_devices, bit, __ATOMIC_SEQ_CST);
}

void kept_clear(struct ration_region *own, unsigned slot)
{
	uint32_t had = __atomic_exchange_n(&own->slots[slot].small_devices, 0, __ATOMIC_SEQ_CST);

	for (; had; had &= had - 1)
		kept_look(own, __builtin_ctz(had));
}
