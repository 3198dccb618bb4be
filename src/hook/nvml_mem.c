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

static uint64_t used_bytes(const struct region *region, int d)
{
	return __atomic_load_n(&region->own->accounts[d].total_bytes, __ATOMIC_RELAXED);
}

/* What the tenant's living processes hold. */
static uint64_t settled_bytes(struct region *region, int d)
{
	if (init_is_member())
		quota_settle((struct dev){ d });
	else if (used_bytes(region, d) > 0)
		slot_reap(region, -1);
	return used_bytes(region, d);
}

/* True with the tenant's figures when a limit is in force on the device. */
static bool share(nvmlDevice_t dev, uint64_t physical_bytes, uint64_t *out_total_bytes,
		  uint64_t *out_used_bytes)
{
	enum init_state state = init_view();
	struct region *region = init_region();
	uint64_t limit, used;
	int d;

	if (state != INIT_VIEW && state != INIT_MEMBER)
		return false;
	d = device_of(dev);
	limit = d < 0 ? 0 : region_limit(region->hami, region->own, d);
	if (limit == 0)
		return false;
	used = settled_bytes(region, d);
	*out_total_bytes = limit < physical_bytes ? limit : physical_bytes;
	*out_used_bytes = used < *out_total_bytes ? used : *out_total_bytes;
	return true;
}

nvmlReturn_t hook_nvmlDeviceGetMemoryInfo(nvmlDevice_t dev, nvmlMemory_t *out_memory)
{
	uint64_t total, used;
	nvmlReturn_t res;

	if (!HAS(nvmlDeviceGetMemoryInfo))
		return NVML_ERROR_LIBRARY_NOT_FOUND;
	res = real.nvmlDeviceGetMemoryInfo(dev, out_memory);
	if (res != NVML_SUCCESS || real_owns(__builtin_return_address(0)))
		return res;
	if (share(dev, out_memory->total, &total, &used)) {
		out_memory->total = total;
		out_memory->used = used;
		out_memory->free = total - used;
	}
	return res;
}

nvmlReturn_t hook_nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t dev, nvmlMemory_v2_t *out_memory)
{
	uint64_t total, used;
	nvmlReturn_t res;

	if (!HAS(nvmlDeviceGetMemoryInfo_v2))
		return NVML_ERROR_LIBRARY_NOT_FOUND;
	res = real.nvmlDeviceGetMemoryInfo_v2(dev, out_memory);
	if (res != NVML_SUCCESS || real_owns(__builtin_return_address(0)))
		return res;
	if (share(dev, out_memory->total, &total, &used)) {
		out_memory->total = total;
		out_memory->reserved = 0;
		out_memory->used = used;
		out_memory->free = total - used;
	}
	return res;
}
