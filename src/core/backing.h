/*
 * Memory behind addresses: one buffer object, or several side by side, that begin and end together.
 *
 * The charge follows the memory: what lies in device memory is charged as data from before the
 * driver is asked for it until after the driver has it back, wherever an object goes meanwhile.
 *
 * Thread safe; calls the driver, so the caller holds no lock.
 */
#pragma once

#include "core/bo.h"
#include "core/device.h"

#include <stdatomic.h>

/* The buffer objects of one device, with the charges put between them and their owner. */
struct backing_device {
	struct bo_device bo;
	/* constant after backing_init() */
	struct dev dev;
	struct bo_ops ops;          /* ours, which call those below */
	const struct bo_ops *below; /* the owner's */
	void *owner;
	_Atomic uint64_t ended; /* buffer objects so far, atomic */
};

/* `below` and `owner` are kept. Objects are moved by what is called below, and stay where it says so. */
void backing_init(struct backing_device *device, struct dev dev, const struct bo_ops *below,
		  void *owner);

struct backing;

/* The last of its memory is given back: the addresses are free. Called without locks. */
typedef void backing_end(struct backing *backing, void *arg);

struct backing {
	/* constant */
	struct backing_device *device;
	uint64_t addr, bytes;
	backing_end *end;
	void *arg;
	unsigned count;
	_Atomic unsigned left; /* objects that have not ended, atomic */
	struct bo bos[];
};

/*
 * Gives [addr, addr + bytes) device memory; both are multiples of blocks. 0 with *out_backing,
 * -EDQUOT when the limit says no, -ENOMEM when there is none, or what the driver's side said. `end`
 * is called once after a success, and never after an error.
 */
int backing_open(struct backing_device *device, uint64_t addr, uint64_t bytes, backing_end *end,
		 void *arg, struct backing **out_backing);

/* Gives the memory back once `fence` is done (0: now). The backing ends with end(), perhaps in here. */
void backing_close(struct backing *backing, uint64_t fence);

/* Finishes what was closed and whose fences are done. True when there was some. */
bool backing_reap(struct backing_device *device);

/*
 * Keeps what is behind [addr, addr + bytes) where it is, counted. It lies in the backing. 0 or
 * -EBUSY when it is being moved for too long.
 */
int backing_pin(struct backing *backing, uint64_t addr, uint64_t bytes);
void backing_unpin(struct backing *backing, uint64_t addr, uint64_t bytes);
