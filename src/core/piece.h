/*
 * Pieces: what managed pools have given out, by address. A pool that is destroyed keeps its memory
 * until the last of them is freed. Of device memory the card's figure tells when that was; managed
 * memory is in no figure, so its pieces are counted. One that is freed in a stream is there until
 * the stream comes to that, which a mark behind the last free in it tells.
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

/*
 * The marks of a piece that was taken out: its pool's in the stream of that number, 0 when there is
 * none yet; one more there, false when there are too many. Or no mark can be had: what the pool has
 * stays charged for ever if it is destroyed.
 */
uint64_t piece_mark(const struct piece *piece, uint64_t stream);
bool piece_add_mark(struct piece *piece, uint64_t stream, uint64_t mark);
void piece_stay(struct piece *piece);

/* True while all pieces of a destroyed pool are freed and marks are to be asked. One load. */
bool piece_any_marked(void);

/* Asks them: what `has_come` says true of is the caller's again. It may call the driver. */
void piece_settle(bool (*has_come)(uint64_t mark));
