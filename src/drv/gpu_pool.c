#include "drv/gpu_pool.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "core/gate.h"
#include "core/graph.h"
#include "core/hole.h"
#include "drv/gpu_cuda.h"
#include "drv/gpu_event.h"
#include "drv/real.h"
#include "drv/relaxed.h"
#include "drv/visit.h"

#include <errno.h>

/* How long a refusal waits until the stream has come to the free of what is refused. */
#define UNDO_WAIT_NS (2 * NSEC_PER_MSEC)
/* How often a figure that another thread has overtaken is asked for again. */
enum { SETTLE_TRIES = 16 };
/* How long a free waits for its stream where no event can be had. */
#define MARK_WAIT_NS NSEC_PER_SEC
#define STREAM_NAP_NS (20 * NSEC_PER_USEC)

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
	CUcontext ctx;
	CUdevice dev;

	/* Values up to CU_STREAM_PER_THREAD are the calling thread's streams in its own context. */
	if ((uintptr_t)stream <= (uintptr_t)CU_STREAM_PER_THREAD)
		return gpu_cuda_current_device(out_ord);
	if (real.cuStreamGetDevice && real.cuStreamGetDevice(stream, &dev) == CUDA_SUCCESS) {
		out_ord->v = dev;
		return true;
	}
	return real.cuStreamGetCtx && real.cuStreamGetCtx(stream, &ctx) == CUDA_SUCCESS &&
	       gpu_cuda_context_device(ctx, out_ord);
}

static bool is_own(CUmemoryPool pool, CUdevice dev)
{
	CUmemoryPool own;

	return (real.cuDeviceGetDefaultMemPool &&
		real.cuDeviceGetDefaultMemPool(&own, dev) == CUDA_SUCCESS && own == pool) ||
	       (real.cuDeviceGetMemPool && real.cuDeviceGetMemPool(&own, dev) == CUDA_SUCCESS &&
		own == pool);
}

static bool is_own_managed(CUmemoryPool pool, CUmemLocationType type, CUdevice dev)
{
	CUmemLocation location = { .type = type, .id = dev };
	CUmemoryPool own;

	return real.cuMemGetDefaultMemPool &&
	       real.cuMemGetDefaultMemPool(&own, &location, CU_MEM_ALLOCATION_TYPE_MANAGED) ==
		       CUDA_SUCCESS &&
	       own == pool;
}

bool gpu_pool_recognise(CUmemoryPool pool, CUstream stream, struct cuda_ord *out_ord,
			enum pool_kind *out_kind)
{
	for (int d = 0; d < device_ordinals(); d++) {
		bool is_managed = is_own_managed(pool, CU_MEM_LOCATION_TYPE_DEVICE, d);

		if (!is_managed && !is_own(pool, d))
			continue;
		out_ord->v = d;
		*out_kind = is_managed ? POOL_MANAGED : POOL_DEVICE;
		return true;
	}
	/* Of no device in particular: it counts where it is used first. */
	*out_kind = POOL_MANAGED;
	return (is_own_managed(pool, CU_MEM_LOCATION_TYPE_NONE, 0) ||
		is_own_managed(pool, CU_MEM_LOCATION_TYPE_HOST, 0)) &&
	       gpu_pool_stream_device(stream, out_ord);
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

/* Has the pool give back what it does not use beyond `keep_bytes`. False where it keeps that. */
static bool trim_to(const void *pool, uint64_t keep_bytes)
{
	struct relaxed r;
	struct dev store;
	bool is_done;

	if (graph_is_store(pool, &store) || !real.cuMemPoolTrimTo)
		return false;
	r = relaxed_begin();
	hole_call_begin();
	is_done = GATE_CALL(real.cuMemPoolTrimTo((CUmemoryPool)(uintptr_t)pool, keep_bytes)) ==
		  CUDA_SUCCESS;
	hole_drop(pool);
	hole_call_end();
	relaxed_end(r);
	return is_done;
}

static bool trim(const void *pool)
{
	return trim_to(pool, 0);
}

/* What a store gives back while launches count on it is theirs. */
static bool may_fall(const void *pool)
{
	struct dev dev;

	return !graph_is_store(pool, &dev) || !graph_is_changing(dev);
}

static int settle(const void *pool, uint64_t reserved_bytes)
{
	uint64_t ticket, held;
	int rc;

	for (int tries = 0;; tries++) {
		ticket = tries < SETTLE_TRIES && may_fall(pool) ? pool_ask() : POOL_ASKED_OFTEN;
		if (!gpu_pool_held(pool, &held))
			break;
		rc = pool_settle(pool, ticket, held, reserved_bytes);
		if (rc != -EAGAIN)
			return rc;
	}
	pool_keep(pool, reserved_bytes);
	return 0;
}

int gpu_pool_settle(const void *pool, uint64_t reserved_bytes)
{
	int rc = settle(pool, reserved_bytes);

	/* What it does not use may be more than it grew past the limit. */
	return rc < 0 && trim(pool) ? settle(pool, 0) : rc;
}

int gpu_pool_settle_doubt(struct pool_doubt *d)
{
	uint64_t ticket, held;
	int rc;

	for (int tries = 0;; tries++) {
		ticket = tries < SETTLE_TRIES ? pool_ask() : POOL_ASKED_OFTEN;
		if (!gpu_pool_held(d->pool, &held))
			break;
		rc = pool_settle_doubt(d, ticket, held);
		if (rc != -EAGAIN)
			return rc;
	}
	pool_keep_doubt(d);
	return 0;
}

bool gpu_pool_of(CUdeviceptr addr, CUmemoryPool *out_pool)
{
	CUmemoryPool pool = NULL;

	if (!real.cuPointerGetAttribute ||
	    real.cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, addr) !=
		    CUDA_SUCCESS ||
	    !pool)
		return false;
	*out_pool = pool;
	return true;
}

uint64_t gpu_pool_room(CUmemoryPool pool)
{
	uint64_t held, used;

	if (!ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &held) ||
	    !ask(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used))
		return 0;
	return held > used ? held - used : 0;
}

uint64_t gpu_pool_stream_id(CUstream stream)
{
	unsigned long long id;

	return real.cuStreamGetId && real.cuStreamGetId(stream, &id) == CUDA_SUCCESS ? id : 0;
}

bool gpu_pool_keeps(CUmemoryPool pool)
{
	uint64_t held, threshold;

	return ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &held) &&
	       ask(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold) && threshold >= held;
}

bool gpu_pool_drain(CUmemoryPool pool, int64_t wait_ns)
{
	int64_t end_ns = clock_now_ns() + wait_ns;
	uint64_t held, used;

	while (trim(pool) && ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &held)) {
		if (held == 0)
			return true;
		if (!ask(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used) || used ||
		    clock_now_ns() >= end_ns)
			return false;
		clock_sleep_ns(STREAM_NAP_NS);
	}
	return false;
}

static bool refresh(struct dev dev, bool is_trimmed)
{
	const void *pool = NULL;
	bool is_any = false;

	gpu_pool_settle_marked();
	while ((pool = pool_next(dev, pool))) {
		if (is_trimmed)
			trim(pool);
		gpu_pool_settle(pool, 0);
		is_any = true;
	}
	return is_any;
}

void gpu_pool_refresh(struct dev dev)
{
	refresh(dev, false);
}

bool gpu_pool_reclaim(struct dev dev)
{
	return refresh(dev, true);
}

/* Has one pool give back some of what it does not use; returns how much. */
static uint64_t shrink(const void *pool, uint64_t bytes)
{
	uint64_t before = pool_charged(pool), room = gpu_pool_room((CUmemoryPool)(uintptr_t)pool);

	if (room == 0 || !trim_to(pool, before - bytes_least(before, bytes)))
		return 0;
	gpu_pool_settle(pool, 0);
	return bytes_beyond(before, pool_charged(pool));
}

void gpu_pool_shrink(struct dev dev, const void *last, uint64_t bytes)
{
	const void *pool = NULL;
	struct dev store;

	while (bytes && (pool = pool_next(dev, pool)))
		if (pool != last && !graph_is_store(pool, &store))
			bytes = bytes_beyond(bytes, shrink(pool, bytes));
	if (bytes)
		shrink(last, bytes);
}

/* A question to the legacy stream would break a capture in any stream that it waits for. */
static bool may_be_asked(CUstream stream)
{
	CUstreamCaptureStatus status;

	return !real.cuStreamIsCapturing ||
	       (real.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
		status == CU_STREAM_CAPTURE_STATUS_NONE);
}

void gpu_pool_await(CUstream stream, int64_t wait_ns)
{
	int64_t end_ns = clock_now_ns() + wait_ns;
	struct relaxed r = relaxed_begin();

	while (real.cuStreamQuery && may_be_asked(stream) &&
	       real.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY && clock_now_ns() < end_ns)
		clock_sleep_ns(STREAM_NAP_NS);
	relaxed_end(r);
}

void gpu_pool_undo(const struct pool_doubt *d, CUstream stream)
{
	gpu_pool_await(stream, UNDO_WAIT_NS);
	shrink(d->pool, d->bytes);
	if (pool_any_over(d->dev))
		gpu_pool_reclaim(d->dev);
}

/* A new mark of the piece's pool in the stream; 0: none can be had. */
static uint64_t new_mark(struct piece *piece, uint64_t id, CUstream stream)
{
	uint64_t mark = gpu_event_take(gpu_event_context(visit_stream_context(stream)), true);

	if (!mark || piece_add_mark(piece, id, mark))
		return mark;
	gpu_event_give(mark);
	return 0;
}

static bool is_idle(CUstream stream)
{
	return real.cuStreamQuery && may_be_asked(stream) &&
	       real.cuStreamQuery(stream) == CUDA_SUCCESS;
}

void gpu_pool_mark(struct piece *piece, CUstream stream)
{
	struct relaxed r = relaxed_begin();
	uint64_t id = gpu_pool_stream_id(stream), mark = id ? piece_mark(piece, id) : 0;

	if (id && !mark)
		mark = new_mark(piece, id, stream);
	if (!mark || !GATE_CALL(gpu_event_record(mark, stream, false))) {
		gpu_pool_await(stream, MARK_WAIT_NS);
		if (!is_idle(stream))
			piece_stay(piece);
	}
	relaxed_end(r);
}

/* Of a context that is gone, or failed, nothing goes on. */
static bool has_come(uint64_t mark)
{
	int64_t gpu_ns;

	if (gpu_event_read(mark, &gpu_ns) == GPU_EVENT_RUNNING)
		return false;
	gpu_event_give(mark);
	return true;
}

void gpu_pool_settle_marked(void)
{
	struct relaxed r;

	if (!piece_any_marked())
		return;
	r = relaxed_begin();
	piece_settle(has_come);
	relaxed_end(r);
}
