/*
 * Slots: a process's place in the region.
 *
 * Slot n is alive while its byte is locked, by a mapping of an open file description of its own
 * that no fork child inherits; no descriptor of it is left for the program to close. Where a
 * mapping does not hold the lock (overlayfs), a descriptor does. The program may close that, and a
 * fork child may keep it: there shm/occupant.h says who lives.
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
 * are. The creation lock is held. 0, -EUSERS when all 1024 are taken, or -errno.
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
 * every account. Returns how many slots were reaped, or -errno. Never touches slot `own` (-1:
 * none).
 */
int slot_reap(struct region *region, int own);

/*
 * True when a living process has a slot whose byte is free: its program closed the descriptor that
 * held it. Such a region is in use though no byte is locked.
 */
bool slot_has_robbed(const struct ration_region *own);

/*
 * True when the slot's owner is dead although its byte is locked: where a descriptor holds the
 * lock, a fork child of the owner keeps it. Its pid must be one of our own namespace to tell. A
 * byte that a mapping holds means alive, whatever the pid says.
 */
bool slot_is_orphan(const struct ration_slot *slot);

/* As its owner's pid alone tells, for who cannot ask for the byte: true when he is dead. */
bool slot_seems_dead(const struct ration_slot *slot);

/* The other way round: the byte is free and the owner lives; his program closed the descriptor. */
bool slot_is_robbed(const struct ration_slot *slot);

/* 1 when slot `index` is alive, 0 when not, -errno. `fd` may be read-only. */
int slot_alive(int fd, unsigned index);

/* Takes the keeper's byte: the file is in use though no process has a slot. As slot_claim(). */
int slot_keep(struct region *region, struct slot *out_slot);
