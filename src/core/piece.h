/*
 * Pieces: what managed pools have given out, by address. A pool that is destroyed keeps its memory
 * until the last of them is freed. Of device memory the card's figure tells when that was; managed
 * memory is in no figure, so its pieces are counted.
 *
 * Thread safe; nothing here calls the driver.
 */
#pragma once

#include "core/device.h"

#include <stdbool.h>
#include <stdint.h>

/* Starts: fork children begin with nothing. */
void piece_init(void);

/* One pool, whose pieces are counted. NULL without memory for it: then nothing of it is known. */
struct piece_pool;
struct piece_pool *piece_pool_new(void);

/*
 * The pool is destroyed, and `bytes` stay charged until its last piece is freed; that may be now.
 * Where a piece of it could not be remembered they stay for ever. NULL is fine.
 */
void piece_pool_end(struct piece_pool *pool, struct dev dev, uint64_t bytes);

/* The pool gave this out. NULL is fine. */
void piece_given(struct piece_pool *pool, uint64_t addr);

/* True when anything is: then frees are of interest. One load. */
bool piece_any(void);

/*
 * Takes the piece at the address out before the driver frees it: NULL when there is none. Then it
 * was freed, or it was not. NULL is fine.
 */
struct piece *piece_take(uint64_t addr);
void piece_over(struct piece *piece, bool is_freed);
