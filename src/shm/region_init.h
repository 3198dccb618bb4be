/*
 * What a region begins with, and what of a file that was there before goes on to hold. Both under
 * the creation lock.
 */
#pragma once

#include "shm/region_file.h"

#include <sys/types.h>

/*
 * Whether the limits are known that will hold: the file's where a process lives in it or `setup`
 * says nothing. `size` is the file's before it was grown. 0, or -EBADMSG with *err filled.
 */
int region_init_check(const struct region *region, const struct region_setup *setup,
		      enum region_content content, off_t size, bool is_alive,
		      struct region_error *err);

/*
 * Writes both headers of a file in which nobody lives. Where `setup` says nothing the file's own
 * configuration holds, and the fields that a monitor writes stay.
 */
void region_init_write(struct region *region, const struct region_setup *setup,
		       enum region_content content, off_t size);
