/*
 * Who has a slot, as the slot says it, and whether he lives. The slot's byte (shm/slot.h) says that
 * he does; that he does not it says too early, and where a descriptor holds it not even that.
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

/* The slot's byte, as who asks has found it before he asks. */
enum occupant_byte { OCCUPANT_BYTE_FREE, OCCUPANT_BYTE_HELD };

enum occupant_life {
	OCCUPANT_ALIVE,
	/*
	 * His exit has begun and is not over: the kernel closes his descriptors in an order that
	 * nobody promises, the driver's after the one that held the byte. So he may have what he
	 * had of the devices still.
	 */
	OCCUPANT_LEAVING,
	/* The byte or what else tells of him has gone, and nobody here can say whether all has. */
	OCCUPANT_FADING,
	/* He has ended, waited for or not; or he became another program, or there never was one. */
	OCCUPANT_DEAD,
};

/*
 * Whether a slot's owner lives: by the byte, then by what the kernel removes with him (lifeline.h),
 * then, for one of our own pid namespace, by his pid and start time. A start that one of the two of
 * us cannot read in the same way tells nothing.
 */
enum occupant_life occupant_look(const struct ration_slot *slot, enum occupant_byte byte);

/* As his pid alone tells, for who cannot ask for the byte: true when he is dead. */
bool occupant_seems_dead(const struct ration_slot *slot);
