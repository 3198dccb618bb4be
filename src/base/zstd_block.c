#include "base/zstd_block.h"

#include <string.h>

enum { LITERALS_RAW = 0, LITERALS_RUN = 1, LITERALS_SAME_CODE = 3, JUMP_BYTES = 6 };
enum { MODE_USUAL = 0, MODE_ONE = 1, MODE_READ = 2 };

/* Of a code: the least that it stands for, and how many bits say how much more it is. */
struct range {
	uint32_t least;
	uint8_t bits;
};

static const struct range literal_lengths[] = {
	{ 0, 0 },     { 1, 0 },     { 2, 0 },     { 3, 0 },      { 4, 0 },      { 5, 0 },
	{ 6, 0 },     { 7, 0 },     { 8, 0 },     { 9, 0 },      { 10, 0 },     { 11, 0 },
	{ 12, 0 },    { 13, 0 },    { 14, 0 },    { 15, 0 },     { 16, 1 },     { 18, 1 },
	{ 20, 1 },    { 22, 1 },    { 24, 2 },    { 28, 2 },     { 32, 3 },     { 40, 3 },
	{ 48, 4 },    { 64, 6 },    { 128, 7 },   { 256, 8 },    { 512, 9 },    { 1024, 10 },
	{ 2048, 11 }, { 4096, 12 }, { 8192, 13 }, { 16384, 14 }, { 32768, 15 }, { 65536, 16 },
};

/* From code 32 on; below, it is 3 more than the code. */
static const struct range match_lengths[] = {
	{ 35, 1 },     { 37, 1 },     { 39, 1 },     { 41, 1 },    { 43, 2 },    { 47, 2 },
	{ 51, 3 },     { 59, 3 },     { 67, 4 },     { 83, 4 },    { 99, 5 },    { 131, 7 },
	{ 259, 8 },    { 515, 9 },    { 1027, 10 },  { 2051, 11 }, { 4099, 12 }, { 8195, 13 },
	{ 16387, 14 }, { 32771, 15 }, { 65539, 16 },
};

enum { LITERAL_CODES = 36, MATCH_CODES = 53, MATCH_PLAIN = 32, OFFSET_CODES = 32 };

static const int16_t usual_literals[] = {
	4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1,  1,  2,  2,
	2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1
};
static const int16_t usual_matches[] = { 1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1,  1,  1,  1,  1,  1,  1, 1,
					 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1,  1,  1,  1,  1,  1, 1,
					 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1 };
static const int16_t usual_offsets[] = { 1, 1, 1, 1, 1, 1, 2, 2, 2, 1,  1,  1,  1,  1, 1,
					 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1 };

#define COUNT(a) (sizeof(a) / sizeof(*(a)))
_Static_assert(COUNT(literal_lengths) == LITERAL_CODES, "all codes");
_Static_assert(COUNT(match_lengths) == MATCH_CODES - MATCH_PLAIN, "all codes");
_Static_assert(COUNT(usual_literals) == LITERAL_CODES && COUNT(usual_matches) == MATCH_CODES,
	       "all codes");

/* What is known of each table. */
static const struct {
	const int16_t *usual;
	uint8_t usual_count, usual_log, codes, log_most;
} kinds[ZSTD_TABLES] = {
	[ZSTD_LITERALS] = { usual_literals, LITERAL_CODES, 6, LITERAL_CODES, 9 },
	[ZSTD_OFFSETS] = { usual_offsets, COUNT(usual_offsets), 5, OFFSET_CODES, 8 },
	[ZSTD_MATCHES] = { usual_matches, MATCH_CODES, 6, MATCH_CODES, 9 },
};

void zstd_block_start(struct zstd_block *z, size_t frame_at)
{
	z->frame_at = frame_at;
	z->offset[0] = 1;
	z->offset[1] = 4;
	z->offset[2] = 8;
	z->huffman.bits = 0;
	memset(z->has_table, 0, sizeof(z->has_table));
}

struct input {
	const uint8_t *at;
	size_t bytes; /* that are left */
};

static bool take(struct input *in, size_t bytes, const uint8_t **out_at)
{
	if (bytes > in->bytes)
		return false;
	*out_at = in->at;
	in->at += bytes;
	in->bytes -= bytes;
	return true;
}

/* Literals that are there, or one again and again. */
static bool read_plain_literals(struct zstd_block *z, struct input *in, unsigned kind)
{
	static const uint8_t head_bytes[] = { 1, 2, 1, 3 }, shift[] = { 3, 4, 3, 4 };
	unsigned format = in->at[0] >> 2 & 3;
	uint32_t word = 0;
	const uint8_t *at;

	if (!take(in, head_bytes[format], &at))
		return false;
	memcpy(&word, at, head_bytes[format]);
	z->literals = word >> shift[format];
	if (z->literals > ZSTD_BLOCK_BYTES ||
	    !take(in, kind == LITERALS_RUN ? 1 : z->literals, &at))
		return false;
	if (kind == LITERALS_RUN)
		memset(z->literal, at[0], z->literals);
	else
		memcpy(z->literal, at, z->literals);
	return true;
}

/* Four streams, behind the lengths of three. */
static bool decode_four(struct zstd_block *z, struct input in)
{
	size_t each = (z->literals + 3) / 4, done = 0;
	const uint8_t *jumps, *at;

	if (!take(&in, JUMP_BYTES, &jumps) || 3 * each > z->literals)
		return false;
	for (int i = 0; i < 4; i++) {
		size_t bytes = i == 3 ? in.bytes : jumps[2 * i] | (size_t)jumps[2 * i + 1] << 8;

		if (i == 3)
			each = z->literals - done;
		if (!take(&in, bytes, &at) ||
		    !huffman_decode(&z->huffman, at, bytes, z->literal + done, each))
			return false;
		done += each;
	}
	return true;
}

static bool read_coded_literals(struct zstd_block *z, struct input *in, unsigned kind)
{
	static const uint8_t head_bytes[] = { 3, 3, 4, 5 }, bits[] = { 10, 10, 14, 18 };
	unsigned format = in->at[0] >> 2 & 3;
	uint64_t word = 0, mask = (UINT64_C(1) << bits[format]) - 1;
	struct input coded;
	size_t table;
	const uint8_t *at;

	if (!take(in, head_bytes[format], &at))
		return false;
	memcpy(&word, at, head_bytes[format]);
	z->literals = (size_t)(word >> 4 & mask);
	coded.bytes = (size_t)(word >> (4 + bits[format]) & mask);
	if (z->literals > ZSTD_BLOCK_BYTES || !take(in, coded.bytes, &coded.at))
		return false;
	if (kind != LITERALS_SAME_CODE) {
		table = huffman_read(&z->huffman, coded.at, coded.bytes);
		if (table == 0 || !take(&coded, table, &at))
			return false;
	}
	return format == 0 ?
		       huffman_decode(&z->huffman, coded.at, coded.bytes, z->literal, z->literals) :
		       decode_four(z, coded);
}

static bool read_literals(struct zstd_block *z, struct input *in)
{
	unsigned kind;

	if (in->bytes == 0)
		return false;
	kind = in->at[0] & 3;
	return kind <= LITERALS_RUN ? read_plain_literals(z, in, kind) :
				      read_coded_literals(z, in, kind);
}

static bool read_count(struct input *in, uint32_t *out_count)
{
	const uint8_t *at, *more;

	if (!take(in, 1, &at))
		return false;
	*out_count = at[0];
	if (at[0] < 128)
		return true;
	if (!take(in, at[0] == 255 ? 2 : 1, &more))
		return false;
	*out_count = at[0] == 255 ? more[0] + (more[1] * 256u) + 0x7f00u :
				    ((at[0] - 128u) << 8) + more[0];
	return true;
}

static bool read_table(struct zstd_block *z, struct input *in, enum zstd_table which, unsigned mode)
{
	struct fse *f = &z->table[which];
	const uint8_t *at;
	size_t taken;

	switch (mode) {
	case MODE_USUAL:
		fse_make(f, kinds[which].usual, kinds[which].usual_count, kinds[which].usual_log);
		break;
	case MODE_ONE:
		if (!take(in, 1, &at) || at[0] >= kinds[which].codes)
			return false;
		fse_make_one(f, at[0]);
		break;
	case MODE_READ:
		taken = fse_read(f, in->at, in->bytes, kinds[which].codes, kinds[which].log_most);
		if (taken == 0 || !take(in, taken, &at))
			return false;
		break;
	default:
		return z->has_table[which];
	}
	z->has_table[which] = true;
	return true;
}

struct sequence {
	uint64_t offset;
	size_t literals, match;
};

/* Values up to three are offsets that were used last. */
static uint64_t offset_of(struct zstd_block *z, uint64_t value, size_t literals)
{
	uint64_t *last = z->offset, index = value - 1 + (literals == 0), offset;

	if (value > 3)
		offset = value - 3;
	else if (index == 0)
		return last[0];
	else
		offset = index == 3 ? last[0] - 1 : last[index];
	if (value > 3 || index > 1)
		last[2] = last[1];
	last[1] = last[0];
	last[0] = offset;
	return offset;
}

static struct sequence read_sequence(struct zstd_block *z, struct bits *b,
				     const unsigned state[ZSTD_TABLES])
{
	unsigned offset = z->table[ZSTD_OFFSETS].state[state[ZSTD_OFFSETS]].symbol;
	unsigned match = z->table[ZSTD_MATCHES].state[state[ZSTD_MATCHES]].symbol;
	struct range literals =
		literal_lengths[z->table[ZSTD_LITERALS].state[state[ZSTD_LITERALS]].symbol];
	struct range matches = { match + 3, 0 };
	struct sequence s;
	uint64_t value;

	if (match >= MATCH_PLAIN)
		matches = match_lengths[match - MATCH_PLAIN];
	value = (UINT64_C(1) << offset) + bits_take(b, offset);
	s.match = matches.least + (size_t)bits_take(b, matches.bits);
	s.literals = literals.least + (size_t)bits_take(b, literals.bits);
	s.offset = offset_of(z, value, s.literals);
	return s;
}

/* Copies what the sequence says; what it copies may be what it makes. */
static bool run(struct zstd_block *z, const struct sequence *s, size_t *inout_literal,
		struct zstd_output *out)
{
	size_t room = out->room_bytes - out->bytes;
	const uint8_t *from;
	uint8_t *to;

	if (s->literals > z->literals - *inout_literal || s->literals > room ||
	    s->match > room - s->literals)
		return false;
	to = out->at + out->bytes;
	memcpy(to, z->literal + *inout_literal, s->literals);
	*inout_literal += s->literals;
	out->bytes += s->literals;
	if (s->offset == 0 || s->offset > out->bytes - z->frame_at)
		return false;
	to += s->literals;
	from = to - s->offset;
	for (size_t i = 0; i < s->match; i++)
		to[i] = from[i];
	out->bytes += s->match;
	return true;
}

static bool run_all(struct zstd_block *z, struct bits *b, uint32_t count, size_t *inout_literal,
		    struct zstd_output *out)
{
	unsigned state[ZSTD_TABLES];

	for (int t = 0; t < ZSTD_TABLES; t++)
		state[t] = fse_first(&z->table[t], b);
	for (uint32_t i = 0; i < count; i++) {
		struct sequence s = read_sequence(z, b, state);

		if (b->left < 0 || !run(z, &s, inout_literal, out))
			return false;
		if (i + 1 == count)
			break;
		state[ZSTD_LITERALS] = fse_next(&z->table[ZSTD_LITERALS], b, state[ZSTD_LITERALS]);
		state[ZSTD_MATCHES] = fse_next(&z->table[ZSTD_MATCHES], b, state[ZSTD_MATCHES]);
		state[ZSTD_OFFSETS] = fse_next(&z->table[ZSTD_OFFSETS], b, state[ZSTD_OFFSETS]);
	}
	return b->left == 0;
}

bool zstd_block_decode(struct zstd_block *z, const uint8_t *at, size_t bytes,
		       struct zstd_output *out)
{
	struct input in = { at, bytes };
	size_t literal = 0;
	const uint8_t *modes;
	struct bits b;
	uint32_t count;

	if (!read_literals(z, &in) || !read_count(&in, &count))
		return false;
	if (count > 0) {
		if (!take(&in, 1, &modes) || modes[0] & 3 ||
		    !read_table(z, &in, ZSTD_LITERALS, modes[0] >> 6) ||
		    !read_table(z, &in, ZSTD_OFFSETS, modes[0] >> 4 & 3) ||
		    !read_table(z, &in, ZSTD_MATCHES, modes[0] >> 2 & 3) ||
		    !bits_start(&b, in.at, in.bytes) || !run_all(z, &b, count, &literal, out))
			return false;
	}
	if (z->literals - literal > out->room_bytes - out->bytes)
		return false;
	memcpy(out->at + out->bytes, z->literal + literal, z->literals - literal);
	out->bytes += z->literals - literal;
	return true;
}
