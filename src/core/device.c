#include "core/device.h"

#include "base/process.h"
#include "shm/spec.h"

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

static bool is_among(const char *uuid, const struct device_info *devices, int count)
{
	for (int i = 0; i < count; i++)
		if (!strcmp(devices[i].uuid, uuid))
			return true;
	return false;
}

void device_enter(struct region *region, const struct device_info *listed, int listed_count,
		  const struct device_info *own, int own_count)
{
	int missing = 0;

	for (int i = 0; i < own_count; i++)
		missing += region_find_device(region->own, own[i].uuid) < 0;
	for (int i = 0; i < listed_count; i++) {
		bool is_own = is_among(listed[i].uuid, own, own_count);
		bool is_known = region_find_device(region->own, listed[i].uuid) >= 0;

		if (is_known ||
		    (!is_own && region_device_count(region->own) + missing >= RATION_DEVICES))
			continue;
		missing -= is_own;
		region_add_device(region, listed[i].uuid, listed[i].physical_bytes);
	}
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

int device_check_spec(const struct region *region, enum limits_kind kind,
		      struct limits_error *out_error)
{
	const struct ration_region *own = region->own;
	const char *at = spec_text(own, kind);
	struct limits_item item;
	int rc, n = region_device_count(own);

	while ((rc = limits_next(kind, &at, LIMITS_ZERO_IS_NONE, &item, out_error)) > 0) {
		bool found = !item.who[0];

		for (int d = 0; d < n && !found; d++)
			found = limits_names(item.who, d, own->devices[d].uuid);
		if (found)
			continue;
		snprintf(out_error->text, sizeof(out_error->text),
			 "%s names no device here; there are %d, from 0 (%s)", item.who, n,
			 n ? own->devices[0].uuid : "none");
		return -ENODEV;
	}
	return rc < 0 ? rc : 0;
}
