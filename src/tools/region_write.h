/* The file of a living tenant, opened so that it can be changed. */
#pragma once

#include "shm/view.h"

#include <stddef.h>

/*
 * Opens the region at `path`, takes its creation lock and looks at it under the lock. A descriptor, which
 * has the lock until it is closed, and *out_view, which view_free() frees; or -errno with a line in
 * out_error: it cannot be written, is no region of ours, or its tenant has ended.
 */
int region_write_open(const char *path, struct view *out_view, char *out_error, size_t error_bytes);
