/*
 * A packed block of zstd: literals, and sequences that say how many of them follow and what is
 * copied from before.
 */
#pragma once

#include "base/fse.h"
#include "base/huffman.h"

enum { ZSTD_BLOCK_BYTES = 128 << 10 };

/* What is made. */
struct zstd_output {
	uint8_t *at;
	size_t bytes, room_bytes;
};

enum zstd_table { ZSTD_LITERALS, ZSTD_OFFSETS, ZSTD_MATCHES, ZSTD_TABLES };

/* What one block leaves for the next of its frame. */
struct zstd_block {
	size_t frame_at; /* where the frame's bytes begin in the output: nothing before is copied */
	uint64_t offset[3];
	struct huffman huffman;
	struct fse table[ZSTD_TABLES];
	bool has_table[ZSTD_TABLES];
	/* Of the block. */
	size_t literals;
	uint8_t literal[ZSTD_BLOCK_BYTES];
};

/* A frame begins, of which the first byte will be the output's with this number. */
void zstd_block_start(struct zstd_block *z, size_t frame_at);

/* Decodes one and adds what it makes. False where it is broken, or makes more than has room. */
bool zstd_block_decode(struct zstd_block *z, const uint8_t *at, size_t bytes,
		       struct zstd_output *out);
