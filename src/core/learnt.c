#include "core/learnt.h"

#include "core/quota.h"

uint64_t learnt_context_bytes(struct dev dev)
{
	const struct ration_device *device = quota_device(dev);
	uint64_t bytes;

	if (!device)
		return 0;
	bytes = __atomic_load_n(&device->context_bytes, __ATOMIC_RELAXED);
	/* What no card could hold was not learnt. */
	return device->physical_bytes && bytes > device->physical_bytes ? 0 : bytes;
}

void learnt_note_context(struct dev dev, uint64_t bytes)
{
	struct ration_device *device = quota_device(dev);

	if (device)
		__atomic_store_n(&device->context_bytes, bytes, __ATOMIC_RELAXED);
}
