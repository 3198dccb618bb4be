/* Objects with addresses of their own. */
#pragma once

#include "core/object_device.h"

/* A large object. Its node is in the device's addresses. */
struct object {
	struct range_node node; /* first: range_find() gives it */
	/* constant after object_large_open() */
	struct object_device *device;
	struct backing *backing;
	/* device's mutex */
	struct object_space *space; /* of its context; NULL: it is not in use */
	uint64_t asked_bytes, id;
	uint64_t fence; /* while it is idle: done when it may be used again */
	unsigned rounds; /* of the worker, idle */
	bool is_pinned, is_sync;
	TAILQ_ENTRY(object) link; /* in its space's or the device's idle list */
};

/*
 * device's mutex: an idle object of exactly so many bytes, in whole blocks, that no work up to
 * `done` may still use: it is in no list. NULL when there is none; *out_is_waiting says that there
 * will be one.
 */
struct object *object_large_reuse(struct object_device *d, uint64_t bytes, uint64_t done,
				  bool *out_is_waiting);

/* A new object, in no list. 0, -EDQUOT, -ENOMEM. */
int object_large_open(struct object_device *d, uint64_t bytes, struct object **out_object);

/* device's mutex: it is in use by a context now. */
void object_large_enter(struct object *object, struct object_space *space, uint64_t asked_bytes,
			uint64_t id);

/*
 * device's mutex: it is in use no longer. True when it is idle now; false when the caller is to
 * object_large_close() it, without the mutex.
 */
bool object_large_leave(struct object *object, uint64_t fence, uint64_t most_idle_bytes);

/* Gives its memory back when `fence` is done, and its addresses. */
void object_large_close(struct object *object, uint64_t fence);

/* Closes what is idle for so many rounds of the worker, or 0: all. True when there was any. */
bool object_large_trim(struct object_device *d, unsigned rounds);

/* device's mutex: as object_find(), without dev. */
struct object_info;
bool object_large_find(const struct object *object, uint64_t addr, struct object_info *out_info);
