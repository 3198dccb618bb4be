#include "shm/pace_slot.h"

void pace_slot_clear(struct pace_device *device, unsigned index)
{
	uint64_t bit = UINT64_C(1) << index % 64;
	struct pace_slot *slot = &device->slots[index];

	/* Before the words, which count while the bit is set. */
	__atomic_fetch_and(&device->active[index / 64], ~bit, __ATOMIC_RELEASE);
	__atomic_store_n(&slot->unmeasured_ns, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->unfinished_ns, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->busy_ns, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->held_ns, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->second_ns, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->second_busy_ns, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->second_share_ns, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->overlap, 0, __ATOMIC_RELAXED);
}
