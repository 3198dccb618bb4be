/* Objects from slabs: those of one context share its extents. */
#pragma once

#include "core/backing_use.h"
#include "core/object_device.h"

/* A region's worth of addresses. Its node is in the device's addresses. */
struct object_region;

/* device's mutex: the space of a context; a new one if it has none. NULL without memory. */
struct object_space *object_small_space(struct object_device *d, const void *ctx);

/* device's mutex: takes `bytes` of those that slab_takes(). As slab_alloc(). */
int object_small_take(struct object_device *d, struct object_space *space, uint64_t bytes,
		      uint64_t id, uint64_t *out_addr);

/*
 * Gives the space another extent, in which `bytes` have room; the space has a user. 0, -EDQUOT,
 * -ENOMEM.
 */
int object_small_grow(struct object_device *d, struct object_space *space, uint64_t bytes);

/* device's mutex: frees what begins at `addr`, which is not pinned. 0 or -EINVAL. */
int object_small_free(struct object_region *region, uint64_t addr, uint64_t fence);

/* device's mutex: as object_find(), without dev. */
struct object_info;
bool object_small_find(struct object_region *region, uint64_t addr, struct object_info *out_info);

/* device's mutex: its space. */
struct object_space *object_small_space_of(struct object_region *region);

/* device's mutex: whether the piece that begins at `addr` is pinned; of none it says nothing. */
bool object_small_is_pinned(struct object_region *region, uint64_t addr);

/* device's mutex: enters that the piece, which is in use, is pinned or is not. */
void object_small_set_pinned(struct object_region *region, uint64_t addr, bool is_pinned);

/* device's mutex: likewise, that its copies are waited for. */
void object_small_set_sync(struct object_region *region, uint64_t addr, bool is_sync);

/* device's mutex: notes that work uses a part of a piece in use. */
void object_small_use(struct object_region *region, uint64_t addr, uint64_t bytes,
		      struct backing_uses *uses);

/* Pins or unpins what is behind a piece in use; its space has a user. As backing_pin(). */
int object_small_pin(struct object_region *region, uint64_t addr, uint64_t bytes);
void object_small_unpin(struct object_region *region, uint64_t addr, uint64_t bytes);

/* device's mutex: as backing_get(), of what is behind a piece in use. */
unsigned object_small_get(struct object_region *region, uint64_t addr, uint64_t bytes,
			  struct bo **out_bos, unsigned most);

/*
 * device's mutex: releases what waits for fences up to `done`, some of it at a time. True: there
 * is more.
 */
bool object_small_poll(struct object_device *d, uint64_t done);

/*
 * Gives extents back in which nothing is, as long as more than keep_bytes of each space's are
 * empty. True when there were some.
 */
bool object_small_shrink(struct object_device *d, uint64_t keep_bytes);

/* A round of the worker: gives those back in which nothing was since the last. */
void object_small_tick(struct object_device *d);

/*
 * Gives all memory of a space back, whatever is in it, and ends it: is_emptied, without users and
 * large objects.
 */
void object_small_empty(struct object_device *d, struct object_space *space);

/*
 * device's mutex: bytes that are charged, and in use by nothing or only until their fences are
 * done.
 */
uint64_t object_small_idle_bytes(struct object_device *d);
