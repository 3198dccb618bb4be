#include "core/learnt.h"

#include "core/quota.h"

/* Two mistake themselves in the same way less often than one. */
enum { SEERS_LEAST = LEARNT_SURELY };

/* What no card could hold was not learnt. */
static uint64_t plausible(const struct ration_device *device, uint64_t bytes)
{
	return device->physical_bytes && bytes > device->physical_bytes ? 0 : bytes;
}

uint64_t learnt_context_bytes(struct dev dev)
{
	const struct ration_device *device = quota_device(dev);

	return device ? plausible(device,
				  __atomic_load_n(&device->context_bytes, __ATOMIC_RELAXED)) :
			0;
}

uint64_t learnt_context_least(struct dev dev)
{
	const struct ration_device *device = quota_device(dev);

	if (!device || __atomic_load_n(&device->context_seers, __ATOMIC_ACQUIRE) < SEERS_LEAST)
		return 0;
	return plausible(device, __atomic_load_n(&device->context_least_bytes, __ATOMIC_RELAXED));
}

void learnt_saw_context(struct dev dev, uint64_t bytes, enum learnt_seer seer)
{
	struct ration_device *device = quota_device(dev);
	uint64_t least;
	uint32_t seers;

	if (!device)
		return;
	least = __atomic_load_n(&device->context_least_bytes, __ATOMIC_RELAXED);
	while ((least == 0 || bytes < least) &&
	       !__atomic_compare_exchange_n(&device->context_least_bytes, &least, bytes, true,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	/* Behind the least: who reads this count sees what it counts. */
	seers = __atomic_load_n(&device->context_seers, __ATOMIC_RELAXED);
	while (seer && seers < SEERS_LEAST &&
	       !__atomic_compare_exchange_n(&device->context_seers, &seers, seers + seer, true,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

void learnt_note_context(struct dev dev, uint64_t bytes)
{
	struct ration_device *device = quota_device(dev);

	if (device)
		__atomic_store_n(&device->context_bytes, bytes, __ATOMIC_RELAXED);
}
