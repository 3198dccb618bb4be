#include "drv/gpu_cuda.h"

#include "base/clock.h"
#include "core/object.h"
#include "drv/gpu_pool.h"
#include "drv/gpu_tiles.h"
#include "drv/real.h"
#include "drv/sample_nvml.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool is_freed(uint64_t addr)
{
	CUdeviceptr base = 0;
	CUresult res;

	if (!real.cuMemGetAddressRange_v2)
		return false;
	res = real.cuMemGetAddressRange_v2(&base, NULL, addr);
	return res == CUDA_ERROR_NOT_FOUND || res == CUDA_ERROR_INVALID_VALUE ||
	       (res == CUDA_SUCCESS && base != addr);
}

/* How long what was freed is waited for before anything is refused. */
#define FREED_WAIT_NS (10 * NSEC_PER_SEC)

static bool reclaim(struct dev dev)
{
	bool has_some = gpu_tiles_settle();

	has_some |= gpu_pool_reclaim(dev);
	if (object_reclaim(dev, 0))
		return true;
	if (object_idle_bytes(dev))
		return object_reclaim(dev, clock_now_ns() + FREED_WAIT_NS) || has_some;
	return has_some;
}

const struct gpu_ops gpu_cuda_ops = {
	.process_bytes = sample_nvml_process_bytes,
	.reclaim = reclaim,
	.is_freed = is_freed,
	.refresh = gpu_pool_refresh,
};

static bool device_uuid(CUdevice dev, char *out, size_t out_bytes)
{
	CUuuid uuid;
	unsigned char b[16];
	CUresult res = CUDA_ERROR_NOT_FOUND;

	/* The second form names the MIG slice, where there is one; the first always its card. */
	if (real.cuDeviceGetUuid_v2)
		res = real.cuDeviceGetUuid_v2(&uuid, dev);
	if (res != CUDA_SUCCESS && real.cuDeviceGetUuid)
		res = real.cuDeviceGetUuid(&uuid, dev);
	if (res != CUDA_SUCCESS)
		return false;
	memcpy(b, uuid.bytes, sizeof(b));
	snprintf(out, out_bytes,
		 "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
		 b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
		 b[14], b[15]);
	if (!sample_nvml_knows(out)) {
		memcpy(out, "MIG-", 4);
		if (!sample_nvml_knows(out))
			memcpy(out, "GPU-", 4);
	}
	return true;
}

bool gpu_cuda_ready(void)
{
	int count;

	return !real.cuDeviceGetCount ||
	       real.cuDeviceGetCount(&count) != CUDA_ERROR_NOT_INITIALIZED;
}

int gpu_cuda_devices(struct device_info *out, int max)
{
	int count = 0, n = 0;

	if (!real.cuDeviceGetCount || !real.cuDeviceGet ||
	    real.cuDeviceGetCount(&count) != CUDA_SUCCESS)
		return -ENODEV;
	for (; n < count && n < max; n++) {
		size_t total_bytes = 0;
		CUdevice dev;

		if (real.cuDeviceGet(&dev, n) != CUDA_SUCCESS ||
		    !device_uuid(dev, out[n].uuid, sizeof(out[n].uuid)))
			return -ENODEV;
		if (real.cuDeviceTotalMem_v2)
			real.cuDeviceTotalMem_v2(&total_bytes, dev);
		out[n].physical_bytes = total_bytes;
	}
	return n;
}

bool gpu_cuda_current_device(struct cuda_ord *out_ord)
{
	CUdevice dev;

	if (!real.cuCtxGetDevice || real.cuCtxGetDevice(&dev) != CUDA_SUCCESS)
		return false;
	out_ord->v = dev;
	return true;
}

bool gpu_cuda_current(struct cuda_ord *out_ord, const void **out_ctx)
{
	CUcontext ctx;

	if (!gpu_cuda_current_device(out_ord) || !real.cuCtxGetCurrent ||
	    real.cuCtxGetCurrent(&ctx) != CUDA_SUCCESS)
		return false;
	*out_ctx = ctx;
	return true;
}

bool gpu_cuda_context_device(CUcontext ctx, struct cuda_ord *out_ord)
{
	CUcontext popped;
	bool is_known;

	if (!real.cuCtxPushCurrent_v2 || !real.cuCtxPopCurrent_v2 ||
	    real.cuCtxPushCurrent_v2(ctx) != CUDA_SUCCESS)
		return false;
	is_known = gpu_cuda_current_device(out_ord);
	real.cuCtxPopCurrent_v2(&popped);
	return is_known;
}

bool gpu_cuda_primary_active(struct cuda_ord ord)
{
	unsigned flags;
	int active = 0;

	return real.cuDevicePrimaryCtxGetState &&
	       real.cuDevicePrimaryCtxGetState(ord.v, &flags, &active) == CUDA_SUCCESS && active;
}

bool gpu_cuda_device_of(CUdeviceptr addr, struct dev *out_dev)
{
	int ord;

	return real.cuPointerGetAttribute &&
	       real.cuPointerGetAttribute(&ord, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, addr) ==
		       CUDA_SUCCESS &&
	       device_by_ordinal((struct cuda_ord){ ord }, out_dev);
}
