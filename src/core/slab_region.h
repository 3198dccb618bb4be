/*
 * One region of a slab: addresses, some blocks of which have memory, and which chunks of 512 bytes
 * of that are taken. A request is served by a run of chunks, so that it wastes less than one chunk
 * whatever its size; a run may cross blocks. Bits say which chunks are taken, which begin a run and
 * which of those runs are in quarantine; over the bits stands a tree of the longest free runs, so
 * that the first run that is long enough is found, and a change is entered, in as many steps as the
 * tree is high: twelve.
 *
 * Knows no addresses, calls nothing, has no lock: slab.c orders the calls.
 */
#pragma once

#include "core/range.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	SLAB_CHUNK_BYTES = 512,
	SLAB_BLOCK_CHUNKS = 4096,
	SLAB_REGION_BLOCKS = 64,
	SLAB_RUN_CHUNKS = 8 * SLAB_BLOCK_CHUNKS, /* what is longer counts as this long */
};

/* Free chunks of a part of the region: at its low end, the most together, at its high end. */
struct slab_runs {
	uint16_t head, most, tail;
};

/*
 * 64 chunks, a bit for each: taken, or without memory; a run begins with it; and that run is in
 * quarantine. A block without memory is as a run in quarantine, so that no run goes on into it.
 */
struct slab_word {
	uint64_t taken, first, gone;
	struct slab_runs runs;
};

struct slab_region {
	/* slab.c alone */
	struct range_node node; /* its addresses */
	void *owner;
	uint32_t slot;
	/* constant after slab_region_new() */
	uint32_t blocks;
	uint32_t leaves; /* words; those behind the region's end are never free */
	/* slab_region.c alone */
	uint64_t backed;  /* a bit for each block: it has memory */
	uint64_t claimed; /* it is getting memory or giving it back */
	uint64_t begins;  /* an extent begins with it: blocks that got their memory together */
	uint64_t unused;  /* an extent in which nothing is taken begins with it */
	uint32_t unused_blocks;
	uint8_t extent_blocks[SLAB_REGION_BLOCKS]; /* by an extent's first */
	uint16_t used[SLAB_REGION_BLOCKS];         /* chunks that runs have of it */
	struct slab_word *words;
	struct slab_runs
		tree[]; /* 1 is the whole, 2i and 2i + 1 are i's halves; leaves are in words */
};

/* A region of up to SLAB_REGION_BLOCKS blocks without memory; NULL without memory of ours. */
struct slab_region *slab_region_new(uint32_t blocks);

/* Forgets it. NULL is fine. */
void slab_region_free(struct slab_region *region);

/* The longest free run, SLAB_RUN_CHUNKS at most. */
uint32_t slab_region_most(const struct slab_region *region);

/* True while a block has memory or is claimed. */
bool slab_region_is_used(const struct slab_region *region);

/* Claims the first `count` blocks together that have no memory. False when there are none. */
bool slab_region_claim(struct slab_region *region, uint32_t count, uint32_t *out_block);

/* Claimed blocks have memory now: they are one extent. */
void slab_region_back(struct slab_region *region, uint32_t block, uint32_t count);

/* Claimed blocks have none, and are not claimed any longer. */
void slab_region_unclaim(struct slab_region *region, uint32_t block, uint32_t count);

/* Claims an extent in which nothing is taken. Returns its blocks, 0 when there is none. */
uint32_t slab_region_claim_unused(struct slab_region *region, uint32_t *out_block);

/*
 * Takes the first run of `count` free chunks; slab_region_most() is at least that. Returns its
 * first.
 */
uint32_t slab_region_take(struct slab_region *region, uint32_t count);

/* True when a run that is not in quarantine begins with this chunk. */
bool slab_region_is_run(const struct slab_region *region, uint32_t chunk);

/* The chunks of the run, in quarantine or not, that begins with this one. */
uint32_t slab_region_count(const struct slab_region *region, uint32_t chunk);

/* The first chunk of the run that this one belongs to; false when it is free or in quarantine. */
bool slab_region_first(const struct slab_region *region, uint32_t chunk, uint32_t *out_first);

/* Puts the run that begins with this chunk into quarantine: taken still, but no longer a run. */
void slab_region_retire(struct slab_region *region, uint32_t chunk);

/* Makes it a run again. */
void slab_region_revive(struct slab_region *region, uint32_t chunk);

/* Makes the run of `count` chunks that begins with this one free, in quarantine or not. */
void slab_region_give(struct slab_region *region, uint32_t chunk, uint32_t count);
