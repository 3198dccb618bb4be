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
 * once. The caller holds no lock that root_do() must not meet.
 */
void reaper_reap(struct region *region, int own);
