#include "core/object_use.h"

#include "base/bytes.h"
#include "base/process.h"
#include "core/gate.h"
#include "core/object.h"
#include "core/object_large.h"
#include "core/object_small.h"

#include <stdatomic.h>

struct object_use_state {
	_Atomic bool is_wanted; /* atomic */
};
PROCESS_STATE(object_use_state, state);

void object_use_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

bool object_use_is_wanted(void)
{
	return atomic_load_explicit(&state.s.is_wanted, memory_order_relaxed);
}

void object_use_want(bool is_wanted)
{
	if (is_wanted == object_use_is_wanted())
		return;
	atomic_store(&state.s.is_wanted, is_wanted);
	gate_watch(GATE_USES, is_wanted);
}

/* device's mutex: the piece is in use, so that what is behind it stays. */
static void use(struct range_node *node, uint64_t addr, uint64_t bytes, struct backing_uses *uses)
{
	if (node->color == OBJECT_REGION)
		object_small_use((struct object_region *)node, addr, bytes, uses);
	else
		backing_use(((struct object *)node)->backing, addr, bytes, uses);
}

bool object_use(uint64_t addr, uint64_t bytes)
{
	struct object_device *d = bytes ? object_device_at(addr) : NULL;
	struct backing_uses once = { .weight = HEAT_USE };
	struct object_info info;
	struct range_node *node;
	bool is_inside;

	if (!d)
		return true;
	pthread_mutex_lock(&d->mutex);
	is_inside = object_device_find(d, addr, &node, &info) &&
		    bytes <= info.addr + info.bytes - addr;
	if (is_inside)
		use(node, addr, bytes, &once);
	pthread_mutex_unlock(&d->mutex);
	return is_inside;
}

void object_use_whole(uint64_t addr, struct backing_uses *uses)
{
	struct object_device *d = object_device_at(addr);
	struct object_info info;
	struct range_node *node;

	if (!d)
		return;
	pthread_mutex_lock(&d->mutex);
	if (object_device_find(d, addr, &node, &info))
		use(node, info.addr, info.bytes, uses);
	pthread_mutex_unlock(&d->mutex);
}

void object_use_part(uint64_t addr, uint64_t bytes, struct backing_uses *uses)
{
	struct object_device *d = bytes ? object_device_at(addr) : NULL;
	struct object_info info;
	struct range_node *node;

	if (!d)
		return;
	pthread_mutex_lock(&d->mutex);
	if (object_device_find(d, addr, &node, &info))
		use(node, addr, bytes_least(bytes, info.addr + info.bytes - addr), uses);
	pthread_mutex_unlock(&d->mutex);
}
