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
	struct object_space *space; /* of its context; NULL: it was freed */
	const void *ctx;            /* that context; of a spare, the one it was had in */
	uint64_t asked_bytes, id;
	bool is_pinned, is_sync;
	bool was_shared;          /* others had its addresses, or may have */
	TAILQ_ENTRY(object) link; /* in its space; of a spare, in all */
	/* of a spare, and of what is going: what it waits for */
	uint64_t fence;
	int64_t freed_ns; /* clock_now_ns() */
	TAILQ_ENTRY(object) of_size;
};

/* A new object, in no list. 0, -EDQUOT, -ENOMEM. */
int object_large_open(struct object_device *d, uint64_t bytes, struct object **out_object);

/* device's mutex: it is in use by a context now. */
void object_large_enter(struct object *object, struct object_space *space, uint64_t asked_bytes,
			uint64_t id);

/*
 * device's mutex: it is freed, and in no list; the caller hands it to core/object_spare.h or closes
 * it.
 */
void object_large_leave(struct object *object);

/*
 * Gives their memory back when the fence of each is done, and their addresses; without the mutex,
 * under which they were counted in ending_bytes. True when there were some.
 */
bool object_large_close_all(struct object_list *going);

/* device's mutex: as object_find(), without dev. */
struct object_info;
bool object_large_find(const struct object *object, uint64_t addr, struct object_info *out_info);
