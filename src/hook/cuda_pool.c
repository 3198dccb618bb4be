/*
 * Stream-ordered memory and pools: a pool is charged by what it holds of the device. A request that
 * it serves from what it holds costs nothing more, and none of this synchronises.
 */
#include "base/bytes.h"
#include "core/handle.h"
#include "core/pool.h"
#include "drv/gpu_pool.h"
#include "hook/gated.h"
#include "hook/movable.h"
#include "hook/room.h"

#include <errno.h>

/* A pool grows by this at least, and in multiples of it (docs/real-gpu.md). */
#define POOL_UNIT_BYTES (UINT64_C(32) << 20)

/* One allocation call with its arguments bound: the forms differ in those alone. */
struct async {
	CUdeviceptr *out_addr;
	size_t size_bytes;
	CUmemoryPool pool; /* where is_named */
	CUstream stream;
	bool is_named; /* else it is the current pool of the stream's device */
};

/* What the NULL stream means in the per-thread forms. */
static CUstream per_thread(CUstream stream)
{
	return stream ? stream : CU_STREAM_PER_THREAD;
}

typedef CUresult async_fn(const struct async *a);
typedef CUresult free_fn(CUdeviceptr addr, CUstream stream);

/* A pool that the program names. ENTER_FORWARD: none that is charged, as those of host memory. */
static enum enter find_named(const struct async *a, struct dev *out_dev)
{
	enum pool_kind kind;
	struct cuda_ord ord;
	enum enter what;

	if (init_member() == INIT_FAILED)
		return ENTER_REFUSE;
	if (!init_is_member())
		return ENTER_FORWARD;
	if (pool_device(a->pool, out_dev))
		return ENTER_CHARGE;
	if (!gpu_pool_recognise(a->pool, a->stream, &ord, &kind))
		return ENTER_FORWARD;
	what = enter_ordinal(ord.v, out_dev);
	return what == ENTER_CHARGE && !pool_enter(a->pool, *out_dev, kind) ? ENTER_REFUSE : what;
}

/* The pool that serves the call, entered, if it is one that is charged. */
static enum enter find_pool(const struct async *a, CUmemoryPool *out_pool, struct dev *out_dev)
{
	struct cuda_ord ord;
	enum enter what;

	*out_pool = a->pool;
	if (a->is_named)
		return a->pool ? find_named(a, out_dev) : ENTER_FORWARD;
	if (!gpu_pool_stream_device(a->stream, &ord))
		return ENTER_FORWARD;
	what = enter_ordinal(ord.v, out_dev);
	if (what != ENTER_CHARGE)
		return what;
	if (!real.cuDeviceGetMemPool || real.cuDeviceGetMemPool(out_pool, ord.v) != CUDA_SUCCESS)
		return ENTER_FORWARD;
	return pool_enter(*out_pool, *out_dev, POOL_DEVICE) ? ENTER_CHARGE : ENTER_REFUSE;
}

/* A captured allocation makes a graph node and takes nothing yet. */
static bool is_capturing(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	return real.cuStreamIsCapturing &&
	       real.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
	       status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* True of a stream that the driver has something against; *out_res is what. */
static bool is_wrong(CUstream stream, CUresult *out_res)
{
	CUstreamCaptureStatus status;

	if (!real.cuStreamIsCapturing)
		return false;
	*out_res = real.cuStreamIsCapturing(stream, &status);
	return *out_res != CUDA_SUCCESS;
}

/*
 * Reserves what the pool may grow by, for a request that its own room does not serve. Before it is
 * refused, pools that hold more than they use give it back. Room that lies in pieces may not serve
 * it after all: then the pool grows unreserved, past the limit perhaps, until that is undone. Until
 * then nothing more is asked of it, so every thread is above the limit by one request at most.
 */
static int reserve(const struct async *a, CUmemoryPool pool, struct dev dev, uint64_t *out_bytes)
{
	uint64_t want = bytes_round_up(a->size_bytes, POOL_UNIT_BYTES);
	int rc;

	*out_bytes = 0;
	for (bool is_asked = false;; is_asked = true) {
		if (!pool_any_over(dev) && gpu_pool_room(pool) >= a->size_bytes)
			return 0;
		rc = pool_reserve(pool, want);
		if (rc == 0)
			*out_bytes = want;
		if (rc != -EDQUOT || is_asked)
			return rc;
		if (is_capturing(a->stream))
			return 0;
		if (!charge_ask_card(dev))
			return rc;
	}
}

/*
 * Settles what a call took. Another thread may have set another current pool since it was asked
 * for: the one that served the call is settled too.
 */
static int settle(const struct async *a, CUresult res, CUmemoryPool pool, struct dev dev,
		  uint64_t reserved_bytes)
{
	int rc = gpu_pool_settle(pool, reserved_bytes);
	CUmemoryPool served;

	if (rc < 0 || a->is_named || res != CUDA_SUCCESS || !gpu_pool_of(*a->out_addr, &served) ||
	    served == pool)
		return rc;
	return pool_enter(served, dev, POOL_DEVICE) ? gpu_pool_settle(served, 0) : -ENOMEM;
}

static CUresult allocate(const struct async *a, async_fn *call, free_fn *give_back)
{
	CUmemoryPool pool = NULL;
	uint64_t reserved_bytes;
	enum enter what;
	bool is_undone;
	struct dev dev;
	CUresult res;
	int rc;

	what = a->out_addr && a->size_bytes ? find_pool(a, &pool, &dev) : ENTER_FORWARD;
	if (what == ENTER_CHARGE)
		enter_use(dev);
	if (what == ENTER_REFUSE)
		return init_is_member() ? CUDA_ERROR_OUT_OF_MEMORY : enter_refusal();
	if (what == ENTER_FORWARD)
		return GATE_CALL(call(a));
	rc = reserve(a, pool, dev, &reserved_bytes);
	if (rc == -EDQUOT && is_wrong(a->stream, &res))
		return res;
	if (rc < 0)
		return enter_refused(rc, dev, a->size_bytes);
	charge_begin();
	/* A pool takes whole units of the card, whatever it is asked for. */
	res = ROOM_CALL(dev, bytes_round_up(a->size_bytes, POOL_UNIT_BYTES), call(a));
	rc = settle(a, res, pool, dev, reserved_bytes);
	is_undone = rc < 0 && res == CUDA_SUCCESS && !is_capturing(a->stream);
	if (is_undone) {
		GATE_CALL(give_back(*a->out_addr, a->stream));
		gpu_pool_undone(dev, a->stream);
	}
	charge_over();
	return is_undone ? enter_refused(rc, dev, a->size_bytes) : res;
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
	struct async a = { out_addr, size_bytes, NULL, stream, false };

	return ENTER_HAS(cuMemAllocAsync) ? allocate(&a, alloc, real.cuMemFreeAsync) :
					    enter_missing();
}

CUresult hook_cuMemAllocAsync_ptsz(CUdeviceptr *out_addr, size_t size_bytes, CUstream stream)
{
	struct async a = { out_addr, size_bytes, NULL, per_thread(stream), false };

	return ENTER_HAS(cuMemAllocAsync_ptsz) ?
		       allocate(&a, alloc_ptsz, real.cuMemFreeAsync_ptsz) :
		       enter_missing();
}

CUresult hook_cuMemAllocFromPoolAsync(CUdeviceptr *out_addr, size_t size_bytes, CUmemoryPool pool,
				      CUstream stream)
{
	struct async a = { out_addr, size_bytes, pool, stream, true };

	return ENTER_HAS(cuMemAllocFromPoolAsync) ? allocate(&a, from_pool, real.cuMemFreeAsync) :
						    enter_missing();
}

CUresult hook_cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *out_addr, size_t size_bytes,
					   CUmemoryPool pool, CUstream stream)
{
	struct async a = { out_addr, size_bytes, pool, per_thread(stream), true };

	return ENTER_HAS(cuMemAllocFromPoolAsync_ptsz) ?
		       allocate(&a, from_pool_ptsz, real.cuMemFreeAsync_ptsz) :
		       enter_missing();
}

/*
 * cuMemAlloc's memory may be freed so too. It goes when the stream comes to it: until then the
 * card's figure holds it, and it counts as overhead. An object outlasts all submitted work.
 */
static CUresult free_async(free_fn *call, CUdeviceptr addr, CUstream stream)
{
	struct dev dev = { 0 };
	struct track_node *node;
	CUresult res;

	if (movable_has(addr) && !is_capturing(stream)) {
		if (is_wrong(stream, &res))
			return res;
		if (object_free(addr) == 0)
			return CUDA_SUCCESS;
	}
	node = init_is_member() ? charge_take(addr, &dev) : NULL;
	res = GATE_CALL(call(addr, stream));
	if (node && res == CUDA_SUCCESS) {
		charge_look_later(dev);
		charge_end(node, dev);
	} else if (node) {
		charge_put_back(node, dev);
	}
	return res;
}

CUresult hook_cuMemFreeAsync(CUdeviceptr addr, CUstream stream)
{
	return ENTER_HAS(cuMemFreeAsync) ? free_async(real.cuMemFreeAsync, addr, stream) :
					   enter_missing();
}

CUresult hook_cuMemFreeAsync_ptsz(CUdeviceptr addr, CUstream stream)
{
	return ENTER_HAS(cuMemFreeAsync_ptsz) ?
		       free_async(real.cuMemFreeAsync_ptsz, addr, per_thread(stream)) :
		       enter_missing();
}

/*
 * Where memory of a new pool counts. Managed memory of no device in particular counts on the
 * calling thread's, else on the first.
 */
static enum enter place(const CUmemPoolProps *props, struct dev *out_dev, enum pool_kind *out_kind)
{
	bool is_device = props->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
	const void *ctx;
	enum enter what;

	*out_kind = props->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED ? POOL_MANAGED : POOL_DEVICE;
	if (is_device)
		return enter_ordinal(props->location.id, out_dev);
	if (*out_kind == POOL_DEVICE)
		return ENTER_FORWARD;
	what = enter_current(out_dev, &ctx);
	return what == ENTER_FORWARD ? enter_ordinal(0, out_dev) : what;
}

CUresult hook_cuMemPoolCreate(CUmemoryPool *out_pool, const CUmemPoolProps *props)
{
	enum pool_kind kind;
	struct dev dev;
	bool is_host;
	CUresult res;

	if (!ENTER_HAS(cuMemPoolCreate))
		return enter_missing();
	is_host = props && props->allocType != CU_MEM_ALLOCATION_TYPE_MANAGED &&
		  props->location.type != CU_MEM_LOCATION_TYPE_DEVICE;
	if (is_host)
		handle_expect_host();
	res = GATE_CALL(real.cuMemPoolCreate(out_pool, props));
	/* What a pool of the host holds is never known: it stays as expected. */
	if (is_host && res != CUDA_SUCCESS)
		handle_unexpect_host();
	if (res == CUDA_SUCCESS && place(props, &dev, &kind) == ENTER_CHARGE &&
	    !pool_enter(*out_pool, dev, kind)) {
		GATE_CALL(real.cuMemPoolDestroy(*out_pool));
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return res;
}

CUresult hook_cuMemPoolDestroy(CUmemoryPool pool)
{
	struct pool *taken;
	struct dev dev;
	bool was_empty;
	CUresult res;

	if (!ENTER_HAS(cuMemPoolDestroy))
		return enter_missing();
	if (!init_is_member() || !pool_device(pool, &dev))
		return GATE_CALL(real.cuMemPoolDestroy(pool));
	/* Meanwhile its figure is not to be held against the card's. */
	charge_begin();
	gpu_pool_settle(pool, 0);
	was_empty = gpu_pool_is_empty(pool);
	taken = pool_take(pool);
	res = GATE_CALL(real.cuMemPoolDestroy(pool));
	if (taken && res == CUDA_SUCCESS)
		pool_end(taken, was_empty);
	else if (taken)
		pool_put_back(taken);
	charge_look_later(dev);
	charge_over();
	return res;
}

CUresult hook_cuMemPoolTrimTo(CUmemoryPool pool, size_t keep_bytes)
{
	CUresult res;

	if (!ENTER_HAS(cuMemPoolTrimTo))
		return enter_missing();
	res = GATE_CALL(real.cuMemPoolTrimTo(pool, keep_bytes));
	if (res == CUDA_SUCCESS && init_is_member())
		gpu_pool_settle(pool, 0);
	return res;
}
