/*
 * Giving back what the dead hold, also after the program has changed its root directory: the
 * region's file is opened by its path for that, which leads nowhere then. A thread of ours has kept
 * the old root and does it for the others.
 *
 * Thread safe. The caller holds no lock that the serving thread may need.
 */
#pragma once

#include "shm/region.h"

#include <stdbool.h>

/*
 * The calling thread serves from now on, with a root directory of its own; `wake` ends its sleep.
 * Without the right to a root of its own nobody serves.
 */
void reaper_serve_here(void (*wake)(void));

/* True when somebody waited and was served. The thread that serves, often. */
bool reaper_serve(struct region *region, int own);

/*
 * As slot_reap(); waits some tenths of a second for who serves where that cannot be done here. A
 * region that nobody can open again is said once.
 */
void reaper_reap(struct region *region, int own);
