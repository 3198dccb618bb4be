#include "core/slab.h"

#include "base/bytes.h"
#include "core/slab_kept.h"
#include "core/slab_queue.h"
#include "core/slab_region.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

enum { REGIONS = 4096, POLL_RUNS = 256 };
/* A run in quarantine: its region's slot and, below, its first chunk. */
enum { CHUNK_BITS = 18 };

_Static_assert(SLAB_REGION_BYTES / SLAB_CHUNK_BYTES <= 1 << CHUNK_BITS, "a chunk fits its bits");
_Static_assert(SLAB_ALIGN_BYTES == SLAB_CHUNK_BYTES, "a chunk is what requests are aligned to");
_Static_assert(SLAB_BLOCK_BYTES / SLAB_CHUNK_BYTES == SLAB_BLOCK_CHUNKS, "a block in chunks");
_Static_assert(SLAB_REGION_BYTES / SLAB_BLOCK_BYTES == SLAB_REGION_BLOCKS, "a region in blocks");
_Static_assert(offsetof(struct slab_region, node) == 0, "a region is known by its node");

/* All under the mutex. */
struct slab {
	pthread_mutex_t mutex;
	struct range addresses;
	struct slab_region *regions[REGIONS];
	/*
	 * The longest free run by slots: 1 is of all, 2i and 2i + 1 are i's halves, the slots at
	 * the end.
	 */
	uint16_t most[2 * REGIONS];
	struct slab_queue quarantine;
	struct slab_kept kept;   /* counts as free, but its extents are not empty */
	struct slab_stats stats; /* but for the fences */
	uint64_t least_empty;    /* of stats.empty since slab_round() */
};

bool slab_takes(uint64_t bytes)
{
	uint64_t rest = bytes % SLAB_BLOCK_BYTES;

	return rest && SLAB_BLOCK_BYTES - rest > bytes / 8;
}

struct slab *slab_open(void)
{
	struct slab *slab = calloc(1, sizeof(*slab));

	if (!slab)
		return NULL;
	pthread_mutex_init(&slab->mutex, NULL);
	range_init(&slab->addresses, 0, UINT64_MAX);
	return slab;
}

void slab_close(struct slab *slab)
{
	if (!slab)
		return;
	for (uint32_t i = 0; i < REGIONS; i++)
		slab_region_free(slab->regions[i]);
	slab_queue_clear(&slab->quarantine);
	pthread_mutex_destroy(&slab->mutex);
	free(slab);
}

/* mutex held: enters what the region's longest free run is now. */
static void raise_most(struct slab *slab, uint32_t slot, uint32_t most)
{
	uint32_t i = REGIONS + slot;

	while (slab->most[i] != most) {
		slab->most[i] = (uint16_t)most;
		if (i == 1)
			return;
		i /= 2;
		most = slab->most[2 * i] > slab->most[2 * i + 1] ? slab->most[2 * i] :
								   slab->most[2 * i + 1];
	}
}

/* mutex held: enters what became of the region, which had so many unused blocks before. */
static void changed(struct slab *slab, const struct slab_region *region, uint32_t unused_before)
{
	raise_most(slab, region->slot, slab_region_most(region));
	slab->stats.empty += ((uint64_t)region->unused_blocks - unused_before) * SLAB_BLOCK_BYTES;
	slab->least_empty = bytes_least(slab->least_empty, slab->stats.empty);
}

/* mutex held: the first region with room; some has it. */
static struct slab_region *roomy(const struct slab *slab, uint32_t count)
{
	uint32_t i = 1;

	while (i < REGIONS)
		i = 2 * i + (slab->most[2 * i] < count);
	return slab->regions[i - REGIONS];
}

/* mutex held. */
static void release(struct slab *slab, struct slab_region *region, uint32_t chunk, uint32_t count)
{
	uint32_t unused = region->unused_blocks;

	slab_region_give(region, chunk, count);
	changed(slab, region, unused);
}

/* mutex held: what was kept has its place among what is free again. True when there was some. */
static bool release_kept(struct slab *slab)
{
	struct slab_kept_run run;
	bool is_any = false;

	for (; slab_kept_pop(&slab->kept, &run); is_any = true)
		release(slab, run.region, run.chunk, run.count);
	return is_any;
}

/* mutex held: the run is free, and kept if it may be. */
static void keep(struct slab *slab, struct slab_region *region, uint32_t chunk, uint32_t count)
{
	struct slab_kept_run old;

	if (!slab_kept_takes(count)) {
		release(slab, region, chunk, count);
		return;
	}
	while (slab_kept_give_way(&slab->kept, count, &old))
		release(slab, old.region, old.chunk, old.count);
	slab_region_retire(region, chunk);
	slab_kept_put(&slab->kept, (struct slab_kept_run){ region, chunk, count });
}

/* mutex held: so many chunks from the first region with room. False when none has it. */
static bool find(struct slab *slab, uint32_t count, struct slab_kept_run *out_run)
{
	struct slab_region *region;
	uint32_t unused;

	if (slab->most[1] < count && !(release_kept(slab) && slab->most[1] >= count))
		return false;
	region = roomy(slab, count);
	unused = region->unused_blocks;
	*out_run = (struct slab_kept_run){ region, slab_region_take(region, count), count };
	changed(slab, region, unused);
	return true;
}

/* mutex held: takes so many chunks, of what is kept if there is one as long. */
static int take(struct slab *slab, uint32_t count, uint64_t *out_addr)
{
	struct slab_kept_run run;

	if (slab_queue_prepare(&slab->quarantine) < 0)
		return -ENOMEM;
	if (slab_kept_take(&slab->kept, count, &run)) {
		slab_region_revive(run.region, run.chunk);
	} else if (!find(slab, count, &run)) {
		slab_queue_discard(&slab->quarantine);
		return -ENOSPC;
	}
	slab->stats.taken += (uint64_t)count * SLAB_CHUNK_BYTES;
	*out_addr = run.region->node.start + (uint64_t)run.chunk * SLAB_CHUNK_BYTES;
	return 0;
}

int slab_alloc(struct slab *slab, uint64_t bytes, uint64_t *out_addr)
{
	int rc;

	if (!slab_takes(bytes))
		return -EINVAL;
	pthread_mutex_lock(&slab->mutex);
	rc = take(slab, (uint32_t)((bytes + SLAB_CHUNK_BYTES - 1) / SLAB_CHUNK_BYTES), out_addr);
	pthread_mutex_unlock(&slab->mutex);
	return rc;
}

/* mutex held. */
static struct slab_region *region_at(const struct slab *slab, uint64_t addr, uint32_t *out_chunk)
{
	struct slab_region *region = (struct slab_region *)range_find(&slab->addresses, addr);

	*out_chunk = region ? (uint32_t)((addr - region->node.start) / SLAB_CHUNK_BYTES) : 0;
	return region;
}

int slab_free(struct slab *slab, uint64_t addr, uint64_t fence)
{
	struct slab_region *region;
	uint32_t chunk, count;
	uint64_t bytes;
	int rc = 0;

	pthread_mutex_lock(&slab->mutex);
	region = region_at(slab, addr, &chunk);
	if (!region) {
		rc = -ENOENT;
		goto out_unlock;
	}
	if (addr % SLAB_CHUNK_BYTES || !slab_region_is_run(region, chunk)) {
		rc = -EINVAL;
		goto out_unlock;
	}
	count = slab_region_count(region, chunk);
	bytes = (uint64_t)count * SLAB_CHUNK_BYTES;
	slab->stats.taken -= bytes;
	if (fence) {
		slab->stats.quarantine += bytes;
		slab_region_retire(region, chunk);
		slab_queue_push(&slab->quarantine, region->slot << CHUNK_BITS | chunk, fence);
	} else {
		slab_queue_discard(&slab->quarantine);
		keep(slab, region, chunk, count);
	}
out_unlock:
	pthread_mutex_unlock(&slab->mutex);
	return rc;
}

/* mutex held: the first run in quarantine is free. */
static void release_first(struct slab *slab)
{
	uint32_t run = slab_queue_pop(&slab->quarantine);
	struct slab_region *region = slab->regions[run >> CHUNK_BITS];
	uint32_t chunk = run & ((1u << CHUNK_BITS) - 1);
	uint32_t count = slab_region_count(region, chunk);

	slab->stats.quarantine -= (uint64_t)count * SLAB_CHUNK_BYTES;
	release(slab, region, chunk, count);
}

bool slab_poll(struct slab *slab, uint64_t done)
{
	bool is_more;

	pthread_mutex_lock(&slab->mutex);
	for (int i = 0; i < POLL_RUNS && slab_queue_is_due(&slab->quarantine, done); i++)
		release_first(slab);
	is_more = slab_queue_is_due(&slab->quarantine, done);
	pthread_mutex_unlock(&slab->mutex);
	return is_more;
}

/* mutex held. */
static void describe(const struct slab_region *region, struct slab_piece *out_piece)
{
	out_piece->region_addr = region->node.start;
	out_piece->region_bytes = region->node.bytes;
	out_piece->region_owner = region->owner;
}

int slab_find(struct slab *slab, uint64_t addr, struct slab_piece *out_piece)
{
	struct slab_region *region;
	uint32_t chunk;
	int rc = -ENOENT;

	pthread_mutex_lock(&slab->mutex);
	region = region_at(slab, addr, &chunk);
	if (region && slab_region_first(region, chunk, &chunk)) {
		out_piece->addr = region->node.start + (uint64_t)chunk * SLAB_CHUNK_BYTES;
		out_piece->bytes = (uint64_t)slab_region_count(region, chunk) * SLAB_CHUNK_BYTES;
		describe(region, out_piece);
		rc = 0;
	}
	pthread_mutex_unlock(&slab->mutex);
	return rc;
}

/* mutex held: the first slot without a region; REGIONS when there is none. */
static uint32_t free_slot(const struct slab *slab)
{
	uint32_t slot = 0;

	while (slot < REGIONS && slab->regions[slot])
		slot++;
	return slot;
}

int slab_add(struct slab *slab, uint64_t addr, uint64_t bytes, void *owner)
{
	struct slab_region *region;
	int rc;

	if (!bytes || bytes > SLAB_REGION_BYTES || bytes % SLAB_BLOCK_BYTES ||
	    addr % SLAB_BLOCK_BYTES)
		return -EINVAL;
	region = slab_region_new((uint32_t)(bytes / SLAB_BLOCK_BYTES));
	if (!region)
		return -ENOMEM;
	region->node.start = addr;
	region->node.bytes = bytes;
	region->owner = owner;
	pthread_mutex_lock(&slab->mutex);
	region->slot = free_slot(slab);
	rc = region->slot == REGIONS ? -ENOSPC : 0;
	if (rc == 0 && range_reserve(&slab->addresses, &region->node) < 0)
		rc = -EINVAL;
	if (rc == 0)
		slab->regions[region->slot] = region;
	pthread_mutex_unlock(&slab->mutex);
	if (rc < 0)
		slab_region_free(region);
	return rc;
}

/* mutex held. */
static void describe_extent(const struct slab_region *region, uint32_t block, uint32_t count,
			    struct slab_piece *out_extent)
{
	out_extent->addr = region->node.start + block * SLAB_BLOCK_BYTES;
	out_extent->bytes = count * SLAB_BLOCK_BYTES;
	describe(region, out_extent);
}

/* How many blocks the next extent has: a thirty-second of what there is, but what is asked for. */
static uint32_t extent_blocks(uint64_t held_bytes, uint64_t bytes)
{
	uint64_t want = SLAB_BLOCK_BYTES;

	while (want < SLAB_EXTENT_BYTES && want * 2 <= held_bytes / 256)
		want *= 2;
	if (want < bytes)
		want = bytes_round_up(bytes, SLAB_BLOCK_BYTES);
	return (uint32_t)(want / SLAB_BLOCK_BYTES);
}

int slab_grow_begin(struct slab *slab, uint64_t bytes, struct slab_piece *out_extent)
{
	struct slab_region *region = NULL;
	uint32_t count, block = 0;
	int rc = -ENOSPC;

	if (!slab_takes(bytes))
		return -EINVAL;
	pthread_mutex_lock(&slab->mutex);
	count = extent_blocks(slab->stats.held, bytes);
	for (uint32_t i = 0; i < REGIONS && rc < 0; i++) {
		region = slab->regions[i];
		if (region && slab_region_claim(region, count, &block))
			rc = 0;
	}
	if (rc == 0)
		describe_extent(region, block, count, out_extent);
	pthread_mutex_unlock(&slab->mutex);
	return rc;
}

enum extent_end { EXTENT_BACKED, EXTENT_BARE };

/* Ends the claim of an extent. True when its region has nothing any more and was taken out. */
static bool end_claim(struct slab *slab, const struct slab_piece *extent, enum extent_end end)
{
	uint32_t count = (uint32_t)(extent->bytes / SLAB_BLOCK_BYTES), chunk, unused;
	struct slab_region *region, *out = NULL;
	bool is_out;

	pthread_mutex_lock(&slab->mutex);
	region = region_at(slab, extent->addr, &chunk);
	unused = region->unused_blocks;
	if (end == EXTENT_BACKED) {
		slab_region_back(region, chunk / SLAB_BLOCK_CHUNKS, count);
		slab->stats.held += extent->bytes;
	} else {
		slab_region_unclaim(region, chunk / SLAB_BLOCK_CHUNKS, count);
	}
	changed(slab, region, unused);
	if (!slab_region_is_used(region)) {
		range_remove(&region->node);
		slab->regions[region->slot] = NULL;
		out = region;
	}
	pthread_mutex_unlock(&slab->mutex);
	is_out = out != NULL;
	slab_region_free(out);
	return is_out;
}

void slab_grow_commit(struct slab *slab, const struct slab_piece *extent)
{
	end_claim(slab, extent, EXTENT_BACKED);
}

bool slab_grow_cancel(struct slab *slab, const struct slab_piece *extent)
{
	return end_claim(slab, extent, EXTENT_BARE);
}

bool slab_grow_trim(struct slab *slab, struct slab_piece *extent, uint64_t bytes)
{
	uint64_t keep_bytes = bytes_round_up(bytes, SLAB_BLOCK_BYTES);
	struct slab_region *region;
	uint32_t chunk;

	if (keep_bytes >= extent->bytes)
		return false;
	pthread_mutex_lock(&slab->mutex);
	region = region_at(slab, extent->addr + keep_bytes, &chunk);
	slab_region_unclaim(region, chunk / SLAB_BLOCK_CHUNKS,
			    (uint32_t)((extent->bytes - keep_bytes) / SLAB_BLOCK_BYTES));
	pthread_mutex_unlock(&slab->mutex);
	extent->bytes = keep_bytes;
	return true;
}

/* mutex held: an unused extent of the last region that has one. */
static bool claim_unused(struct slab *slab, struct slab_piece *out_extent)
{
	uint32_t count = 0, block, unused;

	for (uint32_t i = REGIONS; i-- > 0 && !count;) {
		struct slab_region *region = slab->regions[i];

		if (!region)
			continue;
		unused = region->unused_blocks;
		count = slab_region_claim_unused(region, &block);
		if (!count)
			continue;
		describe_extent(region, block, count, out_extent);
		slab->stats.held -= out_extent->bytes;
		changed(slab, region, unused);
	}
	return count > 0;
}

bool slab_shrink_begin(struct slab *slab, uint64_t keep_bytes, struct slab_piece *out_extent)
{
	bool is_begun;

	pthread_mutex_lock(&slab->mutex);
	release_kept(slab);
	is_begun = slab->stats.empty > keep_bytes && claim_unused(slab, out_extent);
	pthread_mutex_unlock(&slab->mutex);
	return is_begun;
}

bool slab_shrink_end(struct slab *slab, const struct slab_piece *extent)
{
	return end_claim(slab, extent, EXTENT_BARE);
}

void slab_shrink_cancel(struct slab *slab, const struct slab_piece *extent)
{
	end_claim(slab, extent, EXTENT_BACKED);
}

uint64_t slab_round(struct slab *slab)
{
	uint64_t used_bytes;

	pthread_mutex_lock(&slab->mutex);
	release_kept(slab);
	used_bytes = slab->stats.empty - slab->least_empty;
	slab->least_empty = slab->stats.empty;
	pthread_mutex_unlock(&slab->mutex);
	return used_bytes;
}

struct slab_stats slab_stats(struct slab *slab)
{
	struct slab_stats stats;

	pthread_mutex_lock(&slab->mutex);
	release_kept(slab);
	stats = slab->stats;
	stats.first_fence = slab_queue_first(&slab->quarantine);
	stats.last_fence = slab_queue_last(&slab->quarantine);
	pthread_mutex_unlock(&slab->mutex);
	return stats;
}
