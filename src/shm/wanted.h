/*
 * Room that is wanted on a card by processes of any tenant: a file in the directory of the tenants
 * of `ration run`, DIR/.wanted, whose time says when somebody found none. Who keeps memory at hand
 * with nothing in it looks there. Nothing else is in it, and nothing is trusted that it says: who
 * can write in the directory can make others give back what they keep.
 *
 * Where regions stand elsewhere, as in containers, there is none.
 */
#pragma once

#include <stdint.h>

/* How the names of the tenants' own directories in DIR end. */
#define TENANT_PLACE_SUFFIX ".tenant"

/* Starts, in a process of the region at this path. */
void wanted_start(const char *region_path);

/*
 * Says that room is wanted. 0, -ENOTSUP where there is none, -ESTALE: its path leads to another
 * directory by now, or -errno.
 */
int wanted_raise(void);

/*
 * When that was said last, by a thread that has the root directory of the start: any number that
 * changes with it; 0: never, or nobody could.
 */
uint64_t wanted_since(void);
