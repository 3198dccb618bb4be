#include "cuda_block.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_context.h"
#include "cuda_heap.h"
#include "machine_import.h"

enum { UNITS = 4096 };

struct cuda_block {
	uint64_t start;
	uint64_t export; /* machine_export.h; 0: no descriptor keeps it */
	struct CUctx_st *ctx;
	bool is_array;
	int used_units, lent_units;
	unsigned char used[UNITS / 8]; /* a bit per unit */
	unsigned char lent[UNITS / 8]; /* of them, freed while other processes have it mapped */
	struct cuda_block *next, **link;
};

static struct cuda_block *blocks; /* the driver's lock */

static bool is_used(const struct cuda_block *b, int unit)
{
	return b->used[unit / 8] >> (unit % 8) & 1;
}

static void mark(struct cuda_block *b, int first, int count, bool used)
{
	for (int i = first; i < first + count; i++) {
		if (used)
			b->used[i / 8] |= (unsigned char)(1u << (i % 8));
		else
			b->used[i / 8] &= (unsigned char)~(1u << (i % 8));
	}
	b->used_units += used ? count : -count;
}

static void lend(struct cuda_block *b, int first, int count)
{
	for (int i = first; i < first + count; i++)
		b->lent[i / 8] |= (unsigned char)(1u << (i % 8));
	b->lent_units += count;
}

/* What was lent is free when no other process has the block mapped. */
static void take_back(struct cuda_block *b)
{
	if (!b->lent_units || machine_import_is_any(b->export))
		return;
	for (int i = 0; i < UNITS / 8; i++)
		b->used[i] &= (unsigned char)~b->lent[i];
	b->used_units -= b->lent_units;
	b->lent_units = 0;
	memset(b->lent, 0, sizeof(b->lent));
}

/* First run of `count` free units, or -1. */
static int find_run(const struct cuda_block *b, int count)
{
	int run = 0;

	for (int i = 0; i < UNITS; i++) {
		if (i % 8 == 0 && b->used[i / 8] == 0xff) {
			run = 0;
			i += 7;
			continue;
		}
		run = is_used(b, i) ? 0 : run + 1;
		if (run == count)
			return i - count + 1;
	}
	return -1;
}

static int units_of(uint64_t size_bytes)
{
	return (int)((size_bytes + BLOCK_UNIT_BYTES - 1) / BLOCK_UNIT_BYTES);
}

struct cuda_block *cuda_block_open(struct CUctx_st *ctx, bool is_array, uint64_t start,
				   uint64_t used_bytes)
{
	struct cuda_block *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->start = start;
	b->ctx = ctx;
	b->is_array = is_array;
	mark(b, 0, units_of(used_bytes), true);
	b->next = blocks;
	b->link = &blocks;
	if (blocks)
		blocks->link = &b->next;
	blocks = b;
	return b;
}

static struct cuda_block *new_block(struct CUctx_st *ctx, bool is_array)
{
	struct cuda_block *b;
	uint64_t start;

	if (cuda_heap_take(ctx->index, HEAP_BLOCK_BYTES, &start) != 0)
		return NULL;
	b = cuda_block_open(ctx, is_array, start, 0);
	if (!b)
		cuda_heap_give(ctx->index, start, HEAP_BLOCK_BYTES, 0);
	return b;
}

int cuda_block_take(struct CUctx_st *ctx, bool is_array, uint64_t size_bytes, uint64_t *out_address,
		    struct cuda_block **out_block)
{
	int count = units_of(size_bytes);
	struct cuda_block *b;
	int first = -1;

	for (b = blocks; b; b = b->next) {
		if (b->ctx != ctx || b->is_array != is_array)
			continue;
		take_back(b);
		if (UNITS - b->used_units < count)
			continue;
		first = find_run(b, count);
		if (first >= 0)
			break;
	}
	if (!b) {
		b = new_block(ctx, is_array);
		first = 0;
	}
	if (!b)
		return -ENOMEM;
	mark(b, first, count, true);
	*out_address = b->start + (uint64_t)first * BLOCK_UNIT_BYTES;
	*out_block = b;
	return 0;
}

uint64_t *cuda_block_export(struct cuda_block *block)
{
	return &block->export;
}

void cuda_block_give(struct cuda_block *block, uint64_t address, uint64_t size_bytes)
{
	int first = (int)((address - block->start) / BLOCK_UNIT_BYTES);

	if (block->export && machine_import_is_any(block->export))
		lend(block, first, units_of(size_bytes));
	else
		mark(block, first, units_of(size_bytes), false);
	if (block->used_units > block->lent_units)
		return;
	*block->link = block->next;
	if (block->next)
		block->next->link = block->link;
	cuda_heap_give(block->ctx->index, block->start, HEAP_BLOCK_BYTES, block->export);
	free(block);
}
