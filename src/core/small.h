/*
 * Small allocations where the limit leaves no block for them. The driver may have room in one that
 * it gave before, and no call tells: so a block is kept back of the limit while there are such
 * allocations (shm/kept.h), it is reserved in doubt for one call at a time, and what the driver
 * opens in it is given back at once. The card never holds more than is charged.
 *
 * Thread safe. The caller holds no lock.
 */
#pragma once

#include "core/device.h"

#include <stdbool.h>
#include <stdint.h>

/* Starts: fork children begin with nothing. */
void small_init(void);

/* This process is about to have a small allocation on the device, or has one. */
void small_note(struct dev dev);

/*
 * A module or library came to the device, and is in the books: its code is small too, and comes
 * when functions are used.
 */
void small_note_code(struct dev dev);

/* Keeps no block back for this process where it has nothing of that any more. */
void small_settle(struct dev dev);

/*
 * After the limit refused one, which may have room where others are: objects share blocks with
 * objects alone. 0 with a block reserved in doubt and the calling thread's turn, and small_over()
 * follows; or -EDQUOT.
 */
int small_hope(struct dev dev, bool is_object);

/*
 * True when the limit has room by now for what the driver opened and a block that is kept back. The
 * caller has so many bytes in doubt; what others have may come back.
 */
bool small_may_stay(struct dev dev, uint64_t doubted_bytes);

/* The call is over: `used_bytes` of the block stay charged. */
void small_over(struct dev dev, uint64_t used_bytes);
