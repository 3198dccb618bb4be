#include "shm/doubted.h"

#include "base/bytes.h"

void doubted_show(struct ration_region *own, unsigned slot, uint64_t devices, uint64_t bytes)
{
	struct ration_slot *s = &own->slots[slot];

	__atomic_store_n(&s->doubted_devices, devices, __ATOMIC_RELEASE);
	__atomic_store_n(&s->doubted_bytes, bytes, __ATOMIC_RELEASE);
}

uint64_t doubted_sum(const struct ration_region *own, int dev)
{
	uint64_t sum = 0;

	for (int i = 0; i < HAMI_SLOTS; i++) {
		const struct ration_slot *slot = &own->slots[i];

		if (__atomic_load_n(&own->hint[i], __ATOMIC_RELAXED) &&
		    __atomic_load_n(&slot->doubted_devices, __ATOMIC_ACQUIRE) >> dev & 1)
			sum = bytes_sum(sum,
					__atomic_load_n(&slot->doubted_bytes, __ATOMIC_ACQUIRE));
	}
	return sum;
}

void doubted_clear(struct ration_region *own, unsigned slot)
{
	doubted_show(own, slot, 0, 0);
}
