#include "core/object.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/process.h"
#include "core/charge.h"
#include "core/gate.h"
#include "core/object_large.h"
#include "core/object_small.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

/* How long a request waits for work that may still use what was freed before it. */
#define FREED_WAIT_NS (10 * NSEC_PER_SEC)
/* What slabs keep while pieces come and go: between two rounds of the worker, and after one. */
#define SLAB_BUSY_BYTES (UINT64_C(64) << 20)
#define SLAB_KEEP_BYTES (UINT64_C(16) << 20)
/* Frees between two looks at what waits for its fence. */
enum { FREES_PER_POLL = 256 };

struct object_state {
	pthread_mutex_t mutex; /* orders object_open(); zero is an unlocked one */
	/* NULL: not open; set once, with release */
	struct object_device *_Atomic devices[RATION_DEVICES];
	int error[RATION_DEVICES]; /* mutex: why it cannot be opened */
	_Atomic uint64_t last_id;
	_Atomic bool wants_uses;
};
PROCESS_STATE(object_state, state);

void object_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

static struct object_device *device_of(struct dev dev)
{
	return atomic_load_explicit(&state.s.devices[dev.v], memory_order_acquire);
}

static struct object_device *device_at(uint64_t addr)
{
	for (int i = 0; i < RATION_DEVICES; i++) {
		struct object_device *d = device_of((struct dev){ i });

		if (d && addr >= d->start && addr < d->end)
			return d;
	}
	return NULL;
}

bool object_is_ours(uint64_t addr)
{
	return device_at(addr) != NULL;
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
	atomic_store_explicit(&state.s.devices[dev.v], d, memory_order_release);
	return 0;
}

int object_open(struct dev dev, const struct object_ops *ops, void *owner, uint64_t bytes,
		const struct backing_bounds *bounds)
{
	int rc;

	if (device_of(dev))
		return 0;
	pthread_mutex_lock(&state.s.mutex);
	if (!device_of(dev) && !state.s.error[dev.v])
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

/* Releases what waits for a fence that is done, some at a time so that others need not wait long. */
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
	struct object_device *d = device_of(dev);

	return d && reclaim(d, wait_until_ns);
}

/* Before a refusal, each step once. False when there is nothing left to try. */
static bool make_room(struct object_device *d, int *step)
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
	default:
		return false;
	}
}

static bool is_full(int rc)
{
	return rc == -EDQUOT || rc == -ENOMEM;
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
		if (rc < 0 && rc != -EAGAIN && !(is_full(rc) && make_room(d, &step)))
			return rc;
	}
}

/* device's mutex: one user less. True when the space is the caller's to empty. */
static bool leave_space(struct object_space *space)
{
	return --space->users == 0 && space->is_emptied;
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
		is_last = leave_space(space);
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
	while (is_full(rc) && make_room(d, &step));
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
	struct object_device *d = device_of(dev);

	return slab_takes(bytes) ? alloc_small(d, ctx, bytes, out_addr) :
				   alloc_large(d, ctx, bytes, out_addr);
}

/* device's mutex. */
static bool find(struct object_device *d, uint64_t addr, struct range_node **out_node,
		 struct object_info *out_info)
{
	struct range_node *node = range_find(&d->addresses, addr);

	*out_node = node;
	out_info->dev = d->dev;
	if (!node)
		return false;
	return node->color == OBJECT_REGION ?
		       object_small_find((struct object_region *)node, addr, out_info) :
		       object_large_find((struct object *)node, addr, out_info);
}

bool object_find(uint64_t addr, struct object_info *out_info)
{
	struct object_device *d = device_at(addr);
	struct range_node *node;
	bool is_there;

	if (!d)
		return false;
	pthread_mutex_lock(&d->mutex);
	is_there = find(d, addr, &node, out_info);
	pthread_mutex_unlock(&d->mutex);
	return is_there;
}

static struct object_space *space_of(struct range_node *node)
{
	return node->color == OBJECT_REGION ? object_small_space_of((struct object_region *)node) :
					      ((struct object *)node)->space;
}

/* device's mutex. */
static void set_pinned(struct range_node *node, uint64_t addr, bool is_pinned)
{
	if (node->color == OBJECT_REGION)
		object_small_set_pinned((struct object_region *)node, addr, is_pinned);
	else
		((struct object *)node)->is_pinned = is_pinned;
}

/* The space has a user, so that what is behind a piece stays. */
static int pin_memory(struct range_node *node, const struct object_info *info)
{
	return node->color == OBJECT_REGION ?
		       object_small_pin((struct object_region *)node, info->addr, info->bytes) :
		       backing_pin(((struct object *)node)->backing, info->addr, info->bytes);
}

static void unpin_memory(struct range_node *node, const struct object_info *info)
{
	if (node->color == OBJECT_REGION)
		object_small_unpin((struct object_region *)node, info->addr, info->bytes);
	else
		backing_unpin(((struct object *)node)->backing, info->addr, info->bytes);
}

/*
 * device's mutex, which is let go meanwhile: the piece is pinned no longer, as whoever frees it wants
 * it. Who comes meanwhile finds it not pinned.
 */
static void unpin(struct object_device *d, struct range_node *node, const struct object_info *info)
{
	struct object_space *space = space_of(node);
	bool is_last;

	set_pinned(node, info->addr, false);
	space->users++;
	pthread_mutex_unlock(&d->mutex);
	unpin_memory(node, info);
	pthread_mutex_lock(&d->mutex);
	is_last = leave_space(space);
	if (!is_last)
		return;
	pthread_mutex_unlock(&d->mutex);
	object_small_empty(d, space);
	pthread_mutex_lock(&d->mutex);
}

/* device's mutex: the piece is in use, so that what is behind it stays. */
static void use(struct range_node *node, uint64_t addr, uint64_t bytes)
{
	if (node->color == OBJECT_REGION)
		object_small_use((struct object_region *)node, addr, bytes);
	else
		backing_use(((struct object *)node)->backing, addr, bytes);
}

bool object_use(uint64_t addr, uint64_t bytes)
{
	struct object_device *d = bytes ? device_at(addr) : NULL;
	struct object_info info;
	struct range_node *node;
	bool is_inside;

	if (!d)
		return true;
	pthread_mutex_lock(&d->mutex);
	is_inside = find(d, addr, &node, &info) && bytes <= info.addr + info.bytes - addr;
	if (is_inside)
		use(node, addr, bytes);
	pthread_mutex_unlock(&d->mutex);
	return is_inside;
}

void object_use_whole(uint64_t addr)
{
	struct object_device *d = device_at(addr);
	struct object_info info;
	struct range_node *node;

	if (!d)
		return;
	pthread_mutex_lock(&d->mutex);
	if (find(d, addr, &node, &info))
		use(node, info.addr, info.bytes);
	pthread_mutex_unlock(&d->mutex);
}

bool object_wants_uses(void)
{
	return atomic_load_explicit(&state.s.wants_uses, memory_order_relaxed);
}

int object_pin(uint64_t addr, uint64_t id)
{
	struct object_device *d = device_at(addr);
	struct object_info info = { 0 }, now;
	struct range_node *node;
	struct object_space *space;
	bool is_last;
	int rc = -ENOENT;

	if (!d)
		return -ENOENT;
	pthread_mutex_lock(&d->mutex);
	if (!find(d, addr, &node, &info) || info.id != id || info.is_pinned) {
		pthread_mutex_unlock(&d->mutex);
		return info.id == id && info.is_pinned ? 0 : -ENOENT;
	}
	space = space_of(node);
	space->users++;
	pthread_mutex_unlock(&d->mutex);
	rc = pin_memory(node, &info);
	pthread_mutex_lock(&d->mutex);
	if (rc == 0 && find(d, addr, &node, &now) && now.id == id && !now.is_pinned) {
		set_pinned(node, now.addr, true);
	} else if (rc == 0) {
		pthread_mutex_unlock(&d->mutex);
		unpin_memory(node, &info);
		pthread_mutex_lock(&d->mutex);
	}
	is_last = leave_space(space);
	pthread_mutex_unlock(&d->mutex);
	if (is_last)
		object_small_empty(d, space);
	return rc;
}

void object_set_sync(uint64_t addr, uint64_t id, bool is_sync)
{
	struct object_device *d = device_at(addr);
	struct object_info info;
	struct range_node *node;

	if (!d)
		return;
	pthread_mutex_lock(&d->mutex);
	if (find(d, addr, &node, &info) && info.id == id) {
		if (node->color == OBJECT_REGION)
			object_small_set_sync((struct object_region *)node, info.addr, is_sync);
		else
			((struct object *)node)->is_sync = is_sync;
	}
	pthread_mutex_unlock(&d->mutex);
}

/* device's mutex: what begins at `addr` is not in use any more; *out_closing is to be closed. */
static int leave(struct object_device *d, uint64_t addr, uint64_t fence,
		 struct object **out_closing)
{
	struct object_info info;
	struct range_node *node;

	*out_closing = NULL;
	while (find(d, addr, &node, &info) && info.addr == addr && info.is_pinned)
		unpin(d, node, &info);
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
	struct object_device *d = device_at(addr);
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

struct object_context *object_take_context(const void *ctx)
{
	struct object_space *space, *taken = NULL;

	for (int i = 0; i < RATION_DEVICES; i++) {
		struct object_device *d = device_of((struct dev){ i });

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
	struct object_list going = TAILQ_HEAD_INITIALIZER(going);
	struct object *o, *next;
	bool is_idle;

	pthread_mutex_lock(&d->mutex);
	space->is_emptied = true;
	TAILQ_CONCAT(&going, &space->objects, link);
	TAILQ_FOREACH(o, &going, link) {
		o->space = NULL;
		d->ending_bytes += o->node.bytes;
	}
	is_idle = space->users == 0;
	pthread_mutex_unlock(&d->mutex);
	for (o = TAILQ_FIRST(&going); o; o = next) {
		next = TAILQ_NEXT(o, link);
		if (o->is_pinned)
			backing_unpin(o->backing, o->node.start, o->asked_bytes);
		object_large_close(o, 0);
	}
	if (is_idle)
		object_small_empty(d, space);
}

void object_end_context(struct object_context *context)
{
	struct object_space *space = (struct object_space *)context, *also;

	for (; space; space = also) {
		also = space->also;
		end_space(space);
	}
}

void object_put_back_context(struct object_context *context)
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

uint64_t object_idle_bytes(struct dev dev)
{
	struct object_device *d = device_of(dev);
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
	struct object_device *d = device_of(dev);

	return d ? &d->backing.bo : NULL;
}

/* True when some of it lies in host memory. */
static bool tick(struct object_device *d)
{
	bool is_quiet;

	pthread_mutex_lock(&d->mutex);
	is_quiet = d->frees == d->ticked_frees;
	d->ticked_frees = d->frees;
	pthread_mutex_unlock(&d->mutex);
	poll_small(d, ask_done(d));
	object_small_shrink(d, is_quiet ? 0 : SLAB_KEEP_BYTES);
	backing_reap(&d->backing);
	return balance_tick(&d->balance, &d->backing);
}

void object_tick(void)
{
	bool has_far = false;

	for (int i = 0; i < RATION_DEVICES; i++) {
		struct object_device *d = device_of((struct dev){ i });

		if (d)
			has_far |= tick(d);
	}
	if (has_far == object_wants_uses())
		return;
	atomic_store(&state.s.wants_uses, has_far);
	gate_watch(GATE_USES, has_far);
}
