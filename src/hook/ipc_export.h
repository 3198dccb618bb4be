/*
 * Objects that this process has given handles of. A thread of ours answers who opens one, from the
 * first such handle on until the process ends.
 */
#pragma once

#include "core/object.h"
#include "hook/ipc_handle.h"

struct region;

/* With the start of a member. The region is kept. */
void ipc_export_start(struct region *region);

/*
 * A handle of an object, which stays where it is from now on. 0; -ENOTSUP where its memory cannot
 * be given to others, of which a line is logged once; -ENOENT when it was freed; -ENOMEM, -EBUSY.
 */
int ipc_export_handle(const struct object_info *object, struct ipc_handle *out_handle);

/* True for a device whose objects have handles. */
bool ipc_export_can(struct dev dev);

/* True when this process gave the handle. */
bool ipc_export_is_own(const struct ipc_handle *handle);

/* The tenant's region; NULL without one. */
const struct region *ipc_export_region(void);
