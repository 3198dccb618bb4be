#include "core/object_pin.h"

#include "base/clock.h"
#include "base/sys.h"
#include "core/gate.h"
#include "core/object_large.h"
#include "core/object_small.h"

#include <errno.h>

/* What has to come to the device waits so long for the moment in which it can. */
#define MOMENT_NS (10 * NSEC_PER_SEC)
#define NAP_NS NSEC_PER_MSEC
/* Threads that are in each other's way do not come back at once: each naps up to so much longer. */
enum { NAP_SPREAD = 4 };
/* How often it is asked again while there is no room, but others are at it; and after they were. */
enum { FULL_TRIES = 16, ALONE_TRIES = 4 };

/* What is left of them. */
struct tries {
	unsigned full, alone;
	bool had_others;
};

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
	else {
		struct object *o = (struct object *)node;

		o->is_pinned = is_pinned;
		o->was_shared |= is_pinned;
	}
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

void object_pin_end(struct object_device *d, struct range_node *node,
		    const struct object_info *info)
{
	struct object_space *space = space_of(node);
	bool is_last;

	set_pinned(node, info->addr, false);
	space->users++;
	pthread_mutex_unlock(&d->mutex);
	unpin_memory(node, info);
	pthread_mutex_lock(&d->mutex);
	is_last = object_device_leave(space);
	if (!is_last)
		return;
	pthread_mutex_unlock(&d->mutex);
	object_small_empty(d, space);
	pthread_mutex_lock(&d->mutex);
}

static int pin_once(struct object_device *d, uint64_t addr, uint64_t id)
{
	struct object_info info = { 0 }, now;
	struct range_node *node;
	struct object_space *space;
	bool is_last;
	int rc;

	pthread_mutex_lock(&d->mutex);
	if (!object_device_find(d, addr, &node, &info) || info.id != id || info.is_pinned) {
		pthread_mutex_unlock(&d->mutex);
		return info.id == id && info.is_pinned ? 0 : -ENOENT;
	}
	space = space_of(node);
	space->users++;
	pthread_mutex_unlock(&d->mutex);
	rc = pin_memory(node, &info);
	pthread_mutex_lock(&d->mutex);
	if (rc == 0 && object_device_find(d, addr, &node, &now) && now.id == id && !now.is_pinned) {
		set_pinned(node, now.addr, true);
	} else if (rc == 0) {
		pthread_mutex_unlock(&d->mutex);
		unpin_memory(node, &info);
		pthread_mutex_lock(&d->mutex);
	}
	is_last = object_device_leave(space);
	pthread_mutex_unlock(&d->mutex);
	if (is_last)
		object_small_empty(d, space);
	return rc;
}

/*
 * One attempt. Where there was no room while others were at it, they may have had things pinned
 * that they give back, since they do not get all that they want either: -EBUSY, so often.
 */
static int try_once(struct object_device *d, uint64_t addr, uint64_t id, struct tries *tries)
{
	bool has_others = atomic_fetch_add(&d->pinning, 1) > 0;
	int rc = pin_once(d, addr, id);

	has_others |= atomic_fetch_sub(&d->pinning, 1) > 1;
	tries->had_others |= has_others;
	if (rc != -ENOMEM || !tries->had_others)
		return rc;
	return (has_others ? tries->full-- : tries->alone--) > 0 ? -EBUSY : rc;
}

/* Who is suspended has its memory elsewhere, for however long; so long it took. */
static int64_t pass_gate(void)
{
	int64_t start_ns = clock_now_ns();

	gate_leave(gate_enter());
	return clock_now_ns() - start_ns;
}

int object_pin(uint64_t addr, uint64_t id)
{
	struct object_device *d = object_device_at(addr);
	int64_t until_ns = clock_now_ns() + MOMENT_NS;
	struct tries tries = { .full = FULL_TRIES, .alone = ALONE_TRIES };
	int rc, held;

	if (!d)
		return -ENOENT;
	held = sys_cancel_hold();
	for (;;) {
		until_ns += pass_gate();
		rc = try_once(d, addr, id, &tries);
		if ((rc != -EBUSY && rc != -EAGAIN) || clock_now_ns() >= until_ns)
			break;
		clock_sleep_ns(NAP_NS * (1 + (int64_t)sys_gettid() % NAP_SPREAD));
	}
	sys_cancel_release(held);
	return rc;
}

void object_pin_set_sync(uint64_t addr, uint64_t id, bool is_sync)
{
	struct object_device *d = object_device_at(addr);
	struct object_info info;
	struct range_node *node;

	if (!d)
		return;
	pthread_mutex_lock(&d->mutex);
	if (object_device_find(d, addr, &node, &info) && info.id == id) {
		if (node->color == OBJECT_REGION)
			object_small_set_sync((struct object_region *)node, info.addr, is_sync);
		else
			((struct object *)node)->is_sync = is_sync;
	}
	pthread_mutex_unlock(&d->mutex);
}
