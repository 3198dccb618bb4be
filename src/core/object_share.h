/* An object's memory in the hands of who gives it to another process. */
#pragma once

#include "core/bo.h"

struct object_share {
	uint64_t offset_bytes; /* of the object in the first of `bos` */
	uint64_t bytes;        /* of the object, as asked for */
	unsigned count;
	struct bo *bos[]; /* side by side, all of what it lies in; they stay as they are */
};

/*
 * What is behind the object with this number at `addr`, which was pinned by object_pin(). 0 with
 * *out_share, for object_share_end(); -ENOENT when it was freed or is not pinned; -EBUSY, -ENOMEM.
 */
int object_share_begin(uint64_t addr, uint64_t id, struct object_share **out_share);

/* What was freed meanwhile goes. Calls the driver, so the caller holds no lock. */
void object_share_end(struct object_share *share);

/* As the process ends, when the driver must not be called: what it had stays as it is. */
void object_share_forget(struct object_share *share);
