/* What a context keeps besides modules: its heaps and stacks, and green contexts. */
#include "base/bytes.h"
#include "core/gate.h"
#include "core/green.h"
#include "core/learnt.h"
#include "core/still.h"
#include "drv/gpu_cuda.h"
#include "drv/gpu_fence.h"
#include "drv/gpu_heap.h"
#include "hook/again.h"
#include "hook/first_launch.h"
#include "hook/metering.h"
#include "hook/output.h"
#include "hook/overhead.h"
#include "hook/primary.h"
#include "hook/room.h"

#include <errno.h>
#include <stdatomic.h>

/* No thread has more local memory than that, whatever the device: beyond it the driver refuses. */
#define STACK_MOST_BYTES (512u << 10)
/* The card gives heaps and buffers in blocks. */
#define HEAP_BLOCK_BYTES (UINT64_C(2) << 20)

/* More than a green context was seen to take on any card. */
#define GREEN_MOST_BYTES (UINT64_C(8) << 20)

/* What one takes, the most that was seen in this program; atomic. */
static _Atomic uint64_t green_bytes;

/* What a change of a limit will take, reserved before it. */
struct reserved {
	struct local_growth stack;
	uint64_t heap_bytes; /* 0: nothing is */
};

/* The stack's area cannot be told from local memory. */
static CUresult reserve_stack(struct local_growth *growth, size_t value)
{
	return value > STACK_MOST_BYTES ? CUDA_SUCCESS :
					  first_launch_reserve(growth, (uint32_t)value, NULL);
}

/* `bytes` that are to be taken with the call, or awaited after it. */
static CUresult reserve_bytes(struct overhead *o, uint64_t bytes, uint64_t *out_bytes)
{
	int rc;

	if (!quota_counts_contexts() || !bytes)
		return CUDA_SUCCESS;
	bytes = bytes_round_up(bytes, HEAP_BLOCK_BYTES);
	rc = charge_reserve_context(o->dev, bytes);
	if (rc == -EDQUOT && charge_ask_card(o->dev))
		rc = charge_reserve_context(o->dev, bytes);
	/* What other threads reserved is not what this call takes. */
	o->before_bytes = quota_overhead(o->dev);
	if (rc < 0)
		return enter_refused(rc, o->dev, bytes);
	o->before_bytes -= bytes_least(bytes, o->before_bytes);
	*out_bytes = bytes;
	return CUDA_SUCCESS;
}

static CUresult reserve(struct reserved *r, struct overhead *o, CUlimit limit, const size_t *before,
			size_t value)
{
	*r = (struct reserved){ .stack = { .is_growing = false } };
	if (limit == CU_LIMIT_STACK_SIZE)
		return reserve_stack(&r->stack, value);
	if (!before)
		return CUDA_SUCCESS;
	return reserve_bytes(o, system_calls_limit_bytes(limit, *before, value), &r->heap_bytes);
}

/* A limit was set from one value to another. */
struct change {
	CUlimit limit;
	size_t before, value;
};

/* After the call: a look at the card takes off what was reserved of a heap and not taken. */
static void finish(struct reserved *r, struct overhead *o, const struct change *change,
		   CUresult res)
{
	local_finish(&r->stack, res == CUDA_SUCCESS ? LOCAL_GREW : LOCAL_FAILED);
	if (!r->heap_bytes && (change->limit != CU_LIMIT_MALLOC_HEAP_SIZE || !o->counts))
		return;
	/* Before it is over: no look at the card has taken it off yet. */
	if (res != CUDA_SUCCESS)
		quota_release(o->dev, QUOTA_CONTEXT, r->heap_bytes);
	if (r->heap_bytes)
		charge_over();
	if (res == CUDA_SUCCESS && charge_reconcile(o->dev, QUOTA_CONTEXT) == -ENOTSUP)
		quota_release(o->dev, QUOTA_CONTEXT,
			      system_calls_limit_untold(change->limit, o->dev, change->before,
							change->value, r->heap_bytes));
}

/* What was launched before may lack room now, also where a launch is like an earlier one. */
static void shrink(const struct local_use *use)
{
	local_shrink(use);
	again_void();
}

/*
 * A limit that takes more than the tenant's leaves is not set; one of which that is seen only
 * afterwards is set back.
 */
CUresult hook_cuCtxSetLimit(CUlimit limit, size_t value)
{
	struct reserved reserved;
	struct overhead o;
	size_t before = value;
	CUresult res;
	bool has_before;

	if (!ENTER_HAS(cuCtxSetLimit))
		return enter_missing();
	overhead_begin(&o);
	has_before = o.counts && real.cuCtxGetLimit &&
		     real.cuCtxGetLimit(&before, limit) == CUDA_SUCCESS;
	res = reserve(&reserved, &o, limit, has_before ? &before : NULL, value);
	if (res != CUDA_SUCCESS)
		return res;
	/* What a smaller one gives back is not missing in what another thread's call takes. */
	if (o.counts)
		charge_begin();
	res = ROOM_CALL_HERE(bytes_sum(reserved.heap_bytes, reserved.stack.bytes),
			     gpu_heap_set_limit(limit, value));
	if (res == CUDA_SUCCESS)
		system_calls_limit(limit, value);
	if (o.counts)
		charge_over();
	finish(&reserved, &o, &(struct change){ limit, before, value }, res);
	if (res != CUDA_SUCCESS || overhead_finish(&o) == 0) {
		/* What functions had may be gone with a smaller stack. */
		if (res == CUDA_SUCCESS && limit == CU_LIMIT_STACK_SIZE && overhead_fell(&o))
			shrink(&reserved.stack.use);
		return res;
	}
	if (has_before && GATE_CALL(gpu_heap_set_limit(limit, before)) == CUDA_SUCCESS) {
		system_calls_limit(limit, before);
		reserved.stack.use.thread_bytes = (uint32_t)before;
		if (limit == CU_LIMIT_STACK_SIZE)
			shrink(&reserved.stack.use);
	}
	return overhead_refuse(&o);
}

/*
 * What is allocated while it is current belongs to the primary context, which is looked at like one
 * that the program retains: its end has to find it. The green context keeps it alive.
 */
static void enter_green(CUgreenCtx green, CUdevice ord)
{
	CUcontext ctx, primary;

	if (!init_is_member() || !real.cuCtxFromGreenCtx || !real.cuDevicePrimaryCtxRetain ||
	    !real.cuDevicePrimaryCtxRelease_v2 ||
	    real.cuCtxFromGreenCtx(&ctx, green) != CUDA_SUCCESS ||
	    GATE_CALL(real.cuDevicePrimaryCtxRetain(&primary, ord)) != CUDA_SUCCESS)
		return;
	primary_look(primary, ord);
	green_enter(ctx, primary);
	GATE_CALL(real.cuDevicePrimaryCtxRelease_v2(ord));
}

/* What the next one is likely to cost: what one cost in this process, before that more. */
static uint64_t likely_green_bytes(void)
{
	uint64_t seen_bytes = atomic_load(&green_bytes);

	return seen_bytes ? seen_bytes : GREEN_MOST_BYTES;
}

/* True when the card was looked at now, so that what it shows more afterwards is the call's. */
static bool look_before(struct overhead *o, struct charge_mark *out_before)
{
	if (still_reconcile_soon(o->dev, QUOTA_MODULE) != 0)
		return false;
	*out_before = charge_mark();
	o->before_bytes = quota_overhead(o->dev);
	return out_before->begun == out_before->over;
}

/*
 * Keeps what one cost, unless there were other changes meanwhile: what they took or gave back may
 * be in it. Not all cost the same: the most that was seen counts.
 */
static void learn_green(const struct charge_mark *before, uint64_t bytes)
{
	uint64_t seen = atomic_load(&green_bytes);

	if (charge_mark().begun != before->begun + 1)
		return;
	while (bytes > seen)
		if (atomic_compare_exchange_weak(&green_bytes, &seen, bytes))
			break;
}

CUresult hook_cuGreenCtxCreate(CUgreenCtx *out_green, CUdevResourceDesc desc, CUdevice dev,
			       unsigned int flags)
{
	struct charge_mark before = { 0 };
	struct output was = { 0 };
	struct overhead o;
	bool is_alone = false;
	uint64_t bytes = 0;
	CUresult res;

	if (!ENTER_HAS(cuGreenCtxCreate))
		return enter_missing();
	overhead_begin_on(&o, dev);
	if (o.is_refused)
		return enter_refusal();
	if (o.counts) {
		bytes = likely_green_bytes();
		/* The primary context comes with the first one, if it is not there yet. */
		if (!gpu_cuda_primary_active((struct cuda_ord){ dev }))
			bytes = bytes_sum(bytes, learnt_context_bytes(o.dev));
		else
			is_alone = look_before(&o, &before);
	}
	res = overhead_reserve(&o, bytes);
	if (res != CUDA_SUCCESS)
		return res;
	if (o.counts)
		was = OUTPUT_SAVE(out_green);
	res = o.counts ? ROOM_CALL(o.dev, 0, real.cuGreenCtxCreate(out_green, desc, dev, flags)) :
			 GATE_CALL(real.cuGreenCtxCreate(out_green, desc, dev, flags));
	if (res != CUDA_SUCCESS) {
		overhead_cancel(&o);
		return res;
	}
	gpu_fence_add_primary((struct cuda_ord){ dev });
	if (overhead_finish(&o) == 0) {
		/* Which device it is on, nobody says at its end. */
		overhead_drop(&o);
		if (is_alone)
			learn_green(&before, overhead_taken(&o));
		enter_green(*out_green, dev);
		return res;
	}
	GATE_CALL(real.cuGreenCtxDestroy(*out_green));
	output_restore(&was);
	return overhead_refuse(&o);
}

/* The context of its own that it is current by; NULL of an unknown one. */
static CUcontext context_of(CUgreenCtx green)
{
	CUcontext ctx;

	return real.cuCtxFromGreenCtx && real.cuCtxFromGreenCtx(&ctx, green) == CUDA_SUCCESS ? ctx :
											       NULL;
}

/* Which device it was on no call tells: the calling thread's is looked at, the others later. */
CUresult hook_cuGreenCtxDestroy(CUgreenCtx green)
{
	CUcontext ctx = NULL;
	struct overhead o;
	CUresult res;

	if (!ENTER_HAS(cuGreenCtxDestroy))
		return enter_missing();
	overhead_begin(&o);
	if (init_is_member())
		ctx = context_of(green);
	if (ctx)
		metering_end_context(ctx);
	if (o.counts)
		charge_begin();
	res = GATE_CALL(real.cuGreenCtxDestroy(green));
	if (o.counts)
		charge_over();
	if (res == CUDA_SUCCESS) {
		green_leave(ctx);
		overhead_finish(&o);
	}
	return res;
}
