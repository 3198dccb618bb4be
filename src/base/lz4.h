/*
 * Decoding a block of LZ4, by its public description of the block format.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Decodes `in` into `out`, which has room for `room_bytes`. Returns how many bytes it made; -1
 * where the input is broken or makes more. Whatever the input, nothing outside of the two is
 * touched.
 */
int64_t lz4_decode(const void *in, size_t in_bytes, void *out, size_t room_bytes);
