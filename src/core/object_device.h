/*
 * What the files of objects share: the addresses of one device and what lies at them.
 *
 * One reservation of addresses holds large objects, which have a node of their own, and regions of
 * slabs, each of one context. The device's mutex orders all of it, for the time of a look or a
 * change; it is taken before a slab's and never held across a call of the driver or of core/bo.h.
 */
#pragma once

#include "core/backing.h"
#include "core/balance.h"
#include "core/object_spare.h"
#include "core/range.h"
#include "core/slab.h"

#include <pthread.h>
#include <sys/queue.h>

struct object_ops;

/* What a node in `addresses` is: its colour. */
enum object_kind { OBJECT_LARGE, OBJECT_REGION };

LIST_HEAD(object_region_list, object_region);

/* What one context has on the device. */
struct object_space {
	const void *ctx;   /* constant */
	struct slab *slab; /* constant */
	/* device's mutex */
	unsigned users;        /* threads that are about to give it memory or take some away */
	uint64_t needed_bytes; /* of empty extents, to be kept after a round of the worker */
	bool is_ended;   /* its context is gone, or about to be: nobody gets anything from it */
	bool is_emptied; /* what was in it is given back, but for what users have in hand */
	struct object_list objects;
	struct object_region_list regions;
	LIST_ENTRY(object_space) link;
	struct object_space *also;    /* ended with it: another of the same context */
	struct object_device *device; /* constant */
};

LIST_HEAD(object_space_list, object_space);

struct object_device {
	/* constant after object_open() */
	struct dev dev;
	const struct object_ops *ops;
	void *owner;
	uint64_t start, end;
	/* has locks of its own */
	struct backing_device backing;
	struct balance balance;   /* the worker's alone */
	_Atomic unsigned pinning; /* threads that try to pin now; atomic */
	pthread_mutex_t mutex;
	/* mutex */
	struct range addresses;
	struct object_space_list spaces;
	struct object_spares spares;
	uint64_t ending_bytes; /* freed, and being given back */
	uint64_t last_fence;   /* the highest that a freed one waits for */
	uint64_t known_done;   /* up to which fence all was done, when asked last */
	uint64_t frees;        /* so far */
	/* the worker's alone */
	uint32_t room_wanted, host_wanted; /* the region's words, as seen last */
	uint64_t card_wanted;              /* wanted_since(), likewise */
};

/* Starts: fork children begin with nothing. */
void object_device_init(void);

/*
 * So much that was freed is about to be closed (core/backing.h), and is given back. Under the
 * device's mutex.
 */
void object_device_ending(struct object_device *d, uint64_t bytes);
void object_device_ended(struct object_device *d, uint64_t bytes);

/* It is open from now on. */
void object_device_enter(struct object_device *d);

/* An open device; NULL when it is not, or the address is none of its. */
struct object_device *object_device_of(struct dev dev);
struct object_device *object_device_at(uint64_t addr);

/*
 * device's mutex: as object_find(), with the node that holds the address; NULL when none does. Of
 * *out_info `dev` alone is set without an object.
 */
struct object_info;
bool object_device_find(struct object_device *d, uint64_t addr, struct range_node **out_node,
			struct object_info *out_info);

/* device's mutex: one user less. True when the space is the caller's to empty. */
bool object_device_leave(struct object_space *space);
