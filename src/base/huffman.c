#include "base/huffman.h"

#include "base/fse.h"

#include <string.h>

enum { WEIGHTS_MOST = 255, WEIGHT_LOG_MOST = 6, DIRECT = 128 };

/* Of each byte, but the last that has a code: 0, or the longer its code the less. */
struct weights {
	uint8_t weight[WEIGHTS_MOST + 1];
	unsigned count;
};

static size_t read_direct(struct weights *w, const uint8_t *at, size_t bytes)
{
	w->count = at[0] - DIRECT + 1u;
	if ((w->count + 1) / 2 >= bytes)
		return 0;
	for (unsigned i = 0; i < w->count; i++)
		w->weight[i] = i % 2 ? at[1 + i / 2] & 15 : at[1 + i / 2] >> 4;
	return 1 + (w->count + 1) / 2;
}

/* Two states take turns until the bits are out, when one more byte is known. */
static bool read_turns(struct weights *w, const struct fse *f, struct bits *b)
{
	unsigned state[2];

	state[0] = fse_first(f, b);
	state[1] = fse_first(f, b);
	for (w->count = 0; w->count < WEIGHTS_MOST;) {
		unsigned turn = w->count % 2;

		w->weight[w->count++] = f->state[state[turn]].symbol;
		state[turn] = fse_next(f, b, state[turn]);
		if (b->left >= 0)
			continue;
		if (w->count == WEIGHTS_MOST)
			return false;
		w->weight[w->count++] = f->state[state[!turn]].symbol;
		return true;
	}
	return false;
}

static size_t read_packed(struct weights *w, const uint8_t *at, size_t bytes)
{
	size_t packed = at[0], table;
	struct fse f;
	struct bits b;

	if (packed >= bytes)
		return 0;
	table = fse_read(&f, at + 1, packed, HUFFMAN_BITS_MOST + 1, WEIGHT_LOG_MOST);
	if (table == 0 || table >= packed || !bits_start(&b, at + 1 + table, packed - table) ||
	    !read_turns(w, &f, &b))
		return 0;
	return 1 + packed;
}

/* The last weight is what all of them lack to a power of two. */
static bool add_last(struct weights *w, unsigned *out_bits)
{
	unsigned sum = 0, bits, rest;

	for (unsigned i = 0; i < w->count; i++) {
		if (w->weight[i] > HUFFMAN_BITS_MOST)
			return false;
		sum += w->weight[i] ? 1u << (w->weight[i] - 1) : 0;
	}
	if (sum == 0)
		return false;
	bits = 32 - (unsigned)__builtin_clz(sum);
	rest = (1u << bits) - sum;
	if (bits > HUFFMAN_BITS_MOST || (rest & (rest - 1)))
		return false;
	w->weight[w->count++] = (uint8_t)(32 - __builtin_clz(rest));
	*out_bits = bits;
	return true;
}

/* The longest codes come first, those of a length by their byte; they fill the table. */
static void make(struct huffman *h, const struct weights *w, unsigned bits)
{
	unsigned at = 0;

	h->bits = bits;
	for (unsigned weight = 1; weight <= bits; weight++)
		for (unsigned i = 0; i < w->count; i++)
			for (unsigned n = w->weight[i] == weight ? 1u << (weight - 1) : 0; n; n--) {
				h->code[at].byte = (uint8_t)i;
				h->code[at++].bits = (uint8_t)(bits + 1 - weight);
			}
}

size_t huffman_read(struct huffman *out, const uint8_t *at, size_t bytes)
{
	struct weights w;
	unsigned bits;
	size_t taken;

	if (bytes == 0)
		return 0;
	taken = at[0] >= DIRECT ? read_direct(&w, at, bytes) : read_packed(&w, at, bytes);
	if (taken == 0 || !add_last(&w, &bits))
		return 0;
	make(out, &w, bits);
	return taken;
}

bool huffman_decode(const struct huffman *h, const uint8_t *at, size_t bytes, uint8_t *out,
		    size_t out_bytes)
{
	struct bits b;

	if (h->bits == 0 || !bits_start(&b, at, bytes))
		return false;
	for (size_t i = 0; i < out_bytes; i++) {
		uint64_t next = bits_peek(&b, h->bits);

		if (b.left <= 0)
			return false;
		out[i] = h->code[next].byte;
		b.left -= h->code[next].bits;
	}
	return b.left == 0;
}
