/*
 * Objects whose memory is exchanged in one call of ops->move(). Of one thread.
 */
#pragma once

#include "core/bo.h"

enum { BO_BATCH_OWN = 8 };

struct bo_batch {
	struct bo_device *device;
	struct bo_move *moves;
	unsigned count, room;
	struct bo_move
		own[BO_BATCH_OWN]; /* enough for most: a move must not fail for want of memory */
};

void bo_batch_init(struct bo_batch *batch, struct bo_device *device);

/* Frees what it has. */
void bo_batch_fini(struct bo_batch *batch);

/* True when so many more fit: makes room. Another: bo_batch_has_room(). */
bool bo_batch_make_room(struct bo_batch *batch, unsigned count);
bool bo_batch_has_room(struct bo_batch *batch);

/* Adds a reserved object that is to go to memory that was taken for it. There is room. */
void bo_batch_add(struct bo_batch *batch, struct bo *bo, enum bo_place place,
		  struct bo_memory memory);

/*
 * Adds a reserved object that is to go to the memory that the object of move number `giver` leaves,
 * of the same batch: as large, and nobody else's. There is room.
 */
void bo_batch_add_heir(struct bo_batch *batch, struct bo *bo, unsigned giver);

/*
 * Moves them. Then those whose rc is 0 lie where they should, those with -EIO nowhere, the others
 * as before; the memory that is left over is given back, what nobody inherited too. Returns the
 * bytes that were copied.
 */
uint64_t bo_batch_run(struct bo_batch *batch);
