#include "core/object_large.h"

#include "core/object.h"

#include <errno.h>
#include <stdlib.h>

/* What is larger costs little to make beside what it is used for, and much to keep. */
#define IDLE_MOST_BYTES (UINT64_C(64) << 20)

struct object *object_large_reuse(struct object_device *d, uint64_t bytes, uint64_t done,
				  bool *out_is_waiting)
{
	struct object *o;

	*out_is_waiting = false;
	TAILQ_FOREACH(o, &d->idle, link) {
		if (o->node.bytes != bytes)
			continue;
		if (o->fence > done) {
			*out_is_waiting = true;
			continue;
		}
		TAILQ_REMOVE(&d->idle, o, link);
		d->idle_bytes -= bytes;
		return o;
	}
	return NULL;
}

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
	o->device->ending_bytes -= backing->bytes;
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
	object->asked_bytes = asked_bytes;
	object->id = id;
	object->is_sync = false;
	TAILQ_INSERT_TAIL(&space->objects, object, link);
}

bool object_large_leave(struct object *object, uint64_t fence, uint64_t most_idle_bytes)
{
	struct object_device *d = object->device;
	uint64_t bytes = object->node.bytes;

	TAILQ_REMOVE(&object->space->objects, object, link);
	object->space = NULL;
	if (bytes > IDLE_MOST_BYTES || d->idle_bytes + bytes > most_idle_bytes) {
		d->ending_bytes += bytes;
		return false;
	}
	object->fence = fence;
	object->rounds = 0;
	TAILQ_INSERT_TAIL(&d->idle, object, link);
	d->idle_bytes += bytes;
	return true;
}

void object_large_close(struct object *object, uint64_t fence)
{
	backing_close(object->backing, fence);
}

bool object_large_trim(struct object_device *d, unsigned rounds)
{
	struct object_list going = TAILQ_HEAD_INITIALIZER(going);
	struct object *o, *next;
	bool is_any;

	pthread_mutex_lock(&d->mutex);
	for (o = TAILQ_FIRST(&d->idle); o; o = next) {
		next = TAILQ_NEXT(o, link);
		if (o->rounds++ < rounds)
			continue;
		TAILQ_REMOVE(&d->idle, o, link);
		d->idle_bytes -= o->node.bytes;
		d->ending_bytes += o->node.bytes;
		TAILQ_INSERT_TAIL(&going, o, link);
	}
	pthread_mutex_unlock(&d->mutex);
	is_any = !TAILQ_EMPTY(&going);
	for (o = TAILQ_FIRST(&going); o; o = next) {
		next = TAILQ_NEXT(o, link);
		object_large_close(o, o->fence);
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
