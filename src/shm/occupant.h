/*
 * Who has a slot, as the slot says it, and whether he lives: where the slot's byte cannot tell,
 * because a descriptor holds it (shm/slot.h).
 */
#pragma once

#include "shm/lifeline.h"

#include <ration/region.h>
#include <stdbool.h>

/* This process, as it enters itself. Constant after occupant_begin(). */
struct occupant {
	uint64_t start_ticks, pid_namespace;
	uint32_t pid;
	bool by_descriptor;
	struct lifeline line; /* where a descriptor holds the byte */
};

void occupant_begin(struct occupant *occupant, bool by_descriptor);

/* Enters it in a slot, which the caller has. The pid last: with it the rest is believed. */
void occupant_show(const struct occupant *occupant, struct ration_slot *slot);

/* Whether it stands there still: nobody has reaped it. */
bool occupant_is(const struct occupant *occupant, const struct ration_slot *slot);

enum occupant_life { OCCUPANT_UNKNOWN, OCCUPANT_ALIVE, OCCUPANT_DEAD };

/*
 * Whether the slot's owner lives, by his pid and start time, if that pid is of our own namespace. A
 * start that one of the two of us cannot read in the same way tells nothing. Dead is one whose
 * descriptors are closed too; one who has ended and was not waited for is alive.
 */
enum occupant_life occupant_by_pid(const struct ration_slot *slot);

/*
 * As that, or by what the kernel removes with him, which goes before his descriptors are closed:
 * for who knows that they are.
 */
enum occupant_life occupant_life(const struct ration_slot *slot);

/* True where nobody's life can be seen, because we do not know our own namespaces. */
bool occupant_is_out_of_sight(void);
