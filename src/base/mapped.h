/*
 * What the process has mapped and open, as the kernel says: no lock of the loader is taken, and
 * nothing is allocated.
 */
#pragma once

#include <stdbool.h>

/*
 * The first of `count` names with which the name of a mapped file begins: its index, -ENOENT when
 * there is none, or why that cannot be known.
 */
int mapped_find(const char *const *names, unsigned count);

/*
 * Whether a file is open whose path begins so: 1, 0, or -errno.
 */
int mapped_has_open(const char *path);
