/*
 * Small device memory: requests that would waste blocks of their own are served from regions,
 * ranges of addresses that the caller hands in and gives memory to in extents, as they are needed.
 * Nothing here calls the driver or waits: without room the caller is told so, and decides whether
 * to release what is in quarantine, to wait for it, or to give another extent memory.
 *
 * Freed memory is in quarantine until work that may still use it is done. The caller numbers what
 * it waits for (a fence: when that number is done, so are all below it), says at a free which must
 * be done first, and now and then says how far it is. A free costs the same with and without.
 *
 * Thread safe: one mutex in each slab, held for the time of one request, orders all that is in it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct slab;

/* A region is a multiple of blocks, at an address that is one, and at most this large. */
#define SLAB_BLOCK_BYTES (UINT64_C(2) << 20)
#define SLAB_REGION_BYTES (UINT64_C(128) << 20)
/* No extent is larger. */
#define SLAB_EXTENT_BYTES (UINT64_C(32) << 20)
/* What a request is aligned to and rounded up to: what the driver aligns to. */
#define SLAB_ALIGN_BYTES UINT64_C(512)

/*
 * True for what belongs into a slab: blocks of its own would waste more than an eighth of it. So
 * nothing above 16 MiB does, nothing that is a multiple of blocks, and everything up to 1.7 MiB.
 */
bool slab_takes(uint64_t bytes);

/* A slab without regions; NULL without memory. */
struct slab *slab_open(void);

/* Forgets all regions, whatever is in them: their memory is the caller's. NULL is fine. */
void slab_close(struct slab *slab);

/*
 * Takes `bytes` of those that slab_takes() says. 0 with its address; -ENOSPC when there is no room:
 * it is to grow; -ENOMEM without memory of ours; -EINVAL for what does not belong here.
 */
int slab_alloc(struct slab *slab, uint64_t bytes, uint64_t *out_addr);

/*
 * Frees what begins at `addr`: reusable once `fence` is done, 0: at once. 0; -ENOENT when it is in
 * no region, so that it is not ours; -EINVAL when it is, but nothing begins there or it is free
 * already.
 */
int slab_free(struct slab *slab, uint64_t addr, uint64_t fence);

/*
 * Says that all fences up to `done` are done: what waited for them is free. True when there is more
 * of that: one call releases a few hundred at most, so that others need not wait long.
 */
bool slab_poll(struct slab *slab, uint64_t done);

/* Something in a slab: it is [addr, addr + bytes), and that region is its. */
struct slab_piece {
	uint64_t addr, bytes; /* in whole chunks */
	uint64_t region_addr, region_bytes;
	void *region_owner;
};

/*
 * What the address, which may be inside of it, belongs to. 0 or -ENOENT: in nothing that is taken.
 */
int slab_find(struct slab *slab, uint64_t addr, struct slab_piece *out_piece);

/*
 * Hands in a region without memory; `owner` is the caller's and comes back with it. 0, -ENOMEM,
 * -ENOSPC when there are too many, -EINVAL when it is no region or overlaps one.
 */
int slab_add(struct slab *slab, uint64_t addr, uint64_t bytes, void *owner);

/*
 * Where memory is to be given so that `bytes` have room: an extent. They grow with the slab, so
 * that what is not used yet is a small part of it. The caller gives it memory and commits, or it
 * has none and cancels; nobody else is told to meanwhile. 0, or -ENOSPC when no region has the
 * addresses: one is to be added. slab_grow_cancel() answers as slab_shrink_end().
 */
int slab_grow_begin(struct slab *slab, uint64_t bytes, struct slab_piece *out_extent);
void slab_grow_commit(struct slab *slab, const struct slab_piece *extent);
bool slab_grow_cancel(struct slab *slab, const struct slab_piece *extent);

/*
 * Between begin and commit or cancel: makes the extent as small as `bytes` need. False when it is,
 * and nothing is changed.
 */
bool slab_grow_trim(struct slab *slab, struct slab_piece *extent, uint64_t bytes);

/*
 * While extents in which nothing is taken or in quarantine have more than keep_bytes together: one
 * of them, from which nothing is served any longer. False when it is not so. The caller takes its
 * memory away and ends, or cannot and cancels. slab_shrink_end() is true when it was the last of
 * its region: that is taken out, the addresses are the caller's again.
 */
bool slab_shrink_begin(struct slab *slab, uint64_t keep_bytes, struct slab_piece *out_extent);
bool slab_shrink_end(struct slab *slab, const struct slab_piece *extent);
void slab_shrink_cancel(struct slab *slab, const struct slab_piece *extent);

/* Of what is empty now, the bytes that were not empty at some time since this was asked last. */
uint64_t slab_round(struct slab *slab);

/* All in bytes. */
struct slab_stats {
	uint64_t held;       /* the extents */
	uint64_t taken;      /* in use, in whole chunks */
	uint64_t quarantine; /* freed, but not reusable yet */
	uint64_t empty;      /* of held: extents in which nothing is */
	/*
	 * Of the quarantine, 0 when nothing is in it: the first fence and the last that it waits
	 * for.
	 */
	uint64_t first_fence, last_fence;
};

/* What it holds at this moment. */
struct slab_stats slab_stats(struct slab *slab);
