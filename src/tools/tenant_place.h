/*
 * Where a tenant of `ration run` stands in the directory of the tenants:
 *
 *   DIR/NAME.tenant/                         mode 0711
 *   DIR/NAME.tenant/<32 hex digits>.region   mode 0666
 *
 * The programs of a tenant may run under any uid, so each must be able to write the file, and
 * nobody else: who is not told its name, which nobody can list or guess, cannot open it.
 */
#pragma once

#include "shm/wanted.h"

#include <stddef.h>

/*
 * Makes room for a tenant called `name`: its directory, and the path of a file that is not there
 * yet. What one of that name has of the devices while it leaves is waited for, two seconds at most.
 * 0; -EBUSY when one lives, begins or ends, or is another user's; -ENAMETOOLONG; -errno. Nobody else
 * makes or removes that place before tenant_place_settle().
 */
int tenant_place_make(const char *dir, const char *name, char *out_path, size_t path_bytes,
		      int *out_turn);

/* After tenant_place_make(): somebody has a byte of the file by now, or it failed. */
void tenant_place_settle(int turn);

/*
 * Ends a tenant: its file goes whatever it holds or is by now, and its directory, unless a process
 * lives in it; or may have something of the devices still, then it is left to the next. Then those
 * of the others in which nobody lives any more.
 */
void tenant_place_end(const char *dir, const char *path);

/* Removes the places in which nobody lives any more. Waits for nobody. */
void tenant_place_clean(const char *dir);

/*
 * Whether a process or a `ration run` has the file: 1 or 0, or -errno. It is not read for that: a
 * look at one that nobody has costs next to nothing, whatever is in it.
 */
int tenant_place_lives(const char *path);
