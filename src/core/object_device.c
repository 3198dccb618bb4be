#include "core/object_device.h"

#include "base/process.h"
#include "core/object.h"
#include "core/object_large.h"
#include "core/object_small.h"

#include <stdatomic.h>

struct object_device_state {
	/* NULL: not open; set once, with release */
	struct object_device *_Atomic devices[RATION_DEVICES];
};
PROCESS_STATE(object_device_state, state);

void object_device_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

void object_device_enter(struct object_device *d)
{
	atomic_store_explicit(&state.s.devices[d->dev.v], d, memory_order_release);
}

struct object_device *object_device_of(struct dev dev)
{
	return atomic_load_explicit(&state.s.devices[dev.v], memory_order_acquire);
}

struct object_device *object_device_at(uint64_t addr)
{
	for (int i = 0; i < RATION_DEVICES; i++) {
		struct object_device *d = object_device_of((struct dev){ i });

		if (d && addr >= d->start && addr < d->end)
			return d;
	}
	return NULL;
}

bool object_device_find(struct object_device *d, uint64_t addr, struct range_node **out_node,
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

void object_device_ending(struct object_device *d, uint64_t bytes)
{
	d->ending_bytes += bytes;
	backing_closes(&d->backing, bytes);
}

void object_device_ended(struct object_device *d, uint64_t bytes)
{
	d->ending_bytes -= bytes;
}

bool object_device_leave(struct object_space *space)
{
	return --space->users == 0 && space->is_emptied;
}
