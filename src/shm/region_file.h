/*
 * The file under a region: opening it safely, giving it space, telling what it holds.
 */
#pragma once

#include "shm/region.h"

enum region_content {
	REGION_EMPTY, /* new, or a creator died before it wrote anything */
	REGION_OURS,  /* layout RATION_LAYOUT, whole */
	REGION_TORN,  /* ours by its header, but short or left in the midst of its initialisation */
	REGION_OLDER, /* layout 1: the part before the hints is as it is now */
	REGION_OTHER, /* ours, of a layout that we do not know */
	REGION_HAMI, /* written by HAMi-core of some version, or by us and left before its layout */
};

/*
 * Opens or creates the file, mode 0666 whatever the umask: follows no link, blocks on no fifo,
 * lands on no descriptor below 3. A descriptor or -errno with *out_error filled.
 */
int region_file_open(const char *path, struct region_error *out_error);

/*
 * What the locked file holds, and whether a living process or keeper has it. Content of no kind we
 * know is an error (-ENOTUNIQ): the file is somebody's data.
 */
int region_file_examine(int fd, const char *path, enum region_content *out_content, bool *out_alive,
			struct region_error *out_error);

/*
 * Gives the file all its space, so that no later touch of the mapping can find the disk full.
 * Never shrinks. -ENOSPC, -EFBIG (RLIMIT_FSIZE, which would be a signal otherwise), -errno.
 */
int region_file_grow(int fd, const char *path, struct region_error *out_error);

/* True when the file that is mapped at `at` was unlinked; false where /proc does not show it. */
bool region_file_is_unlinked(const void *at);

/*
 * Fills *err with "PATH WHAT (what rc means)HINT", of a long path the end alone; without the
 * parentheses for what we found in the file ourselves. Returns rc, a -errno.
 */
int region_file_fail(struct region_error *err, int rc, const char *path, const char *what,
		     const char *hint);
