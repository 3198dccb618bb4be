/* What a program is told of the device's memory: the tenant's share is the card. */
#include "core/pool.h"
#include "drv/gpu_cuda.h"
#include "drv/gpu_pool.h"
#include "hook/enter.h"

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The card's figures as the tenant sees them: free is what an allocation can really get. */
static void share(struct dev dev, size_t *inout_free_bytes, size_t *inout_total_bytes)
{
	uint64_t limit = quota_limit(dev);

	if (limit == 0)
		return;
	/* What pools gave back in a synchronisation shows in no call of theirs. */
	if (pool_any())
		gpu_pool_refresh(dev);
	quota_settle(dev);
	*inout_total_bytes = least(*inout_total_bytes, limit);
	*inout_free_bytes = least(*inout_free_bytes, quota_left(dev));
}

static bool current_device(struct dev *out_dev)
{
	struct cuda_ord ord;

	return init_is_member() && gpu_cuda_current_device(&ord) && device_by_ordinal(ord, out_dev);
}

/* Whether an output may be NULL is the driver's to say. */
CUresult hook_cuMemGetInfo_v2(size_t *out_free_bytes, size_t *out_total_bytes)
{
	size_t free_bytes = 0, total_bytes = 0;
	struct dev dev;
	CUresult res;

	if (!ENTER_HAS(cuMemGetInfo_v2))
		return enter_missing();
	res = real.cuMemGetInfo_v2(out_free_bytes ? &free_bytes : NULL,
				   out_total_bytes ? &total_bytes : NULL);
	if (res != CUDA_SUCCESS)
		return res;
	if (current_device(&dev))
		share(dev, &free_bytes, &total_bytes);
	if (out_free_bytes)
		*out_free_bytes = free_bytes;
	if (out_total_bytes)
		*out_total_bytes = total_bytes;
	return res;
}

/* The form of CUDA 3: 32 bits, saturated as the driver does. */
CUresult hook_cuMemGetInfo(unsigned int *out_free_bytes, unsigned int *out_total_bytes)
{
	unsigned int free32 = 0, total32 = 0;
	size_t free_bytes, total_bytes;
	struct dev dev;
	CUresult res;

	if (!ENTER_HAS(cuMemGetInfo))
		return enter_missing();
	res = real.cuMemGetInfo(out_free_bytes ? &free32 : NULL, out_total_bytes ? &total32 : NULL);
	if (res != CUDA_SUCCESS)
		return res;
	free_bytes = free32;
	total_bytes = total32;
	if (current_device(&dev))
		share(dev, &free_bytes, &total_bytes);
	if (out_free_bytes)
		*out_free_bytes = (unsigned int)least(free_bytes, UINT32_MAX);
	if (out_total_bytes)
		*out_total_bytes = (unsigned int)least(total_bytes, UINT32_MAX);
	return res;
}

static uint64_t total_share(CUdevice ord, uint64_t total_bytes)
{
	uint64_t limit;
	struct dev dev;

	if (!init_is_member() || !device_by_ordinal((struct cuda_ord){ ord }, &dev))
		return total_bytes;
	limit = quota_limit(dev);
	return limit ? least(total_bytes, limit) : total_bytes;
}

CUresult hook_cuDeviceTotalMem_v2(size_t *out_bytes, CUdevice ord)
{
	CUresult res;

	if (!ENTER_HAS(cuDeviceTotalMem_v2))
		return enter_missing();
	res = real.cuDeviceTotalMem_v2(out_bytes, ord);
	if (res == CUDA_SUCCESS && out_bytes)
		*out_bytes = total_share(ord, *out_bytes);
	return res;
}

CUresult hook_cuDeviceTotalMem(unsigned int *out_bytes, CUdevice ord)
{
	CUresult res;

	if (!ENTER_HAS(cuDeviceTotalMem))
		return enter_missing();
	res = real.cuDeviceTotalMem(out_bytes, ord);
	if (res == CUDA_SUCCESS && out_bytes)
		*out_bytes = (unsigned int)total_share(ord, *out_bytes);
	return res;
}
