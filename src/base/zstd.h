/*
 * Decoding frames of zstd, by their public description (RFC 8878). None that need a dictionary.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* True when it begins as a frame does. */
bool zstd_is(const void *in, size_t in_bytes);

/* How many bytes the frames may make at most, as far as they can be followed. */
uint64_t zstd_most_bytes(const void *in, size_t in_bytes);

/*
 * Decodes `in` into `out`, which has room for `room_bytes`. Returns how many bytes it made; -1
 * where the input is broken or makes more, or without memory. Whatever the input, nothing outside
 * of the two is touched.
 */
int64_t zstd_decode(const void *in, size_t in_bytes, void *out, size_t room_bytes);
