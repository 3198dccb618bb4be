/*
 * Giving back what the dead hold, also after the program has changed its root directory
 * (core/root.h): the region's file is opened by its path for that.
 *
 * Thread safe.
 */
#pragma once

#include "shm/region.h"

/*
 * As slot_reap(), for the slot that is this process's. A region that nobody can open again is said
 * once. The caller holds no lock that root_do() must not meet. 0 or -errno.
 */
int reaper_reap(struct region *region, int own);

/*
 * As that, once a second of all the tenant's processes together, so that monitors do not see for
 * long what is no more. The worker, as often as it looks; `now_ns` is clock_now_ns().
 */
void reaper_tick(struct region *region, int own, int64_t now_ns);
