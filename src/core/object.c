#include "core/object.h"

#include "base/bytes.h"
#include "base/process.h"
#include "core/object_evict.h"
#include "core/object_idle.h"
#include "core/object_large.h"
#include "core/object_pin.h"
#include "core/object_small.h"
#include "core/object_use.h"
#include "core/quota.h"
#include "shm/residency.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

/* What slabs keep between two rounds of the worker. */
#define SLAB_BUSY_BYTES (UINT64_C(256) << 20)
/* Frees between two looks at what waits for its fence. */
enum { FREES_PER_POLL = 256 };

struct object_state {
	pthread_mutex_t mutex;     /* orders object_open(); zero is an unlocked one */
	int error[RATION_DEVICES]; /* mutex: why it cannot be opened */
	_Atomic uint64_t last_id;
};
PROCESS_STATE(object_state, state);

void object_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
	object_device_init();
	object_use_init();
}

bool object_is_ours(uint64_t addr)
{
	return object_device_at(addr) != NULL;
}

static int open_device(struct dev dev, const struct object_ops *ops, void *owner, uint64_t bytes,
		       const struct backing_bounds *bounds)
{
	struct object_device *d = calloc(1, sizeof(*d));
	int rc;

	if (!d)
		return -ENOMEM;
	rc = ops->reserve(owner, bytes, &d->start);
	if (rc < 0) {
		free(d);
		return rc;
	}
	d->dev = dev;
	d->ops = ops;
	d->owner = owner;
	d->end = d->start + bytes;
	pthread_mutex_init(&d->mutex, NULL);
	range_init(&d->addresses, d->start, bytes);
	LIST_INIT(&d->spaces);
	backing_init(&d->backing, dev, bounds, ops->bo, owner);
	object_idle_init(d);
	object_device_enter(d);
	return 0;
}

int object_open(struct dev dev, const struct object_ops *ops, void *owner, uint64_t bytes,
		const struct backing_bounds *bounds)
{
	int rc;

	if (object_device_of(dev))
		return 0;
	pthread_mutex_lock(&state.s.mutex);
	if (!object_device_of(dev) && !state.s.error[dev.v])
		state.s.error[dev.v] = open_device(dev, ops, owner, bytes, bounds);
	rc = state.s.error[dev.v];
	pthread_mutex_unlock(&state.s.mutex);
	return rc;
}

static uint64_t new_id(void)
{
	return atomic_fetch_add_explicit(&state.s.last_id, 1, memory_order_relaxed) + 1;
}

bool object_reclaim(struct dev dev, int64_t wait_until_ns)
{
	struct object_device *d = object_device_of(dev);

	return d && object_idle_reclaim(d, wait_until_ns);
}

/* Also where others did not go for it in time: they may do so the next time. */
static bool is_full(int rc)
{
	return rc == -EDQUOT || rc == -ENOMEM || rc == -EBUSY;
}

/* device's mutex. */
static int take_small(struct object_device *d, struct object_space *space, uint64_t bytes,
		      uint64_t *out_addr)
{
	return object_small_take(d, space, bytes, new_id(), out_addr);
}

/* There was no room in the space, which has a user. */
static int grow_and_take(struct object_device *d, struct object_space *space, uint64_t bytes,
			 uint64_t *out_addr)
{
	int rc, step = 0;

	object_idle_poll(d, object_idle_ask(d));
	for (;;) {
		pthread_mutex_lock(&d->mutex);
		rc = take_small(d, space, bytes, out_addr);
		pthread_mutex_unlock(&d->mutex);
		if (rc != -ENOSPC)
			return rc;
		rc = object_small_grow(d, space, bytes);
		if (rc < 0 && rc != -EAGAIN &&
		    !(is_full(rc) && object_idle_make_room(d, bytes, rc, &step)))
			return rc;
	}
}

static int alloc_small(struct object_device *d, const void *ctx, uint64_t bytes, uint64_t *out_addr)
{
	struct object_space *space;
	bool is_last = false;
	int rc = -ENOMEM;

	pthread_mutex_lock(&d->mutex);
	space = object_small_space(d, ctx);
	if (space)
		rc = take_small(d, space, bytes, out_addr);
	if (rc == -ENOSPC) {
		space->users++;
		pthread_mutex_unlock(&d->mutex);
		rc = grow_and_take(d, space, bytes, out_addr);
		pthread_mutex_lock(&d->mutex);
		is_last = object_device_leave(space);
	}
	pthread_mutex_unlock(&d->mutex);
	if (is_last)
		object_small_empty(d, space);
	return rc;
}

static int open_large(struct object_device *d, uint64_t bytes, struct object **out_object)
{
	int rc, step = 0;

	do
		rc = object_large_open(d, bytes, out_object);
	while (is_full(rc) && object_idle_make_room(d, bytes, rc, &step));
	return rc;
}

/* Puts what was opened into use. -ENOMEM: there is no memory for its context. */
static int enter_large(struct object_device *d, const void *ctx, uint64_t bytes, struct object *o)
{
	struct object_list going = TAILQ_HEAD_INITIALIZER(going);
	struct object_space *space;

	pthread_mutex_lock(&d->mutex);
	space = object_small_space(d, ctx);
	if (space) {
		object_large_enter(o, space, bytes, new_id());
	} else {
		object_device_ending(d, o->node.bytes);
		o->fence = 0;
		TAILQ_INSERT_TAIL(&going, o, link);
	}
	pthread_mutex_unlock(&d->mutex);
	return object_large_close_all(&going) ? -ENOMEM : 0;
}

/* What was freed and kept whole; false when there is none whose work is known to be done. */
static bool take_spare(struct object_device *d, const void *ctx, uint64_t bytes, uint64_t *out_addr,
		       bool *out_is_waiting)
{
	struct object_space *space;
	struct object *o = NULL;

	*out_is_waiting = false;
	pthread_mutex_lock(&d->mutex);
	space = d->spares.bytes ? object_small_space(d, ctx) : NULL;
	if (space)
		o = object_spare_take(d, ctx, bytes_round_up(bytes, SLAB_BLOCK_BYTES),
				      out_is_waiting);
	if (o) {
		object_large_enter(o, space, bytes, new_id());
		*out_addr = o->node.start;
	}
	pthread_mutex_unlock(&d->mutex);
	return o != NULL;
}

static bool alloc_spare(struct object_device *d, const void *ctx, uint64_t bytes,
			uint64_t *out_addr)
{
	bool is_waiting;

	if (take_spare(d, ctx, bytes, out_addr, &is_waiting))
		return true;
	if (!is_waiting)
		return false;
	object_idle_ask(d);
	return take_spare(d, ctx, bytes, out_addr, &is_waiting);
}

static int alloc_large(struct object_device *d, const void *ctx, uint64_t bytes, uint64_t *out_addr)
{
	struct object *o;
	int rc;

	if (bytes > d->end - d->start)
		return -ENOMEM;
	if (alloc_spare(d, ctx, bytes, out_addr))
		return 0;
	rc = open_large(d, bytes_round_up(bytes, SLAB_BLOCK_BYTES), &o);
	if (rc == 0)
		rc = enter_large(d, ctx, bytes, o);
	if (rc == 0)
		*out_addr = o->node.start;
	return rc;
}

int object_alloc(struct dev dev, const void *ctx, uint64_t bytes, uint64_t *out_addr)
{
	struct object_device *d = object_device_of(dev);
	int rc = slab_takes(bytes) ? alloc_small(d, ctx, bytes, out_addr) :
				     alloc_large(d, ctx, bytes, out_addr);

	return rc == -EBUSY ? -ENOMEM : rc;
}

bool object_find(uint64_t addr, struct object_info *out_info)
{
	struct object_device *d = object_device_at(addr);
	struct range_node *node;
	bool is_there;

	if (!d)
		return false;
	pthread_mutex_lock(&d->mutex);
	is_there = object_device_find(d, addr, &node, out_info);
	pthread_mutex_unlock(&d->mutex);
	return is_there;
}

/* device's mutex: what begins at `addr` is not in use any more; what is in *going is to close. */
static int leave(struct object_device *d, uint64_t addr, uint64_t fence, struct object_list *going)
{
	struct range_node *node = range_find(&d->addresses, addr);
	struct object_info info;

	/* The slab says whether it is one; most are not pinned, and need no look before. */
	if (node && node->color == OBJECT_REGION &&
	    !object_small_is_pinned((struct object_region *)node, addr))
		return object_small_free((struct object_region *)node, addr, fence);
	while (object_device_find(d, addr, &node, &info) && info.addr == addr && info.is_pinned)
		object_pin_end(d, node, &info);
	if (!node)
		return -EINVAL;
	if (node->color == OBJECT_REGION)
		return object_small_free((struct object_region *)node, addr, fence);
	if (!object_large_find((struct object *)node, addr, &info) || info.addr != addr)
		return -EINVAL;
	object_large_leave((struct object *)node);
	object_spare_give(d, (struct object *)node, fence, going);
	return 0;
}

int object_free(uint64_t addr)
{
	struct object_device *d = object_device_at(addr);
	struct object_list going = TAILQ_HEAD_INITIALIZER(going);
	bool is_time = false;
	uint64_t fence;
	int rc;

	if (!d)
		return -ENOENT;
	fence = d->ops->fence(d->owner);
	pthread_mutex_lock(&d->mutex);
	rc = leave(d, addr, fence, &going);
	if (rc == 0) {
		d->last_fence = fence > d->last_fence ? fence : d->last_fence;
		is_time = ++d->frees % FREES_PER_POLL == 0;
	}
	pthread_mutex_unlock(&d->mutex);
	if (object_large_close_all(&going))
		backing_reap(&d->backing);
	if (is_time) {
		object_idle_poll(d, object_idle_ask(d));
		object_small_shrink(d, SLAB_BUSY_BYTES);
		backing_reap(&d->backing);
	}
	return rc;
}

void object_keep(bool may_keep)
{
	for (int i = 0; i < RATION_DEVICES; i++) {
		struct object_device *d = object_device_of((struct dev){ i });

		if (d)
			object_idle_set_off(d, SPARE_OFF_HELD, !may_keep);
	}
}

uint64_t object_idle_bytes(struct dev dev)
{
	struct object_device *d = object_device_of(dev);
	uint64_t bytes;

	if (!d)
		return 0;
	object_idle_poll(d, object_idle_ask(d));
	pthread_mutex_lock(&d->mutex);
	bytes = d->ending_bytes + d->spares.bytes + object_small_idle_bytes(d);
	pthread_mutex_unlock(&d->mutex);
	return bytes;
}

struct bo_device *object_bos(struct dev dev)
{
	struct object_device *d = object_device_of(dev);

	return d ? &d->backing.bo : NULL;
}

/* True when some of it lies in host memory. */
static bool tick(struct object_device *d, const struct balance_round *round)
{
	object_evict_tick(d);
	object_idle_tick(d, round);
	return balance_tick(&d->balance, &d->backing, round);
}

/* What is asked for after this is for the next round. */
static struct balance_round begin_round(const struct ration_region *own, bool (*is_asked)(void))
{
	return (struct balance_round){
		.room_wanted = __atomic_load_n(&own->room_wanted, __ATOMIC_ACQUIRE),
		.host_wanted = __atomic_load_n(&own->host_wanted, __ATOMIC_ACQUIRE),
		.is_asked = is_asked,
	};
}

/* Without a region nobody can ask for what is kept, and nothing moves. */
static void tick_alone(void)
{
	for (int i = 0; i < RATION_DEVICES; i++) {
		struct object_device *d = object_device_of((struct dev){ i });

		if (d)
			object_idle_reclaim(d, 0);
	}
	object_use_want(false);
}

void object_tick(bool (*is_asked)(void))
{
	struct ration_region *own = NULL;
	struct balance_round round;
	bool has_far = false, has_begun = false;
	unsigned slot = 0;

	if (!quota_has_region_now()) {
		tick_alone();
		return;
	}
	for (int i = 0; i < RATION_DEVICES; i++) {
		struct object_device *d = object_device_of((struct dev){ i });

		if (!d)
			continue;
		if (!has_begun)
			round = begin_round(d->backing.bounds.own, is_asked);
		has_begun = true;
		has_far |= tick(d, &round);
		own = d->backing.bounds.own;
		slot = d->backing.bounds.slot;
	}
	/* All devices have given. */
	if (own && quota_has_region_now())
		residency_answer(own, slot, round.room_wanted);
	object_use_want(has_far);
}
