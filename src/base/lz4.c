#include "base/lz4.h"

#include <stdbool.h>
#include <string.h>

enum { LENGTH_MORE = 15, MATCH_LEAST = 4, BYTE_MORE = 255 };

/* Both ends of what is left to read, and of what is made. */
struct lz4 {
	const uint8_t *in, *in_end;
	uint8_t *first, *out, *out_end;
};

/* A length whose first part is in a token: bytes follow while they are full. */
static bool read_length(struct lz4 *z, size_t *inout_length)
{
	uint8_t byte;

	if (*inout_length != LENGTH_MORE)
		return true;
	do {
		if (z->in == z->in_end)
			return false;
		byte = *z->in++;
		*inout_length += byte;
	} while (byte == BYTE_MORE);
	return true;
}

static bool copy_literals(struct lz4 *z, size_t length)
{
	if (!read_length(z, &length) || length > (size_t)(z->in_end - z->in) ||
	    length > (size_t)(z->out_end - z->out))
		return false;
	memcpy(z->out, z->in, length);
	z->in += length;
	z->out += length;
	return true;
}

/* What was made before, again; it may run into what it makes. */
static bool copy_match(struct lz4 *z, size_t length)
{
	size_t distance;

	if (z->in_end - z->in < 2)
		return false;
	distance = z->in[0] | (size_t)z->in[1] << 8;
	z->in += 2;
	if (!read_length(z, &length))
		return false;
	length += MATCH_LEAST;
	if (distance == 0 || distance > (size_t)(z->out - z->first) ||
	    length > (size_t)(z->out_end - z->out))
		return false;
	if (distance >= length) {
		memcpy(z->out, z->out - distance, length);
		z->out += length;
		return true;
	}
	for (; length; length--, z->out++)
		*z->out = z->out[-(ptrdiff_t)distance];
	return true;
}

int64_t lz4_decode(const void *in, size_t in_bytes, void *out, size_t room_bytes)
{
	struct lz4 z = { .in = in,
			 .in_end = (const uint8_t *)in + in_bytes,
			 .first = out,
			 .out = out,
			 .out_end = (uint8_t *)out + room_bytes };

	while (z.in < z.in_end) {
		uint8_t token = *z.in++;

		if (!copy_literals(&z, token >> 4))
			return -1;
		/* The last sequence has literals alone. */
		if (z.in == z.in_end)
			return z.out - z.first;
		if (!copy_match(&z, token & 15))
			return -1;
	}
	return -1;
}
