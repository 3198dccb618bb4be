/*
 * Units of a pool's memory (POOL_STEP_BYTES) that pieces touch which are shared between processes.
 * Not thread safe: who has one orders the calls. Nothing here calls the driver.
 */
#pragma once

#include "base/hash.h"

#include <stdint.h>

struct unit;

/* A set of zeros is empty. */
struct units {
	struct hash units;
};

/*
 * Memory to enter all units that [addr, addr + bytes) touches, in *out; units_discard() frees it.
 * 0, -EINVAL for an empty range or -ENOMEM.
 */
int units_prepare(uint64_t addr, uint64_t bytes, struct unit **out);
void units_discard(struct unit *chain);

/*
 * Enters them for a piece and takes the chain over. Returns the bytes of those that were not in.
 */
uint64_t units_enter(struct units *units, struct unit *chain);

/* The piece has ended. Returns the bytes of the units that no piece is left in; they stay in. */
uint64_t units_leave(struct units *units, uint64_t addr, uint64_t bytes);

/* Takes all out. Returns their bytes; *out_live_bytes: of those in which there are pieces. */
uint64_t units_clear(struct units *units, uint64_t *out_live_bytes);
