#include "core/object_spare.h"

#include "base/clock.h"
#include "core/object_large.h"
#include "core/quota.h"
#include "core/rdma.h"
#include "shm/residency.h"

static struct object_list *list_of(struct object_spares *s, uint64_t bytes)
{
	uint64_t blocks = bytes / SLAB_BLOCK_BYTES;

	return &s->sizes[(blocks ^ blocks / OBJECT_SPARE_SIZES) % OBJECT_SPARE_SIZES];
}

/* The views see what is kept. */
static void change(struct object_device *d, int64_t bytes)
{
	const struct backing_bounds *b = &d->backing.bounds;

	/* Atomic for who only looks whether there are any. */
	__atomic_store_n(&d->spares.bytes, d->spares.bytes + (uint64_t)bytes, __ATOMIC_RELAXED);
	if (quota_has_region_now())
		residency_set_idle(b->own, b->slot, d->dev.v, d->spares.bytes / SLAB_BLOCK_BYTES);
}

void object_spare_init(struct object_device *d)
{
	TAILQ_INIT(&d->spares.all);
	for (int i = 0; i < OBJECT_SPARE_SIZES; i++)
		TAILQ_INIT(&d->spares.sizes[i]);
}

static void take_out(struct object_device *d, struct object *o)
{
	TAILQ_REMOVE(&d->spares.all, o, link);
	TAILQ_REMOVE(list_of(&d->spares, o->node.bytes), o, of_size);
	change(d, -(int64_t)o->node.bytes);
}

static void let_go(struct object_device *d, struct object *o, struct object_list *going)
{
	take_out(d, o);
	object_device_ending(d, o->node.bytes);
	TAILQ_INSERT_TAIL(going, o, link);
}

/* Those that were freed first, until no more than so many bytes are kept. */
static void trim(struct object_device *d, uint64_t keep_bytes, struct object_list *going)
{
	while (d->spares.bytes > keep_bytes)
		let_go(d, TAILQ_FIRST(&d->spares.all), going);
}

void object_spare_give(struct object_device *d, struct object *object, uint64_t fence,
		       struct object_list *going)
{
	struct object_spares *s = &d->spares;
	uint64_t bytes = object->node.bytes;

	object->fence = fence;
	if (s->off || bytes > s->bound_bytes || object->was_shared || rdma_is_there()) {
		object_device_ending(d, bytes);
		TAILQ_INSERT_TAIL(going, object, link);
		return;
	}
	trim(d, s->bound_bytes - bytes, going);
	object->freed_ns = clock_now_ns();
	TAILQ_INSERT_TAIL(&s->all, object, link);
	TAILQ_INSERT_TAIL(list_of(s, bytes), object, of_size);
	change(d, (int64_t)bytes);
}

struct object *object_spare_take(struct object_device *d, const void *ctx, uint64_t bytes,
				 bool *out_is_waiting)
{
	struct object *o;

	*out_is_waiting = false;
	TAILQ_FOREACH_REVERSE(o, list_of(&d->spares, bytes), object_list, of_size)
	{
		if (o->node.bytes != bytes || o->ctx != ctx)
			continue;
		if (o->fence > d->known_done) {
			*out_is_waiting = true;
			continue;
		}
		/* One that was moved off the card meanwhile is no better than fresh memory. */
		if (!backing_renew(o->backing))
			continue;
		take_out(d, o);
		return o;
	}
	return NULL;
}

void object_spare_drop(struct object_device *d, int64_t before_ns, struct object_list *going)
{
	struct object *o;

	while ((o = TAILQ_FIRST(&d->spares.all)) && o->freed_ns < before_ns)
		let_go(d, o, going);
}

void object_spare_set_bound(struct object_device *d, uint64_t bound_bytes,
			    struct object_list *going)
{
	d->spares.bound_bytes = bound_bytes;
	trim(d, bound_bytes, going);
}

void object_spare_set_off(struct object_device *d, enum object_spare_off why, bool is_off,
			  struct object_list *going)
{
	d->spares.off = is_off ? d->spares.off | why : d->spares.off & ~(unsigned)why;
	if (d->spares.off)
		trim(d, 0, going);
}
