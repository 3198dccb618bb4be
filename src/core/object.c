#include "core/object.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/process.h"
#include "core/charge.h"
#include "core/object_evict.h"
#include "core/object_large.h"
#include "core/object_pin.h"
#include "core/object_small.h"
#include "core/object_use.h"
#include "shm/residency.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

/* The worker of another process looks ten times a second. */
#define OTHERS_WAIT_NS (150 * NSEC_PER_MSEC)
#define OTHERS_NAP_NS (2 * NSEC_PER_MSEC)
/* How long a request waits for work that may still use what was freed before it. */
#define FREED_WAIT_NS (10 * NSEC_PER_SEC)
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

/* Up to which fence all is done now. */
static uint64_t ask_done(struct object_device *d)
{
	uint64_t done = d->ops->done(d->owner);

	pthread_mutex_lock(&d->mutex);
	if (done > d->known_done)
		d->known_done = done;
	done = d->known_done;
	pthread_mutex_unlock(&d->mutex);
	return done;
}

/*
 * Releases what waits for a fence that is done, some at a time so that others need not wait long.
 */
static void poll_small(struct object_device *d, uint64_t done)
{
	bool is_more;

	do {
		pthread_mutex_lock(&d->mutex);
		is_more = object_small_poll(d, done);
		pthread_mutex_unlock(&d->mutex);
	} while (is_more);
}

static void wait_for_freed(struct object_device *d, int64_t until_ns)
{
	uint64_t fence;

	pthread_mutex_lock(&d->mutex);
	fence = d->last_fence;
	pthread_mutex_unlock(&d->mutex);
	if (fence)
		d->ops->bo->wait(d->owner, fence, until_ns);
}

static bool reclaim(struct object_device *d, int64_t wait_until_ns)
{
	bool is_any;

	if (wait_until_ns)
		wait_for_freed(d, wait_until_ns);
	poll_small(d, ask_done(d));
	is_any = object_small_shrink(d, 0);
	return backing_reap(&d->backing) || is_any;
}

bool object_reclaim(struct dev dev, int64_t wait_until_ns)
{
	struct object_device *d = object_device_of(dev);

	return d && reclaim(d, wait_until_ns);
}

/* True when another process of the tenant has objects on the device. */
static bool are_others(const struct object_device *d)
{
	const struct backing_bounds *b = &d->backing.bounds;

	return residency_sum(b->own, d->dev.v) >
	       __atomic_load_n(&b->own->residency[b->slot].card_bytes[d->dev.v], __ATOMIC_RELAXED);
}

/* True when host memory that others keep may be what is missing: they have been asked for it. */
static bool wants_host(const struct backing_bounds *b)
{
	return b->may_spill && residency_kept(b->own, b->slot) > 0;
}

/*
 * Has the tenant's other processes give back what they keep at hand, and waits a moment for that.
 */
static void ask_others(struct object_device *d, uint64_t bytes)
{
	const struct backing_bounds *b = &d->backing.bounds;
	int64_t until_ns = clock_now_ns() + OTHERS_WAIT_NS;

	bytes = bytes_round_up(bytes, SLAB_BLOCK_BYTES);
	if (!are_others(d) && !wants_host(b))
		return;
	__atomic_fetch_add(&b->own->room_wanted, 1, __ATOMIC_RELEASE);
	while ((quota_left(d->dev) < bytes || wants_host(b)) && clock_now_ns() < until_ns)
		clock_sleep_ns(OTHERS_NAP_NS);
}

/* Before a refusal of so many bytes, each step once. False when there is nothing left to try. */
static bool make_room(struct object_device *d, uint64_t bytes, int *step)
{
	switch ((*step)++) {
	case 0:
		reclaim(d, 0);
		return true;
	case 1:
		reclaim(d, clock_now_ns() + FREED_WAIT_NS);
		return true;
	case 2:
		charge_ask_card(d->dev);
		return true;
	case 3:
		ask_others(d, bytes);
		return true;
	default:
		return false;
	}
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

	poll_small(d, ask_done(d));
	for (;;) {
		pthread_mutex_lock(&d->mutex);
		rc = take_small(d, space, bytes, out_addr);
		pthread_mutex_unlock(&d->mutex);
		if (rc != -ENOSPC)
			return rc;
		rc = object_small_grow(d, space, bytes);
		if (rc < 0 && rc != -EAGAIN && !(is_full(rc) && make_room(d, bytes, &step)))
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
	while (is_full(rc) && make_room(d, bytes, &step));
	return rc;
}

static int alloc_large(struct object_device *d, const void *ctx, uint64_t bytes, uint64_t *out_addr)
{
	uint64_t whole_bytes = bytes_round_up(bytes, SLAB_BLOCK_BYTES);
	struct object_space *space;
	struct object *o;
	int rc;

	if (whole_bytes > d->end - d->start)
		return -ENOMEM;
	rc = open_large(d, whole_bytes, &o);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&d->mutex);
	space = object_small_space(d, ctx);
	if (space)
		object_large_enter(o, space, bytes, new_id());
	else
		d->ending_bytes += whole_bytes;
	pthread_mutex_unlock(&d->mutex);
	if (!space) {
		object_large_close(o, 0);
		return -ENOMEM;
	}
	*out_addr = o->node.start;
	return 0;
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

/* device's mutex: what begins at `addr` is not in use any more; *out_closing is to be closed. */
static int leave(struct object_device *d, uint64_t addr, uint64_t fence,
		 struct object **out_closing)
{
	struct object_info info;
	struct range_node *node;

	*out_closing = NULL;
	while (object_device_find(d, addr, &node, &info) && info.addr == addr && info.is_pinned)
		object_pin_end(d, node, &info);
	if (!node)
		return -EINVAL;
	if (node->color == OBJECT_REGION)
		return object_small_free((struct object_region *)node, addr, fence);
	if (!object_large_find((struct object *)node, addr, &info) || info.addr != addr)
		return -EINVAL;
	object_large_leave((struct object *)node);
	*out_closing = (struct object *)node;
	return 0;
}

int object_free(uint64_t addr)
{
	struct object_device *d = object_device_at(addr);
	struct object *closing;
	bool is_time = false;
	uint64_t fence;
	int rc;

	if (!d)
		return -ENOENT;
	fence = d->ops->fence(d->owner);
	pthread_mutex_lock(&d->mutex);
	rc = leave(d, addr, fence, &closing);
	if (rc == 0) {
		d->last_fence = fence > d->last_fence ? fence : d->last_fence;
		is_time = ++d->frees % FREES_PER_POLL == 0;
	}
	pthread_mutex_unlock(&d->mutex);
	if (closing) {
		object_large_close(closing, fence);
		backing_reap(&d->backing);
	}
	if (is_time) {
		poll_small(d, ask_done(d));
		object_small_shrink(d, SLAB_BUSY_BYTES);
		backing_reap(&d->backing);
	}
	return rc;
}

uint64_t object_idle_bytes(struct dev dev)
{
	struct object_device *d = object_device_of(dev);
	uint64_t bytes;

	if (!d)
		return 0;
	poll_small(d, ask_done(d));
	pthread_mutex_lock(&d->mutex);
	bytes = d->ending_bytes + object_small_idle_bytes(d);
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
	bool is_wanted = d->room_wanted != round->room_wanted;

	d->room_wanted = round->room_wanted;
	if (d->host_wanted != round->host_wanted)
		backing_trim(&d->backing);
	d->host_wanted = round->host_wanted;
	poll_small(d, ask_done(d));
	object_small_tick(d);
	if (is_wanted)
		object_small_shrink(d, 0);
	backing_reap(&d->backing);
	object_evict_tick(d);
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

void object_tick(bool (*is_asked)(void))
{
	struct balance_round round;
	bool has_far = false, has_begun = false;

	for (int i = 0; i < RATION_DEVICES; i++) {
		struct object_device *d = object_device_of((struct dev){ i });

		if (!d)
			continue;
		if (!has_begun)
			round = begin_round(d->backing.bounds.own, is_asked);
		has_begun = true;
		has_far |= tick(d, &round);
	}
	object_use_want(has_far);
}
