#include "shm/residency.h"

#include "base/bytes.h"
#include "base/host_memory.h"

#include <errno.h>

#define IDLE_BLOCK_BYTES (UINT64_C(2) << 20)

/* One may have been under way; the one after it has seen what was left. */
enum { LOOKS = 2 };

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

static uint64_t kept_host(const struct ration_region *own, unsigned slot)
{
	return __atomic_load_n(&own->residency[slot].kept_bytes, __ATOMIC_RELAXED);
}

uint64_t residency_kept(const struct ration_region *own, unsigned but_slot)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < HAMI_SLOTS; i++)
		if (i != but_slot && __atomic_load_n(&own->hint[i], __ATOMIC_RELAXED))
			sum = bytes_sum(sum, kept_host(own, i));
	return sum;
}

void residency_keep(struct ration_region *own, unsigned slot, int64_t bytes)
{
	__atomic_fetch_add(&own->residency[slot].kept_bytes, (uint64_t)bytes, __ATOMIC_RELAXED);
}

void residency_set_idle(struct ration_region *own, unsigned slot, int card, uint64_t blocks)
{
	__atomic_store_n(&own->residency[slot].idle_blocks[card],
			 (uint32_t)bytes_least(blocks, UINT32_MAX), __ATOMIC_RELEASE);
}

static uint64_t kept_idle(const struct ration_region *own, unsigned slot, int card)
{
	return __atomic_load_n(&own->residency[slot].idle_blocks[card], __ATOMIC_ACQUIRE) *
	       IDLE_BLOCK_BYTES;
}

/* Numbers of requests go round. */
static bool is_ahead(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) > 0;
}

static bool is_deaf(const struct ration_residency *r)
{
	return is_ahead(__atomic_load_n(&r->room_missed, __ATOMIC_RELAXED),
			__atomic_load_n(&r->room_answered, __ATOMIC_RELAXED));
}

uint64_t residency_idle(const struct ration_region *own, unsigned slot, int card)
{
	return is_deaf(&own->residency[slot]) ? 0 : kept_idle(own, slot, card);
}

void residency_answer(struct ration_region *own, unsigned slot, uint32_t room_wanted)
{
	__atomic_store_n(&own->residency[slot].room_answered, room_wanted, __ATOMIC_RELEASE);
}

void residency_miss(struct ration_region *own, unsigned but_slot, int place, uint32_t room_wanted)
{
	uint32_t was;

	for (unsigned i = 0; i < HAMI_SLOTS; i++) {
		struct ration_residency *r = &own->residency[i];

		if (i == but_slot || !__atomic_load_n(&own->hint[i], __ATOMIC_RELAXED) ||
		    !(place == RESIDENCY_HOST ? kept_host(own, i) : kept_idle(own, i, place)))
			continue;
		/* Only forward: of two that wait the one with the later number counts. */
		was = __atomic_load_n(&r->room_missed, __ATOMIC_RELAXED);
		while (is_ahead(room_wanted, was) &&
		       is_ahead(room_wanted,
				__atomic_load_n(&r->room_answered, __ATOMIC_ACQUIRE)) &&
		       !__atomic_compare_exchange_n(&r->room_missed, &was, room_wanted, true,
						    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			;
	}
}

static uint64_t sum_but(const struct ration_region *own, unsigned but_slot, int card,
			uint64_t (*idle)(const struct ration_region *own, unsigned slot, int card))
{
	uint64_t sum = 0;

	if (!(own->flags & (RATION_FLAG_MOVABLE | RATION_FLAG_OVERSUBSCRIBE)))
		return 0;
	for (unsigned i = 0; i < HAMI_SLOTS; i++) {
		/* Few slots are taken: eight hints at a time. */
		if (i % 8 == 0 && !__atomic_load_n((const uint64_t *)(const void *)&own->hint[i],
						   __ATOMIC_RELAXED))
			i += 7;
		else if (i != but_slot)
			sum = bytes_sum(sum, idle(own, i, card));
	}
	return sum;
}

uint64_t residency_idle_but(const struct ration_region *own, unsigned but_slot, int card)
{
	return sum_but(own, but_slot, card, residency_idle);
}

uint64_t residency_kept_idle_but(const struct ration_region *own, unsigned but_slot, int card)
{
	return sum_but(own, but_slot, card, kept_idle);
}

bool residency_is_oversubscribed(const struct ration_region *own)
{
	return own->flags & RATION_FLAG_OVERSUBSCRIBE;
}

uint64_t residency_host_limit(const struct ration_region *own)
{
	static uint64_t machine_bytes; /* atomic; the same for all who ask */
	uint64_t bytes = __atomic_load_n(&own->host_bytes, __ATOMIC_RELAXED);

	if (bytes)
		return bytes;
	bytes = __atomic_load_n(&machine_bytes, __ATOMIC_RELAXED);
	if (!bytes) {
		bytes = host_memory_default_bytes();
		if (!bytes)
			bytes = UINT64_MAX;
		__atomic_store_n(&machine_bytes, bytes, __ATOMIC_RELAXED);
	}
	return bytes;
}

/* What is kept is there for whoever of the tenant asks, by who answers. */
static uint64_t host_in_use(const struct ration_region *own)
{
	uint64_t bytes = residency_sum(own, RESIDENCY_HOST);

	for (unsigned i = 0; i < HAMI_SLOTS; i++)
		if (__atomic_load_n(&own->hint[i], __ATOMIC_RELAXED) &&
		    !is_deaf(&own->residency[i]))
			bytes = bytes_beyond(bytes, kept_host(own, i));
	return bytes;
}

uint64_t residency_card_free(const struct ration_region *own, int card, uint64_t card_bytes)
{
	uint64_t resident = __atomic_load_n(&own->resident_bytes, __ATOMIC_RELAXED);

	if (!residency_is_oversubscribed(own) || !resident)
		return card_bytes;
	return bytes_least(card_bytes, bytes_beyond(resident, residency_sum(own, card)));
}

uint64_t residency_free(const struct ration_region *own, int card, uint64_t card_bytes)
{
	if (!residency_is_oversubscribed(own))
		return card_bytes;
	return bytes_sum(residency_card_free(own, card, card_bytes),
			 bytes_beyond(residency_host_limit(own), host_in_use(own)));
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

void residency_note_import(struct ration_region *own, unsigned slot)
{
	uint32_t none = 0;

	/* Seen by an exporter that lets go after this. */
	__atomic_compare_exchange_n(&own->residency[slot].import_looks, &none, 1, false,
				    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

void residency_note_look(struct ration_region *own, unsigned slot)
{
	uint32_t *looks = &own->residency[slot].import_looks;
	uint32_t now = __atomic_load_n(looks, __ATOMIC_RELAXED);

	if (now)
		__atomic_store_n(looks, now + 1 ? now + 1 : 1, __ATOMIC_SEQ_CST);
}

uint32_t residency_import_looks(const struct ration_region *own, unsigned slot)
{
	return __atomic_load_n(&own->residency[slot].import_looks, __ATOMIC_SEQ_CST);
}

bool residency_has_looked(const struct ration_region *own, unsigned slot, uint32_t since)
{
	uint32_t looks = since ? residency_import_looks(own, slot) : 0;

	return !looks || looks - since >= LOOKS;
}

void residency_clear(struct ration_region *own, unsigned slot)
{
	struct ration_residency *r = &own->residency[slot];

	for (int d = 0; d < RATION_DEVICES; d++)
		residency_set_idle(own, slot, d, 0);
	__atomic_store_n(&r->room_missed, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&r->room_answered, 0, __ATOMIC_RELAXED);
	for (int d = 0; d <= RESIDENCY_HOST; d++)
		__atomic_store_n(word_of(own, slot, d), 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&r->moved_bytes, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&r->kept_bytes, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&r->suspend_rc, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&r->suspend_answered, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&r->collectives, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&r->still_resumes, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&r->import_looks, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&r->together, RATION_APART, __ATOMIC_RELAXED);
	__atomic_store_n(&r->is_suspended, 0, __ATOMIC_RELEASE);
}
