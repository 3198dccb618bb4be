/*
 * Stream-ordered memory and pools: a pool is charged by what it holds of the device. A request that
 * it serves from what it holds costs nothing more, and none of this synchronises.
 */
#include "core/pool.h"
#include "drv/gpu_pool.h"
#include "hook/enter.h"

#include <errno.h>

/* A pool grows by this at least, and in multiples of it (docs/real-gpu.md). */
#define POOL_UNIT_BYTES (UINT64_C(32) << 20)

/* One allocation call with its arguments bound: the forms differ in those alone. */
struct async {
	CUdeviceptr *out_addr;
	size_t size_bytes;
	CUmemoryPool pool; /* NULL: the current pool of the stream's device */
	CUstream stream;
};

typedef CUresult async_fn(const struct async *a);
typedef CUresult free_fn(CUdeviceptr addr, CUstream stream);

static uint64_t round_up(uint64_t bytes)
{
	return bytes > UINT64_MAX - POOL_UNIT_BYTES ?
		       UINT64_MAX :
		       (bytes + POOL_UNIT_BYTES - 1) / POOL_UNIT_BYTES * POOL_UNIT_BYTES;
}

/* The pool that serves the call, entered; false when it is none that is charged. */
static bool find_pool(const struct async *a, CUmemoryPool *out_pool, enum enter *out_what)
{
	struct cuda_ord ord;
	struct dev dev;

	*out_pool = a->pool;
	if (a->pool) {
		*out_what = init_member() == INIT_FAILED ? ENTER_REFUSE : ENTER_CHARGE;
		return init_is_member() && pool_device(a->pool, &dev);
	}
	if (!gpu_pool_stream_device(a->stream, &ord))
		return false;
	*out_what = enter_ordinal(ord.v, &dev);
	if (*out_what != ENTER_CHARGE || !real.cuDeviceGetMemPool ||
	    real.cuDeviceGetMemPool(out_pool, ord.v) != CUDA_SUCCESS)
		return false;
	return pool_enter(*out_pool, dev);
}

/*
 * Reserves what the pool may grow by; pools that hold more than they use give it back first. A
 * request that does not fit goes on all the same when the pool's own room may serve it.
 */
static int reserve(CUmemoryPool pool, struct dev dev, uint64_t size_bytes, uint64_t *out_bytes)
{
	uint64_t room = gpu_pool_room(pool), want = room >= size_bytes ? 0 : round_up(size_bytes);
	int rc;

	*out_bytes = 0;
	if (want == 0)
		return 0;
	rc = pool_reserve(pool, want);
	if (rc == -EDQUOT && charge_ask_card(dev))
		rc = pool_reserve(pool, want);
	if (rc == 0)
		*out_bytes = want;
	return rc;
}

/* A captured allocation makes a graph node and takes nothing yet. */
static bool is_capturing(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	return real.cuStreamIsCapturing && real.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
	       status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static CUresult allocate(const struct async *a, async_fn *call, free_fn *give_back)
{
	enum enter what = ENTER_FORWARD;
	CUmemoryPool pool = NULL;
	uint64_t reserved_bytes;
	struct dev dev;
	CUresult res;
	int rc;

	if (!a->out_addr || !a->size_bytes || !find_pool(a, &pool, &what) ||
	    !pool_device(pool, &dev))
		return what == ENTER_REFUSE ? enter_refusal() : call(a);
	rc = reserve(pool, dev, a->size_bytes, &reserved_bytes);
	if (rc < 0)
		return is_capturing(a->stream) ? call(a) : enter_refused(rc, dev, a->size_bytes);
	charge_begin();
	res = call(a);
	rc = gpu_pool_settle(pool, reserved_bytes);
	if (rc < 0 && res == CUDA_SUCCESS) {
		give_back(*a->out_addr, a->stream);
		gpu_pool_reclaim(dev);
	}
	charge_over();
	return rc < 0 && res == CUDA_SUCCESS ? enter_refused(rc, dev, a->size_bytes) : res;
}

static CUresult alloc(const struct async *a)
{
	return real.cuMemAllocAsync(a->out_addr, a->size_bytes, a->stream);
}

static CUresult alloc_ptsz(const struct async *a)
{
	return real.cuMemAllocAsync_ptsz(a->out_addr, a->size_bytes, a->stream);
}

static CUresult from_pool(const struct async *a)
{
	return real.cuMemAllocFromPoolAsync(a->out_addr, a->size_bytes, a->pool, a->stream);
}

static CUresult from_pool_ptsz(const struct async *a)
{
	return real.cuMemAllocFromPoolAsync_ptsz(a->out_addr, a->size_bytes, a->pool, a->stream);
}

CUresult hook_cuMemAllocAsync(CUdeviceptr *out_addr, size_t size_bytes, CUstream stream)
{
	struct async a = { out_addr, size_bytes, NULL, stream };

	return ENTER_HAS(cuMemAllocAsync) ? allocate(&a, alloc, real.cuMemFreeAsync) :
					    enter_missing();
}

CUresult hook_cuMemAllocAsync_ptsz(CUdeviceptr *out_addr, size_t size_bytes, CUstream stream)
{
	struct async a = { out_addr, size_bytes, NULL, stream };

	return ENTER_HAS(cuMemAllocAsync_ptsz) ? allocate(&a, alloc_ptsz, real.cuMemFreeAsync_ptsz) :
						 enter_missing();
}

CUresult hook_cuMemAllocFromPoolAsync(CUdeviceptr *out_addr, size_t size_bytes, CUmemoryPool pool,
				      CUstream stream)
{
	struct async a = { out_addr, size_bytes, pool, stream };

	return ENTER_HAS(cuMemAllocFromPoolAsync) ? allocate(&a, from_pool, real.cuMemFreeAsync) :
						    enter_missing();
}

CUresult hook_cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *out_addr, size_t size_bytes,
					   CUmemoryPool pool, CUstream stream)
{
	struct async a = { out_addr, size_bytes, pool, stream };

	return ENTER_HAS(cuMemAllocFromPoolAsync_ptsz) ?
		       allocate(&a, from_pool_ptsz, real.cuMemFreeAsync_ptsz) :
		       enter_missing();
}

CUresult hook_cuMemPoolCreate(CUmemoryPool *out_pool, const CUmemPoolProps *props)
{
	struct dev dev;
	CUresult res;

	if (!ENTER_HAS(cuMemPoolCreate))
		return enter_missing();
	res = real.cuMemPoolCreate(out_pool, props);
	if (res == CUDA_SUCCESS && props->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
	    props->allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
	    enter_ordinal(props->location.id, &dev) == ENTER_CHARGE && !pool_enter(*out_pool, dev)) {
		real.cuMemPoolDestroy(*out_pool);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return res;
}

CUresult hook_cuMemPoolDestroy(CUmemoryPool pool)
{
	CUresult res;

	if (!ENTER_HAS(cuMemPoolDestroy))
		return enter_missing();
	if (!init_is_member())
		return real.cuMemPoolDestroy(pool);
	gpu_pool_settle(pool, 0);
	res = real.cuMemPoolDestroy(pool);
	if (res == CUDA_SUCCESS)
		pool_destroyed(pool);
	return res;
}

CUresult hook_cuMemPoolTrimTo(CUmemoryPool pool, size_t keep_bytes)
{
	CUresult res;

	if (!ENTER_HAS(cuMemPoolTrimTo))
		return enter_missing();
	res = real.cuMemPoolTrimTo(pool, keep_bytes);
	if (res == CUDA_SUCCESS && init_is_member())
		gpu_pool_settle(pool, 0);
	return res;
}
