#include "shm/shared_pools.h"

#include "base/bytes.h"

void shared_pools_set_given(struct ration_region *own, unsigned slot, uint64_t bytes)
{
	__atomic_store_n(&own->shared_pools[slot].given_bytes, bytes, __ATOMIC_SEQ_CST);
}

void shared_pools_set_taken(struct ration_region *own, unsigned slot, uint64_t bytes)
{
	__atomic_store_n(&own->shared_pools[slot].taken_bytes, bytes, __ATOMIC_SEQ_CST);
}

uint64_t shared_pools_given(const struct ration_region *own, unsigned slot)
{
	return __atomic_load_n(&own->shared_pools[slot].given_bytes, __ATOMIC_SEQ_CST);
}

uint64_t shared_pools_all_given(const struct ration_region *own)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < HAMI_SLOTS; i++)
		bytes = bytes_sum(bytes, shared_pools_given(own, i));
	return bytes;
}

uint64_t shared_pools_all_taken(const struct ration_region *own)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < HAMI_SLOTS; i++)
		bytes = bytes_sum(bytes, __atomic_load_n(&own->shared_pools[i].taken_bytes,
							 __ATOMIC_SEQ_CST));
	return bytes;
}

void shared_pools_clear(struct ration_region *own, unsigned slot)
{
	shared_pools_set_given(own, slot, 0);
	shared_pools_set_taken(own, slot, 0);
}
