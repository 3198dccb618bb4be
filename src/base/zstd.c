#include "base/zstd.h"

#include "base/zstd_block.h"

#include <stdlib.h>
#include <string.h>

#define MAGIC UINT32_C(0xfd2fb528)
/* Frames of anything else, to be left out. */
#define OTHER_MAGIC UINT32_C(0x184d2a50)
#define OTHER_MASK UINT32_C(0xfffffff0)

enum { MAGIC_BYTES = 4, BLOCK_HEAD_BYTES = 3, CHECKSUM_BYTES = 4 };
enum { BLOCK_RAW = 0, BLOCK_RUN = 1, BLOCK_PACKED = 2 };

struct input {
	const uint8_t *at;
	size_t bytes; /* that are left */
};

static uint64_t word_of(const struct input *in, size_t at, size_t bytes)
{
	uint64_t word = 0;

	memcpy(&word, in->at + at, bytes);
	return word;
}

static bool skip(struct input *in, uint64_t bytes)
{
	if (bytes > in->bytes)
		return false;
	in->at += bytes;
	in->bytes -= (size_t)bytes;
	return true;
}

struct frame {
	bool has_checksum;
};

/* Behind the magic. False where it is broken, or needs a dictionary. */
static bool read_head(struct input *in, struct frame *out)
{
	static const uint8_t id_bytes[] = { 0, 1, 2, 4 }, size_bytes[] = { 0, 2, 4, 8 };
	size_t head = 1, size, id;
	uint8_t flags;

	if (in->bytes == 0)
		return false;
	flags = in->at[0];
	size = size_bytes[flags >> 6];
	/* One segment has no window but its size. */
	if (flags & 32)
		size = size ? size : 1;
	else
		head++;
	id = id_bytes[flags & 3];
	if (flags & 8 || in->bytes < head + id + size || word_of(in, head, id))
		return false;
	out->has_checksum = flags & 4;
	return skip(in, head + id + size);
}

struct block {
	unsigned kind;
	bool is_last;
	size_t bytes; /* that it makes if it is a run, else that it has */
};

static bool read_block(struct input *in, struct block *out)
{
	uint32_t word;

	if (in->bytes < BLOCK_HEAD_BYTES)
		return false;
	word = (uint32_t)word_of(in, 0, BLOCK_HEAD_BYTES);
	*out = (struct block){ word >> 1 & 3, word & 1, word >> 3 };
	skip(in, BLOCK_HEAD_BYTES);
	return out->kind <= BLOCK_PACKED && out->bytes <= ZSTD_BLOCK_BYTES &&
	       in->bytes >= (out->kind == BLOCK_RUN ? 1 : out->bytes);
}

static bool decode_block(struct zstd_block *z, struct input *in, const struct block *b,
			 struct zstd_output *out)
{
	if (b->kind == BLOCK_PACKED)
		return zstd_block_decode(z, in->at, b->bytes, out);
	if (b->bytes > out->room_bytes - out->bytes)
		return false;
	if (b->kind == BLOCK_RAW)
		memcpy(out->at + out->bytes, in->at, b->bytes);
	else
		memset(out->at + out->bytes, in->at[0], b->bytes);
	out->bytes += b->bytes;
	return true;
}

/* Behind the magic. `z` NULL: nothing is decoded, out->bytes is the most that it may make. */
static bool read_frame(struct input *in, struct zstd_block *z, struct zstd_output *out)
{
	struct block b = { .is_last = false };
	struct frame frame;

	if (!read_head(in, &frame))
		return false;
	if (z)
		zstd_block_start(z, out->bytes);
	while (!b.is_last) {
		if (!read_block(in, &b) || (z && !decode_block(z, in, &b, out)))
			return false;
		if (!z)
			out->bytes += b.kind == BLOCK_PACKED ? ZSTD_BLOCK_BYTES : b.bytes;
		skip(in, b.kind == BLOCK_RUN ? 1 : b.bytes);
	}
	return !frame.has_checksum || skip(in, CHECKSUM_BYTES);
}

/* All frames; what stands behind them and is none is left. False where one is broken. */
static bool read_all(struct input in, struct zstd_block *z, struct zstd_output *out)
{
	while (in.bytes >= MAGIC_BYTES) {
		uint32_t magic = (uint32_t)word_of(&in, 0, MAGIC_BYTES);

		if (magic == MAGIC) {
			skip(&in, MAGIC_BYTES);
			if (!read_frame(&in, z, out))
				return false;
		} else if ((magic & OTHER_MASK) == OTHER_MAGIC && in.bytes >= 2 * MAGIC_BYTES) {
			if (!skip(&in, 2 * MAGIC_BYTES + word_of(&in, MAGIC_BYTES, 4)))
				return false;
		} else {
			return true;
		}
	}
	return true;
}

bool zstd_is(const void *in, size_t in_bytes)
{
	uint32_t magic;

	if (in_bytes < sizeof(magic))
		return false;
	memcpy(&magic, in, sizeof(magic));
	return magic == MAGIC;
}

uint64_t zstd_most_bytes(const void *in, size_t in_bytes)
{
	struct zstd_output out = { .bytes = 0 };

	read_all((struct input){ in, in_bytes }, NULL, &out);
	return out.bytes;
}

int64_t zstd_decode(const void *in, size_t in_bytes, void *out, size_t room_bytes)
{
	struct zstd_output made = { .at = out, .room_bytes = room_bytes };
	struct zstd_block *z = malloc(sizeof(*z));
	bool is_good;

	if (!z)
		return -1;
	is_good = zstd_is(in, in_bytes) && read_all((struct input){ in, in_bytes }, z, &made);
	free(z);
	return is_good ? (int64_t)made.bytes : -1;
}
