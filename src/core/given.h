/*
 * Pieces of this process's pools that it has given to others by cuMemPoolExportPointer. What the
 * pool lets go of where one lay the card holds on, in no process's figure: for the pool until it is
 * destroyed, and for each process that has had the piece until that destroys its pool or ends
 * (docs/real-gpu.md). So it stays charged: what the pools let go of, of units in which such pieces
 * were; at most what may be held, which is one of each unit here and what all have taken
 * (core/taken.h).
 *
 * Thread safe; its lock comes after the pools' and before the quota's. Nothing here calls the
 * driver.
 */
#pragma once

#include "core/device.h"

#include <stdint.h>

struct region;
struct given_piece;

/* Starts, after quota_init(): fork children begin with nothing. */
void given_init(struct region *region, unsigned slot);

/* Says anew what others see of it, where our slot was reaped in error and is ours again. */
void given_hold(void);

/* Memory for one piece; NULL when there is none, or when it is no range. */
struct given_piece *given_prepare(uint64_t addr, uint64_t bytes);

/*
 * Before the driver gives it: the piece of the pool (NULL: not known) is given, and the node taken
 * over. 1, and given_undo() follows when the driver refuses; 0: it was given before; or -ENOMEM.
 */
int given_enter(struct given_piece *piece, const void *pool, struct dev dev);
void given_undo(uint64_t addr);

/* Memory at the address ends, when its stream comes to it. One load where nothing was given. */
void given_freed(uint64_t addr);

/*
 * The pool, or one that was destroyed (NULL), holds so much less. Returns how much of that stays
 * charged.
 */
uint64_t given_keep(const void *pool, struct dev dev, uint64_t bytes);

/* The pool was destroyed: what it holds goes by given_keep() of NULL. */
void given_pool_end(const void *pool);

/* What of it nobody can hold any more: for the caller to take off. */
uint64_t given_settle(struct dev dev);
