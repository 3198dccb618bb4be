/*
 * Slots: a process's place in the region.
 *
 * Slot n is alive while its byte is locked, by a mapping of an open file description of its own
 * that no fork child inherits; no descriptor of it is left for the program to close. Where a
 * mapping does not hold the lock (overlayfs), a descriptor does. The program may close that, and a
 * fork child may keep it. And it is let go before the kernel has closed the driver's descriptors,
 * so before the card has the process's memory back. shm/occupant.h says who lives, and who leaves.
 */
#pragma once

#include "shm/occupant.h"
#include "shm/region.h"

/* What holds a slot's byte. Constant after slot_claim(); slot_check() renews `fd`. */
struct slot {
	unsigned index;
	void *keep; /* a mapped page of the locked description, or NULL */
	int fd;     /* the locked descriptor, where a mapping does not hold the lock; else -1 */
	struct occupant occupant;
};

/*
 * Takes a free slot for this process, settles what a dead holder left in it, and fills in who we
 * are. The creation lock is held. 0, -EUSERS when all 1024 are taken, or -errno. Where all are, it
 * waits for those whose owners go, 2 s at most.
 */
int slot_claim(struct region *region, struct slot *out_slot);

/*
 * Whether the slot is still ours, of which the program may have closed the descriptor: 0 when it
 * is; 1 when it was lost and taken back, so that what it holds must be looked at again; -ESTALE
 * when another process has it by now; -EAGAIN when that cannot be said or done now, -ENOENT when
 * the region cannot be opened by its path, perhaps from this root directory alone.
 */
int slot_check(struct region *region, struct slot *slot);

/*
 * Makes the slot's HAMi fields those of a free slot; its bytes go at the next reap. At exit.
 * Nothing for a keeper.
 */
void slot_vacate(struct region *region, const struct slot *slot);

/*
 * Gives back what dead processes left: takes each dead slot's byte, settles it, takes its bytes off
 * every account. Who is about to end keeps it until he has (leaver_bytes()). Returns how many slots
 * were reaped, or -errno. Never touches slot `own` (-1: none).
 */
int slot_reap(struct region *region, int own);

/*
 * True when somebody has the slot, or may have of the devices what it was charged for; `is_held`:
 * its byte was found locked. A byte that a mapping holds means so, whatever else is told. Where
 * nobody can say it, who has lost his byte is taken to be gone.
 */
bool slot_is_had(const struct ration_slot *slot, bool is_held);

/*
 * Of the slots, none of whose bytes is locked, the owner who lives most (the first of enum
 * occupant_life). Such a region may be in use: a program may close the descriptor that held a byte.
 * Who is dead lives as long as descriptors hold his memory (shm/exported.h).
 */
enum occupant_life slot_look_free(const struct ration_region *own);

/* 1 when the byte of slot `index` is locked, 0 when not, -errno. `fd` may be read-only. */
int slot_alive(int fd, unsigned index);

/* Takes the keeper's byte: the file is in use though no process has a slot. As slot_claim(). */
int slot_keep(struct region *region, struct slot *out_slot);
