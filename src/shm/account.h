/*
 * The account: a bounded sum over all slots of the region that survives a kill after any machine
 * instruction. struct ration_account and struct ration_entry in ration/region.h say what the words
 * mean.
 *
 * Who holds a slot's byte lock settles it first: what did the last holder leave? Then it changes
 * it, one change at a time (a mutex of the process's own). A change announces itself in the entry
 * and takes effect with one 128-bit compare-and-swap of the account; whoever replaces the account's
 * `last` keeps the evidence of the operation named there in that slot's `done` before.
 */
#pragma once

#include <ration/region.h>
#include <stdbool.h>
#include <stdint.h>

/* A slot's view of its own part of one account. Private to the holder of the slot's byte. */
struct account_holder {
	struct ration_account *account;
	struct ration_slot *slots; /* of the region, all of them */
	unsigned slot;
	int dev;
	uint64_t next;  /* number of the next operation */
	uint64_t bytes; /* this slot's part */
};

/* Learns what the slot holds. The caller has the slot's byte. */
void account_settle(struct account_holder *holder, struct ration_region *region, unsigned slot,
		    int dev);

/*
 * Adds `bytes` to the slot and the sum unless the sum would pass limit_bytes (0: no limit).
 * 0 or -EDQUOT, and then nothing has changed.
 */
int account_add(struct account_holder *holder, uint64_t bytes, uint64_t limit_bytes);

/* Takes `bytes` off the slot and the sum, never more than the slot holds. Returns what it took. */
uint64_t account_sub(struct account_holder *holder, uint64_t bytes);
