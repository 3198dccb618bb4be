/*
 * How much of a tenant's memory lies in places that have a bound of their own: on the cards, of
 * what may leave them, and in host memory in their place. struct ration_residency in
 * ration/region.h.
 *
 * A process adds to its own words first and then looks at the sum of all, so that two that ask at
 * once never pass a bound together; both may be refused then. What a dead process held counts until
 * its slot is reaped. No journal is needed: nobody changes another's words but who reaps its slot.
 *
 * Thread safe between processes and threads.
 */
#pragma once

#include <ration/region.h>
#include <stdbool.h>
#include <stdint.h>

/* The number of the place that is host memory; others are devices of the region. */
enum { RESIDENCY_HOST = RATION_DEVICES };

/*
 * Adds to what the slot has in a place unless the sum would pass `limit_bytes` (UINT64_MAX: no
 * bound). 0 or -EDQUOT, and then nothing has changed.
 */
int residency_add(struct ration_region *own, unsigned slot, int place, uint64_t bytes,
		  uint64_t limit_bytes);

/* Takes off what was added. */
void residency_sub(struct ration_region *own, unsigned slot, int place, uint64_t bytes);

/* What all slots have in a place, of dead processes too that were not reaped. */
uint64_t residency_sum(const struct ration_region *own, int place);

/* So much more (less) of what the slot has in host memory is kept at hand with nothing in it. */
void residency_keep(struct ration_region *own, unsigned slot, int64_t bytes);

/* What all slots but one keep so; HAMI_SLOTS: all of them. */
uint64_t residency_kept(const struct ration_region *own, unsigned but_slot);

/* So many blocks (2 MiB) of what the slot has on a card are at hand with nothing in them. */
void residency_set_idle(struct ration_region *own, unsigned slot, int card, uint64_t blocks);

/*
 * What can be had of that by asking: the bytes of one slot's, and of all slots but one's
 * (HAMI_SLOTS: of all), the dead's too. Who did not answer in time has none, until it answers. And
 * what is so in all, whether it can be had or not.
 */
uint64_t residency_idle(const struct ration_region *own, unsigned slot, int card);
uint64_t residency_idle_but(const struct ration_region *own, unsigned but_slot, int card);
uint64_t residency_kept_idle_but(const struct ration_region *own, unsigned but_slot, int card);

/* The slot's owner has given what room_wanted asked for, up to this number. */
void residency_answer(struct ration_region *own, unsigned slot, uint32_t room_wanted);

/*
 * Somebody waited for the answer to this number in vain: of who keeps some on the card, or in host
 * memory.
 */
void residency_miss(struct ration_region *own, unsigned but_slot, int place, uint32_t room_wanted);

/* True when the tenant may have more than its cards have. */
bool residency_is_oversubscribed(const struct ration_region *own);

/* The tenant's bound in host memory: what was said, else base/host_memory.h; UINT64_MAX: none. */
uint64_t residency_host_limit(const struct ration_region *own);

/* `card_bytes`, which the card has free, or what is left of the tenant's bound there if less. */
uint64_t residency_card_free(const struct ration_region *own, int card, uint64_t card_bytes);

/*
 * How much more an allocation of an oversubscribed tenant can get than `card_bytes`, which the card
 * has free: what the tenant keeps there by its bound, and what it may have in host memory.
 */
uint64_t residency_free(const struct ration_region *own, int card, uint64_t card_bytes);

/*
 * The owner is about to import memory of another process, or has looked what it holds of all cards;
 * and how often it has looked since it first did: 0 where it never did.
 */
void residency_note_import(struct ration_region *own, unsigned slot);
void residency_note_look(struct ration_region *own, unsigned slot);
uint32_t residency_import_looks(const struct ration_region *own, unsigned slot);

/*
 * Whether the owner, who had looked so often (0: there was none who imports), has seen since what
 * he was left then: one look may have been under way, the one after it has. Another owner says
 * less or nothing.
 */
bool residency_has_looked(const struct ration_region *own, unsigned slot, uint32_t since);

/* The slot has nothing anywhere; who takes or reaps it. */
void residency_clear(struct ration_region *own, unsigned slot);
