/*
 * Memory behind addresses: one buffer object, or several side by side, that begin and end together.
 *
 * The charge is for as long as there is a backing, wherever its bytes lie: what may be had again on
 * the device stays the process's. Where they lie is counted besides (shm/residency.h): on a card up
 * to what the tenant keeps there, in host memory up to what it may have of that.
 *
 * Thread safe; calls the driver, so the caller holds no lock.
 */
#pragma once

#include "core/bo.h"
#include "core/bo_host.h"
#include "core/device.h"
#include "core/heat.h"

#include <stdatomic.h>

/* What bounds where memory lies. Constant, but for the region's words. */
struct backing_bounds {
	struct ration_region *own;
	unsigned slot;  /* this process's in it */
	bool may_spill; /* what has no room on the card may lie in host memory */
};

/* The buffer objects of one device, with charges and bounds between them and their owner. */
struct backing_device {
	struct bo_device bo;
	/* constant after backing_init() */
	struct dev dev;
	struct backing_bounds bounds;
	struct bo_ops ops;          /* ours, which call those below */
	struct bo_host host;        /* counts host memory, where the owner keeps some */
	const struct bo_ops *below; /* the owner's */
	void *owner;
	/*
	 * Gives back what is kept on the device with nothing in it. True when there was some. NULL:
	 * nothing is. Set before the first backing is opened; called without locks.
	 */
	bool (*give_idle)(void *arg);
	void *idle_arg;
	_Atomic uint64_t ended;         /* buffer objects so far; atomic */
	_Atomic uint64_t closing_bytes; /* backing_closes(); atomic */
};

/* `below`, `owner` and what the bounds name are kept. */
void backing_init(struct backing_device *device, struct dev dev,
		  const struct backing_bounds *bounds, const struct bo_ops *below, void *owner);

struct backing;

/* The last of its memory is given back: the addresses are free. Called without locks. */
typedef void backing_end(struct backing *backing, void *arg);

/* One of its objects, and how much it is used. */
struct backing_object {
	struct bo bo; /* first: bo_ops give it */
	/* of core/backing_use.c alone; atomic */
	_Atomic uint32_t uses; /* of it in particular, since the last round, in HEAT_USE */
	_Atomic bool is_far;   /* since it was placed last: not on the device */
	/* of the worker alone */
	uint32_t whole_seen; /* of the backing's, up to the last round */
	struct heat heat;    /* of core/balance.h */
};

struct backing {
	/* constant */
	struct backing_device *device;
	uint64_t addr, bytes;
	backing_end *end;
	void *arg;
	unsigned count;
	_Atomic unsigned left; /* objects that have not ended, atomic */
	/* of core/backing_use.c alone; atomic */
	_Atomic uint32_t whole_uses; /* of all of it, so far, in HEAT_USE */
	_Atomic uint64_t far_bytes;  /* of its objects that are */
	struct backing_object objects[];
};

/*
 * Gives [addr, addr + bytes) memory; both are multiples of blocks. 0 with *out_backing, -EDQUOT
 * when the limit says no, -ENOMEM when there is none, or what the driver's side said. `end` is
 * called once after a success, and never after an error.
 */
int backing_open(struct backing_device *device, uint64_t addr, uint64_t bytes, backing_end *end,
		 void *arg, struct backing **out_backing);

/*
 * Gives the memory back once `fence` is done (0: now). The backing ends with end(), perhaps in
 * here.
 */
void backing_close(struct backing *backing, uint64_t fence);

/* So many bytes are about to be closed: they are in hand until backing_close() is over. */
void backing_closes(struct backing_device *device, uint64_t bytes);

/* True while a thread closes one, or ends what was closed; not while others use it. */
bool backing_is_in_hand(struct backing_device *device);

/* Finishes what was closed and whose fences are done. True when there was some. */
bool backing_reap(struct backing_device *device);

/* The objects [*out_first, *out_end) that have a part of [addr, addr + bytes), which lies in it. */
void backing_span(const struct backing *backing, uint64_t addr, uint64_t bytes, unsigned *out_first,
		  unsigned *out_end);

/* How much more the tenant may have in a place by its bound; UINT64_MAX: there is none. */
uint64_t backing_room(const struct backing_device *device, enum bo_place place);

/*
 * Keeps what is behind [addr, addr + bytes) on the device, counted. It lies in the backing. One
 * attempt: 0, -ENOMEM when it is elsewhere and there is no room, -EBUSY when it could not be had
 * now, -EAGAIN during a capture. After an error nothing of it is pinned.
 */
int backing_pin(struct backing *backing, uint64_t addr, uint64_t bytes);
void backing_unpin(struct backing *backing, uint64_t addr, uint64_t bytes);

/*
 * Puts the objects that have a part of [addr, addr + bytes) into out_bos, at most `most`, each with
 * a reference of the caller's. How many there are. Takes no lock.
 */
unsigned backing_get(struct backing *backing, uint64_t addr, uint64_t bytes, struct bo **out_bos,
		     unsigned most);

/* One object on the device and pinned, as backing_pin(); bo_unpin() ends it. */
int backing_pin_object(struct bo *bo);

/* It is in use anew, as if just opened. False, and it is not, when not all is on the device. */
bool backing_renew(struct backing *backing);

/* Host memory that the owner keeps at hand goes back: somebody wants it. */
void backing_trim(struct backing_device *device);
