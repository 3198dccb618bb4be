/*
 * Who is left in a region none of whose bytes is locked. Who uses it next, or one of that name in
 * its place, has all of the limit: what the last ones hold has to go first.
 */
#pragma once

#include <ration/region.h>

#include <stdbool.h>

enum remains {
	REMAINS_NOBODY,
	/* He may be gone: nobody here can say it (OCCUPANT_FADING). Not for long any more. */
	REMAINS_FADING,
	/* His exit goes on (OCCUPANT_LEAVING). Likewise. */
	REMAINS_LEAVING,
	REMAINS_ALIVE,
};

/*
 * The most alive of them. `waited_ns`: for how long the caller has seen no byte locked; from
 * LEAVER_GONE_NS on it says only REMAINS_NOBODY or REMAINS_ALIVE.
 */
enum remains remains_look(const struct ration_region *own, int64_t waited_ns);

/*
 * Asks `look` until somebody lives, which is true, or nobody is left: those are waited for who only
 * have to go.
 */
bool remains_await(enum remains (*look)(const void *arg, int64_t waited_ns), const void *arg);
