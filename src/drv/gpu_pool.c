#include "drv/gpu_pool.h"

#include "core/graph.h"
#include "core/pool.h"
#include "drv/gpu_cuda.h"
#include "drv/real.h"

enum { POOLS_MAX = 256 };

static bool ask(CUmemoryPool pool, CUmemPool_attribute what, uint64_t *out_bytes)
{
	cuuint64_t bytes = 0;

	if (!real.cuMemPoolGetAttribute ||
	    real.cuMemPoolGetAttribute(pool, what, &bytes) != CUDA_SUCCESS)
		return false;
	*out_bytes = bytes;
	return true;
}

bool gpu_pool_stream_device(CUstream stream, struct cuda_ord *out_ord)
{
	const void *ctx;
	CUdevice dev;

	/* Values up to CU_STREAM_PER_THREAD are the calling thread's streams in its own context. */
	if ((uintptr_t)stream > (uintptr_t)CU_STREAM_PER_THREAD && real.cuStreamGetDevice &&
	    real.cuStreamGetDevice(stream, &dev) == CUDA_SUCCESS) {
		out_ord->v = dev;
		return true;
	}
	return gpu_cuda_current(out_ord, &ctx);
}

static bool store_held(struct dev dev, uint64_t *out_bytes)
{
	struct cuda_ord ord;
	cuuint64_t bytes = 0;

	if (!real.cuDeviceGetGraphMemAttribute || !device_ordinal(dev, &ord) ||
	    real.cuDeviceGetGraphMemAttribute(ord.v, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
					      &bytes) != CUDA_SUCCESS)
		return false;
	*out_bytes = bytes;
	return true;
}

bool gpu_pool_held(const void *pool, uint64_t *out_bytes)
{
	struct dev dev;

	if (graph_is_store(pool, &dev))
		return store_held(dev, out_bytes);
	return ask((CUmemoryPool)(uintptr_t)pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, out_bytes);
}

int gpu_pool_settle(const void *pool, uint64_t reserved_bytes)
{
	uint64_t ticket = pool_ask(), held;

	if (gpu_pool_held(pool, &held))
		return pool_settle(pool, ticket, held, reserved_bytes);
	pool_cancel(pool, reserved_bytes);
	return 0;
}

static void trim(const void *pool)
{
	struct cuda_ord ord;
	struct dev dev;

	if (!graph_is_store(pool, &dev)) {
		if (real.cuMemPoolTrimTo)
			real.cuMemPoolTrimTo((CUmemoryPool)(uintptr_t)pool, 0);
	} else if (real.cuDeviceGraphMemTrim && device_ordinal(dev, &ord)) {
		real.cuDeviceGraphMemTrim(ord.v);
	}
}

uint64_t gpu_pool_room(CUmemoryPool pool)
{
	uint64_t held, used;

	if (!ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &held) ||
	    !ask(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used))
		return 0;
	return held > used ? held - used : 0;
}

static int refresh(struct dev dev, bool is_trimmed)
{
	const void *pools[POOLS_MAX];
	int n = pool_list(dev, pools, POOLS_MAX);

	for (int i = 0; i < n; i++) {
		if (is_trimmed)
			trim(pools[i]);
		gpu_pool_settle(pools[i], 0);
	}
	return n;
}

void gpu_pool_refresh(struct dev dev)
{
	refresh(dev, false);
}

bool gpu_pool_reclaim(struct dev dev)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	bool has_exchanged, has_pools;

	/* A global capture of the program must not be invalidated by a call that it did not make. */
	has_exchanged = real.cuThreadExchangeStreamCaptureMode &&
			real.cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS;
	has_pools = refresh(dev, true) > 0;
	if (has_exchanged)
		real.cuThreadExchangeStreamCaptureMode(&mode);
	return has_pools;
}
