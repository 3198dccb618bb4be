#include "core/object_large.h"

#include "core/object.h"

#include <errno.h>
#include <stdlib.h>

/* Its memory is given back, or never was there. */
static void end(struct object *o)
{
	struct object_device *d = o->device;

	pthread_mutex_lock(&d->mutex);
	range_remove(&o->node);
	pthread_mutex_unlock(&d->mutex);
	free(o);
}

static void backing_ended(struct backing *backing, void *arg)
{
	struct object *o = arg;

	pthread_mutex_lock(&o->device->mutex);
	object_device_ended(o->device, backing->bytes);
	pthread_mutex_unlock(&o->device->mutex);
	end(o);
}

int object_large_open(struct object_device *d, uint64_t bytes, struct object **out_object)
{
	const struct range_want want = { .bytes = bytes,
					 .align_bytes = SLAB_BLOCK_BYTES,
					 .color = OBJECT_LARGE,
					 .mode = RANGE_HIGH };
	struct object *o = calloc(1, sizeof(*o));
	int rc;

	if (!o)
		return -ENOMEM;
	o->device = d;
	pthread_mutex_lock(&d->mutex);
	rc = range_insert(&d->addresses, &o->node, &want);
	pthread_mutex_unlock(&d->mutex);
	if (rc < 0) {
		free(o);
		return -ENOMEM;
	}
	rc = backing_open(&d->backing, o->node.start, bytes, backing_ended, o, &o->backing);
	if (rc < 0)
		end(o);
	else
		*out_object = o;
	return rc;
}

void object_large_enter(struct object *object, struct object_space *space, uint64_t asked_bytes,
			uint64_t id)
{
	object->space = space;
	object->ctx = space->ctx;
	object->asked_bytes = asked_bytes;
	object->id = id;
	object->is_sync = false;
	object->was_shared = false;
	TAILQ_INSERT_TAIL(&space->objects, object, link);
}

void object_large_leave(struct object *object)
{
	TAILQ_REMOVE(&object->space->objects, object, link);
	object->space = NULL;
}

bool object_large_close_all(struct object_list *going)
{
	bool is_any = !TAILQ_EMPTY(going);
	struct object *o, *next;

	for (o = TAILQ_FIRST(going); o; o = next) {
		next = TAILQ_NEXT(o, link);
		backing_close(o->backing, o->fence);
	}
	return is_any;
}

bool object_large_find(const struct object *object, uint64_t addr, struct object_info *out_info)
{
	if (!object->space || object->space->is_emptied ||
	    addr - object->node.start >= object->asked_bytes)
		return false;
	out_info->ctx = object->space->ctx;
	out_info->addr = object->node.start;
	out_info->bytes = object->asked_bytes;
	out_info->id = object->id;
	out_info->is_pinned = object->is_pinned;
	out_info->is_sync = object->is_sync;
	return true;
}
