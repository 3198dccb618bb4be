#include "core/slab_region.h"

#include <stdlib.h>
#include <string.h>

enum { WORD_CHUNKS = 64 };

_Static_assert(sizeof(struct slab_word) == 32, "two of them are a cache line");

static uint64_t bit_of(uint32_t i)
{
	return UINT64_C(1) << i % WORD_CHUNKS;
}

static struct slab_word *word_of(const struct slab_region *region, uint32_t chunk)
{
	return &region->words[chunk / WORD_CHUNKS];
}

/* Bits low .. low + count - 1; count is 1 to 64. */
static uint64_t mask_of(uint32_t low, uint32_t count)
{
	return (UINT64_MAX >> (WORD_CHUNKS - count)) << low;
}

/* Where at least `count` set bits (1 to 64) begin. */
static uint64_t runs_of(uint64_t bits, uint32_t count)
{
	for (uint32_t have = 1, step; have < count; have += step) {
		step = have < count - have ? have : count - have;
		bits &= bits >> step;
	}
	return bits;
}

/* The longest run of set bits; not all are set. */
static uint16_t longest_in(uint64_t bits)
{
	uint64_t begin[6] = { bits }, found;
	unsigned count, power = 0;

	if (!bits)
		return 0;
	/*
	 * Where runs of 1, 2, 4, ... begin; then what the longest of them has beyond its power of
	 * two.
	 */
	while (power < 5 && (begin[power + 1] = begin[power] & begin[power] >> (1 << power)))
		power++;
	found = begin[power];
	count = 1u << power;
	while (power-- > 0) {
		uint64_t longer = found & begin[power] >> count;

		if (!longer)
			continue;
		found = longer;
		count += 1u << power;
	}
	return (uint16_t)count;
}

static struct slab_runs runs_in(uint64_t free_bits)
{
	struct slab_runs runs = { WORD_CHUNKS, WORD_CHUNKS, WORD_CHUNKS };

	if (~free_bits == 0)
		return runs;
	runs.head = (uint16_t)__builtin_ctzll(~free_bits);
	runs.tail = (uint16_t)__builtin_clzll(~free_bits);
	runs.most = longest_in(free_bits);
	return runs;
}

static uint16_t at_most(uint32_t count)
{
	return (uint16_t)(count < SLAB_RUN_CHUNKS ? count : SLAB_RUN_CHUNKS);
}

/* Two neighbours of `span` chunks each as one. */
static struct slab_runs joined(struct slab_runs a, struct slab_runs b, uint32_t span)
{
	uint16_t whole = at_most(span), middle = at_most((uint32_t)a.tail + b.head);
	struct slab_runs runs = { .head = a.head, .tail = b.tail };

	if (a.head == whole)
		runs.head = at_most((uint32_t)a.head + b.head);
	if (b.tail == whole)
		runs.tail = at_most((uint32_t)b.tail + a.tail);
	runs.most = a.most > b.most ? a.most : b.most;
	if (runs.most < middle)
		runs.most = middle;
	return runs;
}

static bool is_same(struct slab_runs a, struct slab_runs b)
{
	return a.head == b.head && a.most == b.most && a.tail == b.tail;
}

static struct slab_runs runs_at(const struct slab_region *region, uint32_t i)
{
	return i < region->leaves ? region->tree[i] : region->words[i - region->leaves].runs;
}

/* Of a part of so many chunks that are all free, or all taken. */
static struct slab_runs runs_of_all(uint32_t span, bool is_taken)
{
	uint16_t count = is_taken ? 0 : at_most(span);

	return (struct slab_runs){ count, count, count };
}

/* Enters that one word changed: up to where what it is part of is as it was. */
static void refresh_one(struct slab_region *region, uint32_t word)
{
	struct slab_runs runs = runs_in(~region->words[word].taken);
	uint32_t i = word + region->leaves;

	if (is_same(runs, region->words[word].runs))
		return;
	region->words[word].runs = runs;
	for (uint32_t span = WORD_CHUNKS; i > 1; span *= 2) {
		struct slab_runs beside = runs_at(region, i ^ 1);

		runs = i & 1 ? joined(beside, runs, span) : joined(runs, beside, span);
		i /= 2;
		if (is_same(runs, region->tree[i]))
			return;
		region->tree[i] = runs;
	}
}

/*
 * Enters that words low .. high changed, of which all but the first and the last are now all taken,
 * or all free. What lies wholly among those is known without a look below: [alike, alike_end).
 */
static void refresh(struct slab_region *region, uint32_t low, uint32_t high, bool is_taken)
{
	uint64_t whole = is_taken ? UINT64_MAX : 0;
	uint32_t span = WORD_CHUNKS, alike = low + (region->words[low].taken != whole);
	uint32_t alike_end = high + (region->words[high].taken == whole);
	bool is_changed = true;

	for (uint32_t i = low; i <= high; i++)
		region->words[i].runs = i >= alike && i < alike_end ?
						runs_of_all(WORD_CHUNKS, is_taken) :
						runs_in(~region->words[i].taken);
	low += region->leaves;
	high += region->leaves;
	alike += region->leaves;
	alike_end += region->leaves;
	for (; low > 1 && is_changed; span *= 2) {
		low /= 2;
		high /= 2;
		alike = (alike + 1) / 2;
		alike_end /= 2;
		is_changed = alike < alike_end;
		for (uint32_t i = low; i <= high; i++) {
			struct slab_runs runs;

			if (i >= alike && i < alike_end) {
				region->tree[i] = runs_of_all(2 * span, is_taken);
				continue;
			}
			runs = joined(runs_at(region, 2 * i), runs_at(region, 2 * i + 1), span);
			is_changed |= !is_same(runs, region->tree[i]);
			region->tree[i] = runs;
		}
	}
}

/* Sets or clears the bits of a run. */
static void mark(struct slab_region *region, uint32_t chunk, uint32_t count, bool is_taken)
{
	uint32_t end = chunk + count, low = chunk / WORD_CHUNKS, high = (end - 1) / WORD_CHUNKS;

	for (uint32_t i = low, at = chunk; i <= high; i++) {
		uint32_t stop = (i + 1) * WORD_CHUNKS < end ? (i + 1) * WORD_CHUNKS : end;
		uint64_t mask = mask_of(at % WORD_CHUNKS, stop - at);

		if (is_taken)
			region->words[i].taken |= mask;
		else
			region->words[i].taken &= ~mask;
		at = stop;
	}
	if (low == high)
		refresh_one(region, low);
	else
		refresh(region, low, high, is_taken);
}

/* Blocks without memory stand as runs in quarantine. */
static void fence_off(struct slab_region *region, uint32_t block, uint32_t count)
{
	for (uint32_t i = block; i < block + count; i++) {
		word_of(region, i * SLAB_BLOCK_CHUNKS)->first |= 1;
		word_of(region, i * SLAB_BLOCK_CHUNKS)->gone |= 1;
	}
}

struct slab_region *slab_region_new(uint32_t blocks)
{
	uint32_t words = blocks * SLAB_BLOCK_CHUNKS / WORD_CHUNKS, leaves = 1;
	struct slab_region *region;

	while (leaves < words)
		leaves *= 2;
	region = calloc(1, sizeof(*region) + leaves * sizeof(region->tree[0]));
	if (!region)
		return NULL;
	region->words = calloc(leaves, sizeof(*region->words));
	if (!region->words) {
		free(region);
		return NULL;
	}
	region->blocks = blocks;
	region->leaves = leaves;
	for (uint32_t i = 0; i < leaves; i++)
		region->words[i].taken = UINT64_MAX;
	fence_off(region, 0, blocks);
	return region;
}

void slab_region_free(struct slab_region *region)
{
	if (region)
		free(region->words);
	free(region);
}

uint32_t slab_region_most(const struct slab_region *region)
{
	return region->tree[1].most;
}

/* The first chunk of the first free run of `count`. */
static uint32_t find(const struct slab_region *region, uint32_t count)
{
	uint32_t i = 1, span = region->leaves * WORD_CHUNKS, base = 0;

	while (i < region->leaves) {
		struct slab_runs low = runs_at(region, 2 * i), high = runs_at(region, 2 * i + 1);

		span /= 2;
		if (low.most < count && (uint32_t)low.tail + high.head >= count)
			return base + span - low.tail;
		i *= 2;
		if (low.most < count) {
			base += span;
			i++;
		}
	}
	return base + (uint32_t)__builtin_ctzll(runs_of(~word_of(region, base)->taken, count));
}

bool slab_region_is_used(const struct slab_region *region)
{
	return (region->backed | region->claimed) != 0;
}

bool slab_region_claim(struct slab_region *region, uint32_t count, uint32_t *out_block)
{
	uint64_t bare = mask_of(0, region->blocks) & ~(region->backed | region->claimed);
	uint64_t begin = count <= region->blocks ? runs_of(bare, count) : 0;

	if (!begin)
		return false;
	*out_block = (uint32_t)__builtin_ctzll(begin);
	region->claimed |= mask_of(*out_block, count);
	return true;
}

void slab_region_back(struct slab_region *region, uint32_t block, uint32_t count)
{
	region->claimed &= ~mask_of(block, count);
	region->backed |= mask_of(block, count);
	region->begins |= UINT64_C(1) << block;
	region->unused |= UINT64_C(1) << block;
	region->unused_blocks += count;
	region->extent_blocks[block] = (uint8_t)count;
	for (uint32_t i = block; i < block + count; i++) {
		word_of(region, i * SLAB_BLOCK_CHUNKS)->first = 0;
		word_of(region, i * SLAB_BLOCK_CHUNKS)->gone = 0;
	}
	mark(region, block * SLAB_BLOCK_CHUNKS, count * SLAB_BLOCK_CHUNKS, false);
}

void slab_region_unclaim(struct slab_region *region, uint32_t block, uint32_t count)
{
	region->claimed &= ~mask_of(block, count);
}

uint32_t slab_region_claim_unused(struct slab_region *region, uint32_t *out_block)
{
	uint32_t block, count;

	if (!region->unused)
		return 0;
	/* The last one: what is taken is taken from the first on. */
	block = 63 - (uint32_t)__builtin_clzll(region->unused);
	count = region->extent_blocks[block];
	region->backed &= ~mask_of(block, count);
	region->claimed |= mask_of(block, count);
	region->begins &= ~(UINT64_C(1) << block);
	region->unused &= ~(UINT64_C(1) << block);
	region->unused_blocks -= count;
	fence_off(region, block, count);
	mark(region, block * SLAB_BLOCK_CHUNKS, count * SLAB_BLOCK_CHUNKS, true);
	*out_block = block;
	return count;
}

/* The block began or ceased to be used: does its extent, too? */
static void note_extent(struct slab_region *region, uint32_t block)
{
	uint32_t first = 63 - (uint32_t)__builtin_clzll(region->begins & mask_of(0, block + 1));
	uint64_t bit = UINT64_C(1) << first;
	uint32_t used = 0;

	for (uint32_t i = 0; i < region->extent_blocks[first]; i++)
		used += region->used[first + i];
	if (used && region->unused & bit) {
		region->unused &= ~bit;
		region->unused_blocks -= region->extent_blocks[first];
	} else if (!used && !(region->unused & bit)) {
		region->unused |= bit;
		region->unused_blocks += region->extent_blocks[first];
	}
}

/* Counts the run in its blocks, or no longer. */
static void count_in(struct slab_region *region, uint32_t chunk, uint32_t count, bool is_taken)
{
	for (uint32_t end = chunk + count; chunk < end;) {
		uint32_t block = chunk / SLAB_BLOCK_CHUNKS;
		uint32_t stop = (block + 1) * SLAB_BLOCK_CHUNKS;
		uint32_t part = (stop < end ? stop : end) - chunk, before = region->used[block];

		region->used[block] = (uint16_t)(is_taken ? before + part : before - part);
		if (!before != !region->used[block])
			note_extent(region, block);
		chunk += part;
	}
}

uint32_t slab_region_take(struct slab_region *region, uint32_t count)
{
	uint32_t chunk = find(region, count);

	word_of(region, chunk)->first |= bit_of(chunk);
	count_in(region, chunk, count, true);
	mark(region, chunk, count, true);
	return chunk;
}

bool slab_region_is_run(const struct slab_region *region, uint32_t chunk)
{
	const struct slab_word *word = word_of(region, chunk);

	return word->first & ~word->gone & bit_of(chunk);
}

uint32_t slab_region_count(const struct slab_region *region, uint32_t chunk)
{
	uint32_t chunks = region->blocks * SLAB_BLOCK_CHUNKS, at = chunk + 1;
	const struct slab_word *word = word_of(region, at);
	uint64_t ends;

	if (at == chunks)
		return 1;
	ends = (~word->taken | word->first) & UINT64_MAX << at % WORD_CHUNKS;
	for (at -= at % WORD_CHUNKS; !ends; at += WORD_CHUNKS, word++) {
		if (at + WORD_CHUNKS == chunks)
			return chunks - chunk;
		ends = ~word[1].taken | word[1].first;
	}
	return at + (uint32_t)__builtin_ctzll(ends) - chunk;
}

bool slab_region_first(const struct slab_region *region, uint32_t chunk, uint32_t *out_first)
{
	const struct slab_word *word = word_of(region, chunk);
	uint64_t begins = word->first & mask_of(0, chunk % WORD_CHUNKS + 1);

	if (!(word->taken & bit_of(chunk)))
		return false;
	/* What is taken belongs to a run that began at or before it. */
	while (!begins)
		begins = (--word)->first;
	chunk = (uint32_t)(word - region->words) * WORD_CHUNKS + WORD_CHUNKS - 1 -
		(uint32_t)__builtin_clzll(begins);
	if (word->gone & bit_of(chunk))
		return false;
	*out_first = chunk;
	return true;
}

void slab_region_retire(struct slab_region *region, uint32_t chunk)
{
	word_of(region, chunk)->gone |= bit_of(chunk);
}

void slab_region_revive(struct slab_region *region, uint32_t chunk)
{
	word_of(region, chunk)->gone &= ~bit_of(chunk);
}

void slab_region_give(struct slab_region *region, uint32_t chunk, uint32_t count)
{
	word_of(region, chunk)->first &= ~bit_of(chunk);
	word_of(region, chunk)->gone &= ~bit_of(chunk);
	count_in(region, chunk, count, false);
	mark(region, chunk, count, false);
}
