#include "shm/doubted.h"

#include "base/bytes.h"

static void store(struct ration_slot *slot, uint64_t devices, uint64_t bytes)
{
	__atomic_store_n(&slot->doubted_devices, devices, __ATOMIC_SEQ_CST);
	__atomic_store_n(&slot->doubted_bytes, bytes, __ATOMIC_SEQ_CST);
}

void doubted_show(struct ration_region *own, unsigned slot, const uint64_t bytes[RATION_DEVICES])
{
	uint64_t devices = 0, sum = 0;

	for (int d = 0; d < RATION_DEVICES; d++) {
		devices |= (uint64_t)(bytes[d] > 0) << d;
		sum = bytes_sum(sum, bytes[d]);
	}
	store(&own->slots[slot], devices, sum);
}

uint64_t doubted_sum(const struct ration_region *own, int dev)
{
	uint64_t sum = 0;

	for (int i = 0; i < HAMI_SLOTS; i++) {
		const struct ration_slot *slot = &own->slots[i];

		if (__atomic_load_n(&own->hint[i], __ATOMIC_RELAXED) &&
		    __atomic_load_n(&slot->doubted_devices, __ATOMIC_SEQ_CST) >> dev & 1)
			sum = bytes_sum(sum,
					__atomic_load_n(&slot->doubted_bytes, __ATOMIC_SEQ_CST));
	}
	return sum;
}

void doubted_clear(struct ration_region *own, unsigned slot)
{
	store(&own->slots[slot], 0, 0);
}
