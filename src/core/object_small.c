#include "core/object_small.h"

#include "core/object.h"

#include <errno.h>
#include <stdlib.h>

/* A piece's word: its number, what is noted of it, and what its last chunk has too much. */
enum {
	SLACK_BITS = 9,
	SLACK_MASK = (1 << SLACK_BITS) - 1,
	PINNED_BIT = 1 << SLACK_BITS,
	SYNC_BIT = 2 << SLACK_BITS,
	ID_SHIFT = SLACK_BITS + 2,
};
enum {
	REGION_BLOCKS = SLAB_REGION_BYTES / SLAB_BLOCK_BYTES,
	REGION_CHUNKS = SLAB_REGION_BYTES / SLAB_ALIGN_BYTES,
};

#define KEEP_NEEDED UINT64_MAX

_Static_assert(SLAB_ALIGN_BYTES == 1 << SLACK_BITS, "the slack of a chunk fits its bits");

/* All but what is constant: the device's mutex. */
struct object_region {
	struct range_node node;     /* first: range_find() gives it */
	struct object_space *space; /* constant */
	LIST_ENTRY(object_region) link;
	/* of each block the extent that it is in; set before anything is taken from it */
	struct backing *extents[REGION_BLOCKS];
	unsigned held;                 /* extents that have not ended */
	uint64_t words[REGION_CHUNKS]; /* of the piece that begins with the chunk */
};

struct object_space *object_small_space(struct object_device *d, const void *ctx)
{
	struct object_space *space;

	LIST_FOREACH(space, &d->spaces, link)
		if (space->ctx == ctx && !space->is_ended)
			return space;
	space = calloc(1, sizeof(*space));
	if (!space)
		return NULL;
	space->slab = slab_open();
	if (!space->slab) {
		free(space);
		return NULL;
	}
	space->ctx = ctx;
	space->device = d;
	TAILQ_INIT(&space->objects);
	LIST_INSERT_HEAD(&d->spaces, space, link);
	return space;
}

struct object_space *object_small_space_of(struct object_region *region)
{
	return region->space;
}

static uint64_t *word_of(struct object_region *region, uint64_t addr)
{
	return &region->words[(addr - region->node.start) / SLAB_ALIGN_BYTES];
}

int object_small_take(struct object_device *d, struct object_space *space, uint64_t bytes,
		      uint64_t id, uint64_t *out_addr)
{
	struct object_region *region;
	uint64_t slack_bytes = (SLAB_ALIGN_BYTES - bytes % SLAB_ALIGN_BYTES) % SLAB_ALIGN_BYTES;
	int rc = slab_alloc(space->slab, bytes, out_addr);

	if (rc < 0)
		return rc;
	region = (struct object_region *)range_find(&d->addresses, *out_addr);
	*word_of(region, *out_addr) = id << ID_SHIFT | slack_bytes;
	return 0;
}

int object_small_free(struct object_region *region, uint64_t addr, uint64_t fence)
{
	if (region->space->is_emptied || slab_free(region->space->slab, addr, fence) < 0)
		return -EINVAL;
	return 0;
}

bool object_small_find(struct object_region *region, uint64_t addr, struct object_info *out_info)
{
	struct slab_piece piece;
	uint64_t word;

	if (region->space->is_emptied || slab_find(region->space->slab, addr, &piece) < 0)
		return false;
	word = *word_of(region, piece.addr);
	out_info->ctx = region->space->ctx;
	out_info->addr = piece.addr;
	out_info->bytes = piece.bytes - (word & SLACK_MASK);
	out_info->id = word >> ID_SHIFT;
	out_info->is_pinned = word & PINNED_BIT;
	out_info->is_sync = word & SYNC_BIT;
	return addr - piece.addr < out_info->bytes;
}

static void set_bit(uint64_t *word, uint64_t bit, bool is_set)
{
	*word = is_set ? *word | bit : *word & ~bit;
}

bool object_small_is_pinned(struct object_region *region, uint64_t addr)
{
	return *word_of(region, addr) & PINNED_BIT;
}

void object_small_set_pinned(struct object_region *region, uint64_t addr, bool is_pinned)
{
	set_bit(word_of(region, addr), PINNED_BIT, is_pinned);
}

void object_small_set_sync(struct object_region *region, uint64_t addr, bool is_sync)
{
	set_bit(word_of(region, addr), SYNC_BIT, is_sync);
}

/* The part of [addr, addr + bytes) that is in the extent of its first block. */
static uint64_t part_of(const struct backing *extent, uint64_t addr, uint64_t bytes)
{
	uint64_t left_bytes = extent->addr + extent->bytes - addr;

	return left_bytes < bytes ? left_bytes : bytes;
}

void object_small_use(struct object_region *region, uint64_t addr, uint64_t bytes,
		      struct backing_uses *uses)
{
	while (bytes) {
		struct backing *extent =
			region->extents[(addr - region->node.start) / SLAB_BLOCK_BYTES];
		uint64_t part_bytes = part_of(extent, addr, bytes);

		backing_use(extent, addr, part_bytes, uses);
		addr += part_bytes;
		bytes -= part_bytes;
	}
}

unsigned object_small_get(struct object_region *region, uint64_t addr, uint64_t bytes,
			  struct bo **out_bos, unsigned most)
{
	unsigned n = 0;

	while (bytes && n < most) {
		struct backing *extent =
			region->extents[(addr - region->node.start) / SLAB_BLOCK_BYTES];
		uint64_t part_bytes = part_of(extent, addr, bytes);

		n += backing_get(extent, addr, part_bytes, out_bos + n, most - n);
		addr += part_bytes;
		bytes -= part_bytes;
	}
	return n;
}

/* The piece keeps its extents, and the region with them. */
static struct backing *extent_of(struct object_region *region, uint64_t addr)
{
	struct object_device *d = region->space->device;
	struct backing *extent;

	pthread_mutex_lock(&d->mutex);
	extent = region->extents[(addr - region->node.start) / SLAB_BLOCK_BYTES];
	pthread_mutex_unlock(&d->mutex);
	return extent;
}

void object_small_unpin(struct object_region *region, uint64_t addr, uint64_t bytes)
{
	while (bytes) {
		struct backing *extent = extent_of(region, addr);
		uint64_t part_bytes = part_of(extent, addr, bytes);

		backing_unpin(extent, addr, part_bytes);
		addr += part_bytes;
		bytes -= part_bytes;
	}
}

int object_small_pin(struct object_region *region, uint64_t addr, uint64_t bytes)
{
	uint64_t at = addr, end = addr + bytes;
	int rc = 0;

	while (at < end) {
		struct backing *extent = extent_of(region, at);
		uint64_t part_bytes = part_of(extent, at, end - at);

		rc = backing_pin(extent, at, part_bytes);
		if (rc < 0)
			break;
		at += part_bytes;
	}
	if (rc < 0)
		object_small_unpin(region, addr, at - addr);
	return rc;
}

/* Another region of addresses for the space. */
static int add_region(struct object_device *d, struct object_space *space)
{
	struct object_region *region = calloc(1, sizeof(*region));
	const struct range_want want = { .bytes = SLAB_REGION_BYTES,
					 .align_bytes = SLAB_BLOCK_BYTES,
					 .color = OBJECT_REGION };
	int rc;

	if (!region)
		return -ENOMEM;
	region->space = space;
	pthread_mutex_lock(&d->mutex);
	rc = range_insert(&d->addresses, &region->node, &want);
	if (rc == 0) {
		rc = slab_add(space->slab, region->node.start, SLAB_REGION_BYTES, region);
		if (rc < 0)
			range_remove(&region->node);
		else
			LIST_INSERT_HEAD(&space->regions, region, link);
	}
	pthread_mutex_unlock(&d->mutex);
	if (rc < 0)
		free(region);
	return rc < 0 ? -ENOMEM : 0;
}

/* mutex: the slab has nothing to do with the region any more, or has ended with its space. */
static void remove_region(struct object_region *region)
{
	range_remove(&region->node);
	LIST_REMOVE(region, link);
	free(region);
}

/* mutex: an emptied space that has nothing any more is no more. */
static void end_space(struct object_space *space)
{
	if (!LIST_EMPTY(&space->regions))
		return;
	LIST_REMOVE(space, link);
	slab_close(space->slab);
	free(space);
}

/* mutex. */
static void set_extent(struct object_region *region, const struct slab_piece *extent,
		       struct backing *backing)
{
	uint64_t block = (extent->addr - region->node.start) / SLAB_BLOCK_BYTES;

	for (uint64_t i = 0; i < extent->bytes / SLAB_BLOCK_BYTES; i++)
		region->extents[block + i] = backing;
}

/* An extent's memory is given back. */
static void extent_ended(struct backing *backing, void *arg)
{
	struct object_region *region = arg;
	struct object_space *space = region->space;
	struct object_device *d = space->device;
	struct slab_piece extent = { .addr = backing->addr, .bytes = backing->bytes };

	pthread_mutex_lock(&d->mutex);
	object_device_ended(d, extent.bytes);
	region->held--;
	if (!space->is_emptied) {
		if (slab_shrink_end(space->slab, &extent))
			remove_region(region);
	} else if (region->held == 0) {
		remove_region(region);
		end_space(space);
	}
	pthread_mutex_unlock(&d->mutex);
}

/* The extent that a piece of the slab's says, in its region. */
static struct object_region *region_of(const struct slab_piece *extent)
{
	return extent->region_owner;
}

static int begin_growing(struct object_device *d, struct object_space *space, uint64_t bytes,
			 struct slab_piece *out_extent)
{
	int rc = slab_grow_begin(space->slab, bytes, out_extent);

	if (rc != -ENOSPC)
		return rc;
	rc = add_region(d, space);
	return rc < 0 ? rc : slab_grow_begin(space->slab, bytes, out_extent);
}

/* Memory for the extent, or for as much of it as `bytes` need where the limit allows no more. */
static int open_extent(struct object_device *d, struct object_space *space, uint64_t bytes,
		       struct slab_piece *extent, struct backing **out_backing)
{
	int rc = backing_open(&d->backing, extent->addr, extent->bytes, extent_ended,
			      extent->region_owner, out_backing);

	if (rc == 0 || !slab_grow_trim(space->slab, extent, bytes))
		return rc;
	return backing_open(&d->backing, extent->addr, extent->bytes, extent_ended,
			    extent->region_owner, out_backing);
}

int object_small_grow(struct object_device *d, struct object_space *space, uint64_t bytes)
{
	struct slab_piece extent;
	struct backing *backing;
	int rc = begin_growing(d, space, bytes, &extent);

	/* Somebody else used the new region up: the caller tries again. */
	if (rc < 0)
		return rc == -ENOSPC ? -EAGAIN : rc;
	rc = open_extent(d, space, bytes, &extent, &backing);
	pthread_mutex_lock(&d->mutex);
	if (rc == 0) {
		region_of(&extent)->held++;
		set_extent(region_of(&extent), &extent, backing);
		slab_grow_commit(space->slab, &extent);
	} else if (slab_grow_cancel(space->slab, &extent)) {
		remove_region(region_of(&extent));
	}
	pthread_mutex_unlock(&d->mutex);
	return rc;
}

bool object_small_poll(struct object_device *d, uint64_t done)
{
	struct object_space *space;
	bool is_more = false;

	LIST_FOREACH(space, &d->spaces, link)
		if (!space->is_emptied)
			is_more |= slab_poll(space->slab, done);
	return is_more;
}

/*
 * mutex: takes an empty extent out of its slab: its memory, or NULL. It stays while no more than
 * keep_bytes are empty; KEEP_NEEDED: than the last round of the worker found to be needed.
 */
static struct backing *take_empty(struct object_device *d, uint64_t keep_bytes)
{
	struct object_space *space;
	struct slab_piece extent;
	struct backing *backing;

	LIST_FOREACH(space, &d->spaces, link) {
		uint64_t keep = keep_bytes == KEEP_NEEDED ? space->needed_bytes : keep_bytes;

		if (space->is_ended || !slab_shrink_begin(space->slab, keep, &extent))
			continue;
		backing =
			region_of(&extent)->extents[(extent.addr - region_of(&extent)->node.start) /
						    SLAB_BLOCK_BYTES];
		set_extent(region_of(&extent), &extent, NULL);
		object_device_ending(d, extent.bytes);
		return backing;
	}
	return NULL;
}

bool object_small_shrink(struct object_device *d, uint64_t keep_bytes)
{
	bool is_any = false;

	for (;;) {
		struct backing *backing;

		pthread_mutex_lock(&d->mutex);
		backing = take_empty(d, keep_bytes);
		pthread_mutex_unlock(&d->mutex);
		if (!backing)
			return is_any;
		backing_close(backing, 0);
		is_any = true;
	}
}

void object_small_tick(struct object_device *d)
{
	struct object_space *space;

	pthread_mutex_lock(&d->mutex);
	LIST_FOREACH(space, &d->spaces, link)
		if (!space->is_ended)
			space->needed_bytes = slab_round(space->slab);
	pthread_mutex_unlock(&d->mutex);
	object_small_shrink(d, KEEP_NEEDED);
}

/* mutex: takes some extent out of an emptied space; NULL when there is none. */
static struct backing *take_any(struct object_device *d, struct object_space *space)
{
	struct object_region *region;

	LIST_FOREACH(region, &space->regions, link)
		for (int i = 0; i < REGION_BLOCKS; i++) {
			struct backing *backing = region->extents[i];
			struct slab_piece extent;

			if (!backing)
				continue;
			extent = (struct slab_piece){ .addr = backing->addr,
						      .bytes = backing->bytes };
			set_extent(region, &extent, NULL);
			object_device_ending(d, extent.bytes);
			return backing;
		}
	return NULL;
}

void object_small_empty(struct object_device *d, struct object_space *space)
{
	struct object_region *region, *other;
	struct backing *backing, *next;
	uint64_t fence;

	pthread_mutex_lock(&d->mutex);
	/* Work of other contexts may use what was freed before this one ended. */
	fence = slab_stats(space->slab).last_fence;
	for (region = LIST_FIRST(&space->regions); region; region = other) {
		other = LIST_NEXT(region, link);
		if (region->held == 0)
			remove_region(region);
	}
	backing = take_any(d, space);
	if (!backing)
		end_space(space);
	/* With the last that is closed the space may end: what follows is looked for before. */
	while (backing) {
		next = take_any(d, space);
		pthread_mutex_unlock(&d->mutex);
		backing_close(backing, fence);
		backing = next;
		pthread_mutex_lock(&d->mutex);
	}
	pthread_mutex_unlock(&d->mutex);
}

uint64_t object_small_idle_bytes(struct object_device *d)
{
	struct object_space *space;
	uint64_t bytes = 0;

	LIST_FOREACH(space, &d->spaces, link) {
		struct slab_stats stats;

		if (space->is_emptied)
			continue;
		stats = slab_stats(space->slab);
		bytes += stats.empty + stats.quarantine / SLAB_BLOCK_BYTES * SLAB_BLOCK_BYTES;
	}
	return bytes;
}
