/* Free space of an address range: which pieces of [0, size) are free. Not thread safe. */
#pragma once

#include <stdint.h>

struct cuda_extent {
	uint64_t start, size;
};

struct cuda_extents {
	struct cuda_extent *free; /* ascending, never touching one another */
	int count, room;
};

/* Makes [start, start + size) free. 0 or -ENOMEM. */
int cuda_extent_add(struct cuda_extents *e, uint64_t start, uint64_t size);

/* Takes the first free `size` bytes; `align` is a power of two. 0 or -ENOSPC. */
int cuda_extent_take(struct cuda_extents *e, uint64_t size, uint64_t align, uint64_t *out_start);

/* Takes exactly [start, start + size). 0 or -ENOSPC when part of it is not free. */
int cuda_extent_take_at(struct cuda_extents *e, uint64_t start, uint64_t size);

/* Frees the table itself. */
void cuda_extent_fini(struct cuda_extents *e);
