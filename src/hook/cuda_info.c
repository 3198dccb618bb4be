/* What a program is told of the device's memory: the tenant's share is the card. */
#include "base/bytes.h"
#include "base/clock.h"
#include "core/charge.h"
#include "core/headroom.h"
#include "core/object.h"
#include "core/piece.h"
#include "core/pool.h"
#include "drv/gpu_cuda.h"
#include "drv/gpu_pool.h"
#include "drv/gpu_tiles.h"
#include "hook/enter.h"
#include "shm/residency.h"

/*
 * The card's figures as the tenant sees them: free is what an allocation can really get, with what
 * freed objects keep of the device for now, those of other processes too. `dev` is none (-1) where
 * there is no context.
 */
static uint64_t shared_free(struct dev dev, const struct quota_share *share, uint64_t free_bytes)
{
	uint64_t idle_bytes = 0;

	if (dev.v >= 0) {
		const struct ration_region *own = init_region()->own;

		idle_bytes = object_idle_bytes(dev);
		if (quota_has_region_now())
			idle_bytes += residency_idle_but(own, quota_slot(), dev.v);
		free_bytes = residency_free(own, dev.v, free_bytes);
	}
	if (share->limit_bytes)
		free_bytes = bytes_least(free_bytes, share->left_bytes);
	return free_bytes + idle_bytes;
}

static uint64_t shared_total(const struct quota_share *share, uint64_t total_bytes)
{
	if (!share->limit_bytes)
		return total_bytes;
	return residency_is_oversubscribed(init_region()->own) ?
		       share->limit_bytes :
		       bytes_least(total_bytes, share->limit_bytes);
}

static bool current_device(struct dev *out_dev)
{
	struct cuda_ord ord;

	return init_is_member() && gpu_cuda_current_device(&ord) && device_by_ordinal(ord, out_dev);
}

/* The share of the current device, at *out_now_ns; a limit of 0 where there is none to hold. */
static struct quota_share find_share(struct dev *out_dev, int64_t *out_now_ns)
{
	if (!current_device(out_dev))
		return (struct quota_share){ 0 };
	/* What pools gave back in a synchronisation shows in no call of theirs. */
	if ((pool_any() || piece_any_marked()) && quota_limit(*out_dev))
		gpu_pool_refresh(*out_dev);
	if (pool_any_orphans(*out_dev))
		charge_watch(*out_dev);
	gpu_tiles_settle();
	charge_settle(*out_dev);
	*out_now_ns = clock_now_ns();
	return quota_share(*out_dev, *out_now_ns);
}

/*
 * Whether an output may be NULL is the driver's to say. It takes microseconds to say what the card
 * has free; while that is more than the whole limit, it is asked once in HEADROOM_NS. An error that
 * earlier work left in the context is told by other calls at once, and by this one that much later.
 */
CUresult hook_cuMemGetInfo_v2(size_t *out_free_bytes, size_t *out_total_bytes)
{
	size_t free_bytes = SIZE_MAX, total_bytes = 0;
	struct quota_share share;
	int64_t now_ns = 0;
	struct dev dev = { -1 };
	CUresult res;

	if (!ENTER_HAS(cuMemGetInfo_v2))
		return enter_missing();
	share = find_share(&dev, &now_ns);
	if (!share.limit_bytes || !out_free_bytes || !out_total_bytes ||
	    !headroom_covers(dev, share.limit_bytes, now_ns, &total_bytes)) {
		res = real.cuMemGetInfo_v2(out_free_bytes ? &free_bytes : NULL,
					   out_total_bytes ? &total_bytes : NULL);
		if (res != CUDA_SUCCESS)
			return res;
		if (share.limit_bytes && out_free_bytes && out_total_bytes)
			headroom_note(dev, free_bytes, total_bytes, now_ns);
	}
	if (out_free_bytes)
		*out_free_bytes = shared_free(dev, &share, free_bytes);
	if (out_total_bytes)
		*out_total_bytes = shared_total(&share, total_bytes);
	return CUDA_SUCCESS;
}

/* The form of CUDA 3: 32 bits, saturated as the driver does. */
CUresult hook_cuMemGetInfo(unsigned int *out_free_bytes, unsigned int *out_total_bytes)
{
	unsigned int free32 = 0, total32 = 0;
	struct quota_share share;
	int64_t now_ns = 0;
	struct dev dev = { -1 };
	CUresult res;

	if (!ENTER_HAS(cuMemGetInfo))
		return enter_missing();
	share = find_share(&dev, &now_ns);
	res = real.cuMemGetInfo(out_free_bytes ? &free32 : NULL, out_total_bytes ? &total32 : NULL);
	if (res != CUDA_SUCCESS)
		return res;
	if (out_free_bytes)
		*out_free_bytes = (unsigned int)shared_free(dev, &share, free32);
	if (out_total_bytes)
		*out_total_bytes = (unsigned int)shared_total(&share, total32);
	return res;
}

static uint64_t total_share(CUdevice ord, uint64_t total_bytes)
{
	uint64_t limit;
	struct dev dev;

	if (!init_is_member() || !device_by_ordinal((struct cuda_ord){ ord }, &dev))
		return total_bytes;
	limit = quota_limit(dev);
	return shared_total(&(struct quota_share){ .limit_bytes = limit }, total_bytes);
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
