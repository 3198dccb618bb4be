/* What work uses of objects: core/balance.h goes by it. */
#pragma once

#include "core/backing_use.h"

/* Starts: fork children begin with nothing. */
void object_use_init(void);

/*
 * Notes that work uses [addr, addr + bytes). False when it begins in or beyond an object and does
 * not lie in one; true for addresses that are not ours, and for no bytes.
 */
bool object_use(uint64_t addr, uint64_t bytes);

/* Notes that work uses all of the object in which `addr` lies, if it does, so much. */
void object_use_whole(uint64_t addr, struct backing_uses *uses);

/* As that, of so many bytes from `addr`, as far as the object goes. */
void object_use_part(uint64_t addr, uint64_t bytes, struct backing_uses *uses);

/* True while launches are to be looked at: some of the objects lie in host memory. One load. */
bool object_use_is_wanted(void);

/* Says so; the gate is watched then. */
void object_use_want(bool is_wanted);
