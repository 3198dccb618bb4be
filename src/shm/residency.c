#include "shm/residency.h"

#include "base/bytes.h"

#include <errno.h>

static uint64_t *word_of(struct ration_region *own, unsigned slot, int place)
{
	struct ration_residency *r = &own->residency[slot];

	return place == RESIDENCY_HOST ? &r->host_bytes : &r->card_bytes[place];
}

uint64_t residency_sum(const struct ration_region *own, int place)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < HAMI_SLOTS; i++) {
		const struct ration_residency *r = &own->residency[i];

		/* A slot without a hint has nothing; one that gets it now adds after that. */
		if (!__atomic_load_n(&own->hint[i], __ATOMIC_SEQ_CST))
			continue;
		sum = bytes_sum(sum,
				__atomic_load_n(place == RESIDENCY_HOST ? &r->host_bytes :
									  &r->card_bytes[place],
						__ATOMIC_SEQ_CST));
	}
	return sum;
}

int residency_add(struct ration_region *own, unsigned slot, int place, uint64_t bytes,
		  uint64_t limit_bytes)
{
	if (bytes > UINT64_MAX / 4)
		return -EDQUOT;
	/* Seq_cst as the loads of the sum: of two that add at once one at least sees the other. */
	__atomic_fetch_add(word_of(own, slot, place), bytes, __ATOMIC_SEQ_CST);
	if (limit_bytes == UINT64_MAX || residency_sum(own, place) <= limit_bytes)
		return 0;
	__atomic_fetch_sub(word_of(own, slot, place), bytes, __ATOMIC_SEQ_CST);
	return -EDQUOT;
}

void residency_sub(struct ration_region *own, unsigned slot, int place, uint64_t bytes)
{
	__atomic_fetch_sub(word_of(own, slot, place), bytes, __ATOMIC_SEQ_CST);
}

void residency_clear(struct ration_region *own, unsigned slot)
{
	struct ration_residency *r = &own->residency[slot];

	for (int d = 0; d <= RESIDENCY_HOST; d++)
		__atomic_store_n(word_of(own, slot, d), 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&r->moved_bytes, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&r->suspend_rc, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&r->is_suspended, 0, __ATOMIC_RELEASE);
}
