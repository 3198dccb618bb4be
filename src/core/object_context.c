#include "core/object_context.h"

#include "core/lent.h"
#include "core/object.h"
#include "core/object_large.h"
#include "core/object_small.h"

struct object_context *object_context_take(const void *ctx)
{
	struct object_space *space, *taken = NULL;

	for (int i = 0; i < RATION_DEVICES; i++) {
		struct object_device *d = object_device_of((struct dev){ i });

		if (!d)
			continue;
		pthread_mutex_lock(&d->mutex);
		LIST_FOREACH(space, &d->spaces, link) {
			if (space->ctx != ctx || space->is_ended)
				continue;
			space->is_ended = true;
			space->also = taken;
			taken = space;
		}
		pthread_mutex_unlock(&d->mutex);
	}
	return (struct object_context *)taken;
}

static void end_space(struct object_space *space)
{
	struct object_device *d = space->device;
	struct object_list going = TAILQ_HEAD_INITIALIZER(going),
			   spares = TAILQ_HEAD_INITIALIZER(spares);
	struct object *o;
	bool is_idle;

	pthread_mutex_lock(&d->mutex);
	space->is_emptied = true;
	TAILQ_CONCAT(&going, &space->objects, link);
	TAILQ_FOREACH(o, &going, link) {
		o->space = NULL;
		o->fence = 0;
		object_device_ending(d, o->node.bytes);
	}
	/* What becomes of mappings with the context that they were made in is not relied on. */
	object_spare_drop(d, INT64_MAX, &spares);
	is_idle = space->users == 0;
	pthread_mutex_unlock(&d->mutex);
	TAILQ_FOREACH(o, &going, link)
		if (o->is_pinned)
			backing_unpin(o->backing, o->node.start, o->asked_bytes);
	object_large_close_all(&going);
	object_large_close_all(&spares);
	if (is_idle)
		object_small_empty(d, space);
}

/* Of addresses of ours: nothing begins there any more. */
static bool is_over(uint64_t addr)
{
	struct object_info info;

	return object_is_ours(addr) && !(object_find(addr, &info) && info.addr == addr);
}

void object_context_end(struct object_context *context)
{
	struct object_space *space = (struct object_space *)context, *also;

	for (; space; space = also) {
		also = space->also;
		end_space(space);
	}
	lent_end_those(is_over);
}

void object_context_put_back(struct object_context *context)
{
	struct object_space *space = (struct object_space *)context, *also;

	for (; space; space = also) {
		struct object_device *d = space->device;

		also = space->also;
		pthread_mutex_lock(&d->mutex);
		space->is_ended = false;
		space->also = NULL;
		pthread_mutex_unlock(&d->mutex);
	}
}
