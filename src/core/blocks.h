/*
 * The driver's blocks of device memory, by their number (address / block size): how many
 * allocations begin or end in each. Counts of neighbouring blocks lie side by side in a leaf, and a
 * hash table finds the leaf: a million allocations side by side have some thousands of leaves.
 *
 * The caller orders the calls. A table of zeros is empty. Memory is brought by the caller, so that
 * no entry can fail.
 */
#pragma once

#include "base/hash.h"

#include <stdbool.h>
#include <stdint.h>

enum { BLOCKS_PER_LEAF = 128, BLOCKS_SPARES = 16 };

struct blocks_leaf {
	struct hash_link link; /* by block number / BLOCKS_PER_LEAF */
	uint32_t held;         /* blocks of it that have references */
	uint32_t refs[BLOCKS_PER_LEAF];
};

struct blocks {
	struct hash leaves;
	struct blocks_leaf *spare[BLOCKS_SPARES]; /* without references */
	int spares;
};

/* A leaf that was kept; NULL when there is none: the caller then allocates zeros. */
struct blocks_leaf *blocks_take_spare(struct blocks *b);

/* Keeps a leaf that is in no table, or frees it. NULL is fine. */
void blocks_give_spare(struct blocks *b, struct blocks_leaf *leaf);

/* True when there is a reference to the block. */
bool blocks_has(const struct blocks *b, uint64_t number);

/*
 * One reference more to the block; `leaf` is brought for it and is the table's from then on. True
 * when it is the first one.
 */
bool blocks_get(struct blocks *b, uint64_t number, struct blocks_leaf *leaf);

/* One less; there is one. True when it was the last. */
bool blocks_put(struct blocks *b, uint64_t number);
