/*
 * Huffman codes of bytes, as RFC 8878 (zstd) has them.
 */
#pragma once

#include "base/bits.h"

enum { HUFFMAN_BITS_MOST = 11 };

/* Constant after it was read. */
struct huffman {
	unsigned bits; /* of the longest code; 0: there is none */
	/* By the next so many bits: the byte that their code stands for, and the code's length. */
	struct {
		uint8_t byte, bits;
	} code[1 << HUFFMAN_BITS_MOST];
};

/* Reads the description. Returns how many bytes it takes; 0 where it is broken. */
size_t huffman_read(struct huffman *out, const uint8_t *at, size_t bytes);

/* Decodes a stream into exactly `out_bytes`. False where it makes another number, or is broken. */
bool huffman_decode(const struct huffman *h, const uint8_t *at, size_t bytes, uint8_t *out,
		    size_t out_bytes);
