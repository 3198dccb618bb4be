/*
 * A string of bits that is read from its end: the last byte's highest 1 marks where it ends, and
 * what is read next are the bits before. Behind its beginning zeros are read.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bits {
	const uint8_t *at;
	size_t bytes;
	int64_t left; /* bits that are not read yet; below 0: more were read than there are */
};

/* False where there is no mark. */
bool bits_start(struct bits *out, const uint8_t *at, size_t bytes);

/* The next `count` bits, up to BITS_MOST; and takes them. */
enum { BITS_MOST = 56 };
uint64_t bits_peek(const struct bits *b, unsigned count);
uint64_t bits_take(struct bits *b, unsigned count);

/* `count` bits from the bit numbered `from` on, counted from the lowest of the first byte. */
uint64_t bits_at(const uint8_t *at, size_t bytes, uint64_t from, unsigned count);
