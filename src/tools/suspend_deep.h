/*
 * The contexts of a tenant's processes leave the GPU and come back, by the driver's checkpoint, when
 * the library in them has everything else ready.
 */
#pragma once

#include "shm/view.h"

#include <stdbool.h>

/* True when a process is ready for it, or away already. */
bool suspend_deep_any(const struct view *view);

/*
 * Has those that are ready leave, and says a line about each. `view` is of the region at `path`. 0, or -EIO
 * after a complaint of why: some may be away then, for suspend_deep_bring_back().
 */
int suspend_deep_take(const char *command, const char *path, const struct view *view, int wait_s);

/*
 * Brings back those that are away, as far as it goes, with a complaint of each that does not come if
 * is_final. 0; -ENOMEM when the GPU has no room for one; -EIO when one cannot come back at all.
 */
int suspend_deep_bring_back(const char *command, const struct view *view, bool is_final);
