#include "core/device.h"

#include "base/process.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { ORDINALS = 128 };

struct device_state {
	/* Written while the process attaches, constant after. */
	int count;
	int dev_of[ORDINALS];
};
PROCESS_STATE(device_state, state);

void device_enter(struct region *region, const struct device_info *devices, int count)
{
	for (int i = 0; i < count; i++)
		region_add_device(region, devices[i].uuid, devices[i].physical_bytes);
}

int device_bind(struct region *region, const struct device_info *devices, int count)
{
	process_wipe_on_fork(&state, sizeof(state));
	if (count > ORDINALS)
		return -ENOSPC;
	for (int o = 0; o < count; o++) {
		int d = region_add_device(region, devices[o].uuid, devices[o].physical_bytes);

		if (d < 0)
			return d;
		state.s.dev_of[o] = d;
	}
	state.s.count = count;
	return 0;
}

bool device_by_ordinal(struct cuda_ord ord, struct dev *out_dev)
{
	if (ord.v < 0 || ord.v >= state.s.count)
		return false;
	out_dev->v = state.s.dev_of[ord.v];
	return true;
}

bool device_ordinal(struct dev dev, struct cuda_ord *out_ord)
{
	for (int o = 0; o < state.s.count; o++) {
		if (state.s.dev_of[o] != dev.v)
			continue;
		out_ord->v = o;
		return true;
	}
	return false;
}

int device_ordinals(void)
{
	return state.s.count;
}

int device_check_spec(const struct region *region, struct limits_error *out_error)
{
	const struct ration_region *own = region->own;
	const char *at = own->mem_spec;
	struct limits_item item;
	int rc, n = region_device_count(own);

	while ((rc = limits_next(&at, LIMITS_ZERO_IS_NONE, &item, out_error)) > 0) {
		char one[80];
		bool found = !item.who[0];

		snprintf(one, sizeof(one), "%s:1", item.who);
		for (int d = 0; d < n && !found; d++)
			found = limits_mentions(one, d, own->devices[d].uuid);
		if (found)
			continue;
		snprintf(out_error->text, sizeof(out_error->text),
			 "%s names no device here; there are %d, from 0 (%s)", item.who, n,
			 n ? own->devices[0].uuid : "none");
		return -ENODEV;
	}
	return rc < 0 ? rc : 0;
}
