#include "base/bits.h"

#include <string.h>

bool bits_start(struct bits *out, const uint8_t *at, size_t bytes)
{
	if (bytes == 0 || at[bytes - 1] == 0)
		return false;
	*out = (struct bits){ .at = at, .bytes = bytes };
	out->left = (int64_t)bytes * 8 - 1 - (__builtin_clz(at[bytes - 1]) - 24);
	return true;
}

uint64_t bits_at(const uint8_t *at, size_t bytes, uint64_t from, unsigned count)
{
	size_t first = (size_t)(from / 8), n;
	uint64_t word = 0;

	if (first >= bytes)
		return 0;
	n = bytes - first < sizeof(word) ? bytes - first : sizeof(word);
	memcpy(&word, at + first, n);
	return word >> from % 8 & ((UINT64_C(1) << count) - 1);
}

uint64_t bits_peek(const struct bits *b, unsigned count)
{
	int64_t from = b->left - count;

	if (from >= 0)
		return bits_at(b->at, b->bytes, (uint64_t)from, count);
	if (b->left <= 0)
		return 0;
	return bits_at(b->at, b->bytes, 0, (unsigned)b->left) << -from;
}

uint64_t bits_take(struct bits *b, unsigned count)
{
	uint64_t value = bits_peek(b, count);

	b->left -= count;
	return value;
}
