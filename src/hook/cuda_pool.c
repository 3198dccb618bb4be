/*
 * Stream-ordered memory and pools: a pool is charged by what it holds of the device. A request that
 * it serves from what it holds costs nothing more, and none of this synchronises.
 */
#include "base/bytes.h"
#include "core/doubt.h"
#include "core/handle.h"
#include "core/hole.h"
#include "core/leaving.h"
#include "core/piece.h"
#include "core/pool.h"
#include "core/taken.h"
#include "drv/gpu_pool.h"
#include "hook/gated.h"
#include "hook/movable.h"
#include "hook/output.h"
#include "hook/room.h"

#include <errno.h>

/*
 * How long one waits before a refusal for what the program has freed and the stream not come to:
 * small requests rather find other room.
 */
#define FREED_WAIT_NS NSEC_PER_SEC
#define LARGE_FREED_WAIT_NS (10 * NSEC_PER_SEC)

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

/* As pool_doubt(), and what others have in doubt is waited for, a little. */
static int doubt(struct pool_doubt *d, CUmemoryPool pool, struct dev dev, uint64_t most_bytes,
		 bool is_firm)
{
	uint64_t bytes = is_firm ? bytes_sum(most_bytes, POOL_STEP_BYTES) : most_bytes;

	return DOUBT_TRY(dev, bytes, pool_doubt(d, pool, most_bytes, is_firm));
}

static int doubt_either(struct pool_doubt *d, CUmemoryPool pool, struct dev dev,
			uint64_t most_bytes)
{
	int rc = doubt(d, pool, dev, most_bytes, true);

	return rc == -EDQUOT ? doubt(d, pool, dev, most_bytes, false) : rc;
}

/* A request on its way: what is reserved for it, or that it has a hole of its own (core/hole.h). */
struct request {
	struct pool_doubt doubt;
	bool is_alone;
};

/* True when the request will be served from a hole, with the calling thread alone until it is. */
static bool find_hole(struct request *r, const struct async *a, CUmemoryPool pool)
{
	uint64_t stream;

	if (a->size_bytes <= POOL_STEP_BYTES || !hole_any())
		return false;
	stream = gpu_pool_stream_id(a->stream);
	if (!stream || !gpu_pool_keeps(pool) || !hole_alone_begin())
		return false;
	r->is_alone = hole_find(pool, stream, a->size_bytes);
	if (!r->is_alone)
		hole_alone_end();
	return r->is_alone;
}

/*
 * The pool seems to have room, but may grow all the same, and the limit has no room for that. So
 * pools make some; at last as the driver does on a full card: what the stream has yet to come to is
 * waited for.
 */
static int make_room(struct request *r, const struct async *a, CUmemoryPool pool, struct dev dev,
		     uint64_t most_bytes)
{
	struct pool_doubt *d = &r->doubt;
	int rc = doubt(d, pool, dev, most_bytes, false);

	if (rc != -EDQUOT)
		return rc;
	if (find_hole(r, a, pool))
		return 0;
	leaving_await(dev, bytes_sum(most_bytes, POOL_STEP_BYTES));
	gpu_pool_shrink(dev, pool,
			bytes_beyond(bytes_sum(most_bytes, POOL_STEP_BYTES), quota_left(dev)));
	rc = doubt_either(d, pool, dev, most_bytes);
	if (rc == -EDQUOT && charge_ask_card(dev))
		rc = doubt_either(d, pool, dev, most_bytes);
	if (rc == -EDQUOT) {
		gpu_pool_await(a->stream,
			       most_bytes > POOL_STEP_BYTES ? LARGE_FREED_WAIT_NS : FREED_WAIT_NS);
		if (charge_ask_card(dev))
			rc = doubt_either(d, pool, dev, most_bytes);
	}
	return rc;
}

/*
 * Reserves what the pool may grow by for the request, so that no growth is beyond the limit. Before
 * it is refused, pools that hold more than they use give it back.
 */
static int reserve(struct request *r, const struct async *a, CUmemoryPool pool, struct dev dev)
{
	uint64_t most_bytes = bytes_round_up(a->size_bytes, POOL_STEP_BYTES);
	struct pool_doubt *d = &r->doubt;
	int rc = pool_doubt(d, pool, most_bytes, true);

	r->is_alone = false;
	if (rc != -EDQUOT)
		return rc;
	if (is_capturing(a->stream))
		return 0;
	if (gpu_pool_room(pool) >= a->size_bytes)
		return make_room(r, a, pool, dev, most_bytes);
	leaving_await(dev, bytes_sum(most_bytes, POOL_STEP_BYTES));
	rc = doubt(d, pool, dev, most_bytes, true);
	return rc == -EDQUOT && charge_ask_card(dev) ? doubt(d, pool, dev, most_bytes, true) : rc;
}

/*
 * Settles what a call took of `pool`, which served it. Another thread may have set another current
 * pool since it was asked for: then both are settled.
 */
static int settle(struct pool_doubt *d, CUmemoryPool pool)
{
	if (pool != d->pool && !pool_enter(pool, d->dev, POOL_DEVICE)) {
		gpu_pool_settle_doubt(d);
		return -ENOMEM;
	}
	if (pool != d->pool)
		pool_doubt_move(d, pool);
	if (pool != d->pool)
		gpu_pool_settle(pool, 0);
	return gpu_pool_settle_doubt(d);
}

/* The driver gave memory of the pool; what a capture gives is a graph's. */
static void given(const struct async *a, CUmemoryPool pool)
{
	bool may_be_managed = pool_any_managed();

	if ((may_be_managed || a->size_bytes > POOL_STEP_BYTES) && is_capturing(a->stream))
		return;
	hole_given(pool, *a->out_addr, a->size_bytes);
	if (may_be_managed)
		pool_given(pool, *a->out_addr);
}

/* Calls the driver and settles. */
static int call_and_settle(struct request *r, const struct async *a, async_fn *call, struct dev dev,
			   CUresult *out_res)
{
	CUmemoryPool pool = (CUmemoryPool)(uintptr_t)r->doubt.pool;
	int rc;

	if (!r->is_alone)
		hole_call_begin();
	/* A pool takes whole units of the card, whatever it is asked for. */
	*out_res = ROOM_CALL(dev, bytes_round_up(a->size_bytes, POOL_STEP_BYTES), call(a));
	if (!a->is_named && *out_res == CUDA_SUCCESS)
		gpu_pool_of(*a->out_addr, &pool);
	if (*out_res == CUDA_SUCCESS)
		given(a, pool);
	rc = settle(&r->doubt, pool);
	if (r->is_alone)
		hole_alone_end();
	else
		hole_call_end();
	return rc;
}

/* What was given is freed again in its stream. */
static void undo(const struct async *a, free_fn *give_back)
{
	struct piece *piece = piece_take(*a->out_addr);
	CUresult res = GATE_CALL(give_back(*a->out_addr, a->stream));

	if (piece && res == CUDA_SUCCESS)
		gpu_pool_mark(piece, a->stream);
	piece_over(piece, res == CUDA_SUCCESS);
}

static CUresult allocate(const struct async *a, async_fn *call, free_fn *give_back)
{
	CUmemoryPool pool = NULL;
	struct output was;
	struct request r;
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
	rc = reserve(&r, a, pool, dev);
	if (rc == -EDQUOT && is_wrong(a->stream, &res))
		return res;
	if (rc < 0)
		return enter_refused(rc, dev, a->size_bytes);
	charge_begin();
	was = OUTPUT_SAVE(a->out_addr);
	rc = call_and_settle(&r, a, call, dev, &res);
	is_undone = rc < 0 && res == CUDA_SUCCESS && !is_capturing(a->stream);
	if (is_undone) {
		undo(a, give_back);
		output_restore(&was);
		gpu_pool_undo(&r.doubt, a->stream);
	}
	pool_undone(&r.doubt);
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
 * card's figure holds it, and it counts as overhead. An object outlasts all submitted work. `named`
 * is the stream by a name that is the same for all forms of the call.
 */
static CUresult free_async(free_fn *call, CUdeviceptr addr, CUstream stream, CUstream named)
{
	struct dev dev = { 0 };
	struct track_node *node;
	struct piece *piece;
	CUresult res;
	bool is_hole;

	if (movable_has(addr) && !is_capturing(named)) {
		if (is_wrong(named, &res))
			return res;
		if (object_free(addr) == 0) {
			charge_lent_end(addr);
			return CUDA_SUCCESS;
		}
	}
	node = init_is_member() ? charge_take(addr, &dev) : NULL;
	if (!node)
		charge_lent_end(addr);
	is_hole = !node && hole_any();
	piece = !node && piece_any() && !is_capturing(named) ? piece_take(addr) : NULL;
	if (is_hole)
		hole_free_begin(addr, gpu_pool_stream_id(named));
	res = GATE_CALL(call(addr, stream));
	if (is_hole)
		hole_free_end(addr, res == CUDA_SUCCESS);
	if (piece && res == CUDA_SUCCESS)
		gpu_pool_mark(piece, named);
	piece_over(piece, res == CUDA_SUCCESS);
	gpu_pool_settle_marked();
	if (node && res == CUDA_SUCCESS) {
		if (!charge_may_look(dev))
			gpu_pool_await(named, FREED_WAIT_NS);
		charge_end_later(node, dev);
	} else if (node) {
		charge_put_back(node, dev);
	}
	return res;
}

CUresult hook_cuMemFreeAsync(CUdeviceptr addr, CUstream stream)
{
	return ENTER_HAS(cuMemFreeAsync) ? free_async(real.cuMemFreeAsync, addr, stream, stream) :
					   enter_missing();
}

CUresult hook_cuMemFreeAsync_ptsz(CUdeviceptr addr, CUstream stream)
{
	return ENTER_HAS(cuMemFreeAsync_ptsz) ?
		       free_async(real.cuMemFreeAsync_ptsz, addr, stream, per_thread(stream)) :
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
	if (!init_is_member() || !pool_device(pool, &dev)) {
		res = GATE_CALL(real.cuMemPoolDestroy(pool));
		if (res == CUDA_SUCCESS)
			taken_pool_end(pool);
		return res;
	}
	/* Meanwhile its figure is not to be held against the card's. */
	charge_begin();
	/* Of what a destroyed pool still holds the card's figure alone tells when it goes. */
	was_empty = gpu_pool_drain(pool, charge_may_look(dev) ? 0 : FREED_WAIT_NS);
	gpu_pool_settle(pool, 0);
	taken = pool_take(pool);
	hole_drop(pool);
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
	hole_call_begin();
	res = GATE_CALL(real.cuMemPoolTrimTo(pool, keep_bytes));
	hole_drop(pool);
	hole_call_end();
	if (res == CUDA_SUCCESS && init_is_member())
		gpu_pool_settle(pool, 0);
	return res;
}
