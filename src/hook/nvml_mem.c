/*
 * NVML's memory figures.
 *
 * NVML calls its own exported functions through its PLT and so lands here: a call from a driver
 * library or from this one gets the real function's answer. That is seen by the return address, so
 * this file is compiled without tail calls: a jump to the real function would lose it.
 */
#include "core/quota.h"
#include "hook/init.h"
#include "hook/lookup.h"

#include <string.h>

#define HAS(sym) (real.sym || (real_find(REAL_NVML) && real.sym))

/* The region's device behind an NVML handle; -1 when it is none of the tenant's. */
static int device_of(nvmlDevice_t dev)
{
	char uuid[RATION_UUID_BYTES];

	if (!real.nvmlDeviceGetUUID ||
	    real.nvmlDeviceGetUUID(dev, uuid, sizeof(uuid)) != NVML_SUCCESS)
		return -1;
	return region_find_device(init_region()->own, uuid);
}

/* The tenant's figures of one device. */
struct share {
	uint64_t limit_bytes, used_bytes; /* what its living processes hold */
};

static bool member_share(int d, struct share *out)
{
	struct dev dev = { d };

	quota_settle(dev);
	out->limit_bytes = quota_limit(dev);
	out->used_bytes = quota_used(dev);
	return true;
}

/* Of a process that only looks: false when the region is not whole any more. */
static bool viewer_share(struct region *region, int d, struct share *out)
{
	const struct ration_region *own = region->own;
	const uint64_t *total = &own->accounts[d].total_bytes;

	if (region_check(region, 0) < 0)
		return false;
	out->limit_bytes = region_limit(region->hami, own, d);
	if (out->limit_bytes == 0)
		out->limit_bytes = limits_for_device(own->mem_spec, d, own->devices[d].uuid);
	if (__atomic_load_n(total, __ATOMIC_RELAXED) > 0)
		slot_reap(region, -1);
	out->used_bytes = __atomic_load_n(total, __ATOMIC_RELAXED);
	return true;
}

static bool find_share(nvmlDevice_t dev, struct share *out)
{
	enum init_state state = init_view();
	int d;

	if (state != INIT_VIEW && state != INIT_MEMBER)
		return false;
	d = device_of(dev);
	if (d < 0)
		return false;
	return state == INIT_MEMBER ? member_share(d, out) : viewer_share(init_region(), d, out);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * Puts the tenant's figures in the place of the card's when a limit is in force on the device: free
 * is what an allocation can really get. False when there is none.
 */
static bool show_share(nvmlDevice_t dev, unsigned long long *inout_total_bytes,
		       unsigned long long *inout_free_bytes, unsigned long long *out_used_bytes)
{
	struct share s;

	if (!find_share(dev, &s) || s.limit_bytes == 0)
		return false;
	*inout_total_bytes = least(*inout_total_bytes, s.limit_bytes);
	*out_used_bytes = least(s.used_bytes, *inout_total_bytes);
	*inout_free_bytes = least(*inout_free_bytes, *inout_total_bytes - *out_used_bytes);
	return true;
}

nvmlReturn_t hook_nvmlDeviceGetMemoryInfo(nvmlDevice_t dev, nvmlMemory_t *out_memory)
{
	nvmlReturn_t res;

	if (!HAS(nvmlDeviceGetMemoryInfo))
		return NVML_ERROR_LIBRARY_NOT_FOUND;
	res = real.nvmlDeviceGetMemoryInfo(dev, out_memory);
	if (res != NVML_SUCCESS || real_owns(__builtin_return_address(0)))
		return res;
	show_share(dev, &out_memory->total, &out_memory->free, &out_memory->used);
	return res;
}

nvmlReturn_t hook_nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t dev, nvmlMemory_v2_t *out_memory)
{
	nvmlReturn_t res;

	if (!HAS(nvmlDeviceGetMemoryInfo_v2))
		return NVML_ERROR_LIBRARY_NOT_FOUND;
	res = real.nvmlDeviceGetMemoryInfo_v2(dev, out_memory);
	if (res != NVML_SUCCESS || real_owns(__builtin_return_address(0)))
		return res;
	if (show_share(dev, &out_memory->total, &out_memory->free, &out_memory->used))
		out_memory->reserved = 0;
	return res;
}
