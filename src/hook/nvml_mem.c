/*
 * NVML's memory figures: the tenant's share is the card.
 *
 * Not here, because nothing of the tenant's is in them: nvmlDeviceGetFieldValues (no field of
 * NVML's is an amount of the device's memory) and nvmlDeviceGetConfComputeMemSizeInfo (how the card
 * is divided, not what is in use).
 */
#include "base/bytes.h"
#include "hook/lookup.h"
#include "hook/nvml_share.h"
#include "shm/residency.h"

/*
 * Where the region cannot be looked at: what is configured, and as used what is on the card; an
 * error where nothing is known.
 */
static nvmlReturn_t show_configured(uint64_t limit, unsigned long long *inout_total_bytes,
				    unsigned long long *inout_free_bytes,
				    unsigned long long *inout_used_bytes)
{
	if (limit == 0)
		return NVML_ERROR_UNKNOWN;
	*inout_total_bytes = bytes_least(*inout_total_bytes, limit);
	*inout_used_bytes = bytes_least(*inout_used_bytes, *inout_total_bytes);
	*inout_free_bytes = bytes_least(*inout_free_bytes, *inout_total_bytes - *inout_used_bytes);
	return NVML_SUCCESS;
}

/*
 * Puts the tenant's figures in the place of the card's when a limit is in force on the device: free
 * is what an allocation can really get. NVML_SUCCESS, also where there is none (*out_is_shown:
 * there is), or NVML_ERROR_UNKNOWN.
 */
static nvmlReturn_t show_share(nvmlDevice_t dev, unsigned long long *inout_total_bytes,
			       unsigned long long *inout_free_bytes,
			       unsigned long long *inout_used_bytes, bool *out_is_shown)
{
	struct nvml_share s;
	uint64_t limit;

	*out_is_shown = false;
	if (nvml_share_is_unknown(dev, &limit)) {
		*out_is_shown = limit > 0;
		return show_configured(limit, inout_total_bytes, inout_free_bytes,
				       inout_used_bytes);
	}
	if (!nvml_share_find(dev, &s))
		return NVML_SUCCESS;
	*inout_total_bytes = s.own ? s.total_bytes : bytes_least(*inout_total_bytes, s.total_bytes);
	*inout_used_bytes = bytes_least(nvml_share_used_bytes(&s), *inout_total_bytes);
	if (s.own)
		*inout_free_bytes = residency_free(s.own, __builtin_ctz(s.devs), *inout_free_bytes);
	*inout_free_bytes = bytes_least(*inout_free_bytes,
					bytes_beyond(*inout_total_bytes - *inout_used_bytes,
						     nvml_share_kept_bytes(&s)));
	*out_is_shown = true;
	return NVML_SUCCESS;
}

nvmlReturn_t hook_nvmlDeviceGetMemoryInfo(nvmlDevice_t dev, nvmlMemory_t *out_memory)
{
	nvmlReturn_t res;
	bool is_shown;

	if (!NVML_SHARE_HAS(nvmlDeviceGetMemoryInfo))
		return nvml_share_missing();
	res = real.nvmlDeviceGetMemoryInfo(dev, out_memory);
	if (res != NVML_SUCCESS || nvml_share_is_inner(__builtin_return_address(0)))
		return res;
	return show_share(dev, &out_memory->total, &out_memory->free, &out_memory->used, &is_shown);
}

nvmlReturn_t hook_nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t dev, nvmlMemory_v2_t *out_memory)
{
	nvmlReturn_t res;
	bool is_shown;

	if (!NVML_SHARE_HAS(nvmlDeviceGetMemoryInfo_v2))
		return nvml_share_missing();
	res = real.nvmlDeviceGetMemoryInfo_v2(dev, out_memory);
	if (res != NVML_SUCCESS || nvml_share_is_inner(__builtin_return_address(0)))
		return res;
	res = show_share(dev, &out_memory->total, &out_memory->free, &out_memory->used, &is_shown);
	if (is_shown)
		out_memory->reserved = 0;
	return res;
}

/* Memory under confidential computing is the device's memory. */
nvmlReturn_t hook_nvmlDeviceGetConfComputeProtectedMemoryUsage(nvmlDevice_t dev,
							       nvmlMemory_t *out_memory)
{
	nvmlReturn_t res;
	bool is_shown;

	if (!NVML_SHARE_HAS(nvmlDeviceGetConfComputeProtectedMemoryUsage))
		return nvml_share_missing();
	res = real.nvmlDeviceGetConfComputeProtectedMemoryUsage(dev, out_memory);
	if (res != NVML_SUCCESS || nvml_share_is_inner(__builtin_return_address(0)))
		return res;
	return show_share(dev, &out_memory->total, &out_memory->free, &out_memory->used, &is_shown);
}

/*
 * BAR1 is a window on the device's memory. NVML does not say whose mappings are in it, so what
 * shows as used is what the card says, but no more than the tenant holds at all.
 */
nvmlReturn_t hook_nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t dev, nvmlBAR1Memory_t *out_bar1)
{
	struct nvml_share s;
	uint64_t limit;
	nvmlReturn_t res;

	if (!NVML_SHARE_HAS(nvmlDeviceGetBAR1MemoryInfo))
		return nvml_share_missing();
	res = real.nvmlDeviceGetBAR1MemoryInfo(dev, out_bar1);
	if (res != NVML_SUCCESS || nvml_share_is_inner(__builtin_return_address(0)))
		return res;
	if (nvml_share_is_unknown(dev, &limit))
		return show_configured(limit, &out_bar1->bar1Total, &out_bar1->bar1Free,
				       &out_bar1->bar1Used);
	if (!nvml_share_find(dev, &s))
		return res;
	out_bar1->bar1Total = bytes_least(out_bar1->bar1Total, s.total_bytes);
	out_bar1->bar1Used = bytes_least(bytes_least(out_bar1->bar1Used, nvml_share_used_bytes(&s)),
					 out_bar1->bar1Total);
	out_bar1->bar1Free = bytes_least(out_bar1->bar1Free,
					 out_bar1->bar1Total - out_bar1->bar1Used);
	return res;
}

/* The size of a MIG slice stands in its attributes too. NVML_SUCCESS, or NVML_ERROR_UNKNOWN. */
static nvmlReturn_t show_size(nvmlDevice_t dev, unsigned long long *inout_size_mib)
{
	struct nvml_share s;
	uint64_t limit;

	if (nvml_share_is_unknown(dev, &limit)) {
		if (limit == 0)
			return NVML_ERROR_UNKNOWN;
		*inout_size_mib = bytes_least(*inout_size_mib, limit >> 20);
	} else if (nvml_share_find(dev, &s)) {
		*inout_size_mib = bytes_least(*inout_size_mib, s.total_bytes >> 20);
	}
	return NVML_SUCCESS;
}

nvmlReturn_t hook_nvmlDeviceGetAttributes(nvmlDevice_t dev, nvmlDeviceAttributes_t *attrs)
{
	nvmlReturn_t res;

	if (!NVML_SHARE_HAS(nvmlDeviceGetAttributes))
		return nvml_share_missing();
	res = real.nvmlDeviceGetAttributes(dev, attrs);
	if (res != NVML_SUCCESS || nvml_share_is_inner(__builtin_return_address(0)))
		return res;
	return show_size(dev, &attrs->memorySizeMB);
}

nvmlReturn_t hook_nvmlDeviceGetAttributes_v2(nvmlDevice_t dev, nvmlDeviceAttributes_t *attrs)
{
	nvmlReturn_t res;

	if (!NVML_SHARE_HAS(nvmlDeviceGetAttributes_v2))
		return nvml_share_missing();
	res = real.nvmlDeviceGetAttributes_v2(dev, attrs);
	if (res != NVML_SUCCESS || nvml_share_is_inner(__builtin_return_address(0)))
		return res;
	return show_size(dev, &attrs->memorySizeMB);
}
