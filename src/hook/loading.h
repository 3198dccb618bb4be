/*
 * What loading an image will take of a device: its variables at once, its code then too where the
 * driver loads it eagerly.
 */
#pragma once

#include "core/image.h"

#include <stdbool.h>
#include <stdint.h>

/* True when the driver loads all functions with their module. */
bool loading_is_eager(void);

/* On the calling thread's device, or on any: where it has none, and what may come to others. */
enum loading_place { LOADING_HERE, LOADING_ANYWHERE };

/*
 * Bytes that the image takes at most there: at once, and with the first use of a function. 0 where
 * the image says nothing, or nothing comes then; UINT64_MAX where nobody can tell. Its pages may be
 * gone; what is not there is not read.
 */
struct loading {
	uint64_t bytes, later_bytes;
	uint64_t managed_bytes; /* of managed variables, beside those */
	uint64_t shared_bytes;  /* of blocks that others may share, what its variables may hold */
	unsigned calls;         /* enum image_calls: what the context may have to have for them */
};
struct loading loading_read(const void *image, enum loading_place place);
struct loading loading_read_file(const char *path, enum loading_place place);
