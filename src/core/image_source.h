/*
 * Bytes of an image that is the program's, or broken: nothing that it says of itself is believed,
 * and what is not there is not read. Memory of the program is copied by the kernel, which says so
 * where nothing is mapped.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct image_source {
	const void *at;
	uint64_t bytes; /* how long it is at most; UINT64_MAX: not known */
	bool is_ours;   /* all of it is there, and stays */
};

/* The image at an address of the program's. */
struct image_source image_source_of(const void *image);

/* Copies `bytes` from `offset` on. False where they are not all there. */
bool image_source_copy(const struct image_source *s, uint64_t offset, void *out, size_t bytes);

/*
 * Copies up to `bytes` from `offset` on into memory for one more, which is 0, and which the caller
 * frees. NULL where they are not all there, or more than IMAGE_COPY_MOST_BYTES.
 */
#define IMAGE_COPY_MOST_BYTES (UINT64_C(256) << 20)
char *image_source_take(const struct image_source *s, uint64_t offset, uint64_t bytes);

/* Likewise up to the first zero, or to its end; NULL too where it does not begin as text does. */
char *image_source_take_text(const struct image_source *s);

/* A part of it. */
struct image_source image_source_part(const struct image_source *s, uint64_t offset,
				      uint64_t bytes);
