#include "shm/mirror.h"

static void store(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

void mirror_show(const struct region *region, unsigned slot, int dev,
		 const struct mirror_held *held, bool grows)
{
	uint64_t total = held->context_bytes + held->module_bytes + held->data_bytes;
	struct hami_slot *shown = &region->hami->procs[slot];
	struct hami_used *used;

	store(&region->own->slots[slot].used_bytes[dev], total);
	if (dev >= HAMI_DEVICES)
		return;
	used = &shown->used[dev];
	__atomic_fetch_add(&shown->seqlock, 1, __ATOMIC_ACQ_REL);
	if (grows)
		store(&used->total_bytes, total);
	store(&used->context_bytes, held->context_bytes);
	store(&used->module_bytes, held->module_bytes);
	store(&used->data_bytes, held->data_bytes);
	store(&used->total_bytes, total);
	__atomic_fetch_add(&shown->seqlock, 1, __ATOMIC_RELEASE);
}

void mirror_show_busy(const struct region *region, unsigned slot, int dev, unsigned busy_pct)
{
	struct hami_slot *shown = &region->hami->procs[slot];

	if (dev >= HAMI_DEVICES)
		return;
	__atomic_store_n(&shown->util[dev].sm_pct, busy_pct, __ATOMIC_SEQ_CST);
	/* Who frees the slot says so first and clears it then. */
	if (__atomic_load_n(&shown->status, __ATOMIC_SEQ_CST) == HAMI_FREE)
		store(&shown->util[dev].sm_pct, 0);
}
