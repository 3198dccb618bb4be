/*
 * Objects: linear device memory of this process that keeps its addresses while what is behind them
 * may be exchanged (core/bo.h). To the program an object is what cuMemAlloc gives.
 *
 * Small requests are served from slabs, one for each context, whose extents are one buffer object
 * each; others have addresses of their own. What is charged is the memory: extents and objects. A
 * freed piece is not used again, and its memory not given back, before the work that was submitted
 * until then is done (a fence). What is freed and not given back yet is idle: it goes when it is
 * not used for a while, when the limit is met, or when the process has much of it.
 *
 * Thread safe. object_alloc() and what gives memory back call the driver: the caller holds no lock.
 */
#pragma once

#include "core/backing.h"

#include <stdbool.h>
#include <stdint.h>

/* What objects need of the driver beside the owner's side of core/bo.h. */
struct object_ops {
	/* Addresses for the process's life, a multiple of blocks. 0, -ENOTSUP, -ENOMEM. */
	int (*reserve)(void *owner, uint64_t bytes, uint64_t *out_addr);
	/*
	 * A fence that covers all work submitted so far: 0 when none of it can be under way. Costs
	 * next to nothing.
	 */
	uint64_t (*fence)(void *owner);
	/* Up to which fence all is done; asks the driver. */
	uint64_t (*done)(void *owner);
	const struct bo_ops *bo;
};

/* Starts: fork children begin with nothing. */
void object_init(void);

/*
 * Opens the device for objects, with so many bytes of addresses; what is given is kept, but for the
 * bounds, which are copied. Later calls answer as the first: 0, or why there are none on this
 * device.
 */
int object_open(struct dev dev, const struct object_ops *ops, void *owner, uint64_t bytes,
		const struct backing_bounds *bounds);

/*
 * Memory of `bytes`, more than none, in context `ctx` of an open device. 0 with its address;
 * -EDQUOT over the limit, after what is idle was released and what waits for its fence was waited
 * for; -ENOMEM when the device has none.
 */
int object_alloc(struct dev dev, const void *ctx, uint64_t bytes, uint64_t *out_addr);

/*
 * Frees what begins at `addr`. 0; -ENOENT when the address is not ours; -EINVAL when it is, and
 * nothing begins there or it is free already.
 */
int object_free(uint64_t addr);

/* An object that is in use. */
struct object_info {
	struct dev dev;
	const void *ctx;
	uint64_t addr, bytes; /* as asked for */
	uint64_t id;          /* no other object of this process ever has it */
	bool is_pinned;       /* by object_pin() */
	bool is_sync;         /* by object_set_sync() */
};

/* What the address, which may be inside of it, belongs to. False when it is no object's. */
bool object_find(uint64_t addr, struct object_info *out_info);

/* True for an address among those that objects are given, whether one is there or not. */
bool object_is_ours(uint64_t addr);

/*
 * Gives back what is idle on the device and whose work is done. True when anything was; with
 * wait_until_ns above 0 waits until then for what is not done.
 */
bool object_reclaim(struct dev dev, int64_t wait_until_ns);

/*
 * From now on nothing that was freed is kept on any device, and what is goes back: all is about to
 * leave them. Until it is said that it may be kept again.
 */
void object_keep(bool may_keep);

/* Bytes that are charged and that object_alloc() can have again: freed, done with or not. */
uint64_t object_idle_bytes(struct dev dev);

/* The buffer objects of a device; NULL where it is not open. */
struct bo_device *object_bos(struct dev dev);

/*
 * One round of the worker: what was idle for some rounds is given back, and what is used much comes
 * to the device. For that work may have to be waited for, which is asked every millisecond or so
 * then: true when the worker has something else to do. It may be NULL.
 */
void object_tick(bool (*is_asked)(void));
