/* Contexts: what they cost, and what goes with them. */
#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "base/sys.h"
#include "base/units.h"
#include "core/track.h"
#include "drv/gpu_cuda.h"
#include "drv/sample_nvml.h"
#include "hook/enter.h"

#include <errno.h>
#include <stdatomic.h>

/* A context takes a tenth of a second; some cards are woken up first. */
#define MAKER_WAIT_NS (5 * NSEC_PER_SEC)

struct context_state {
	/* The primary context of each device, as retained last; atomic. */
	_Atomic(const void *) primary[RATION_DEVICES];
	/* The thread that makes the primary context of each device, 0: none; a futex. */
	_Atomic unsigned maker_tid[RATION_DEVICES];
	/* Contexts that were begun on each device, and how many of them are over; atomic. */
	_Atomic unsigned begun[RATION_DEVICES], ended[RATION_DEVICES];
};
PROCESS_STATE(context_state, state);

/* A context under way: from "may I" to "it is mine". */
struct making {
	struct dev dev;
	bool is_maker;   /* of the primary context: lets the next one look when it is over */
	bool was_alone;  /* no other was under way when it began */
	unsigned number; /* among those of this process */
	uint64_t expected_bytes; /* reserved: what one was seen to cost; 0 = not known yet */
	uint64_t before_bytes;   /* overhead of this process before it */
};

static uint64_t overhead_bytes(struct dev dev)
{
	return quota_held(dev, QUOTA_CONTEXT) + quota_held(dev, QUOTA_MODULE);
}

static CUresult too_small(struct dev dev, uint64_t context_bytes)
{
	log_error(
		"device %d (%.12s): a context needs %llu MiB and the limit leaves %llu of %llu MiB",
		dev.v, quota_uuid(dev), (unsigned long long)((context_bytes + MIB - 1) / MIB),
		(unsigned long long)(quota_left(dev) / MIB),
		(unsigned long long)(quota_limit(dev) / MIB));
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static void started(struct making *m)
{
	m->was_alone = atomic_load(&state.s.begun[m->dev.v]) ==
		       atomic_load(&state.s.ended[m->dev.v]);
	m->number = atomic_fetch_add(&state.s.begun[m->dev.v], 1) + 1;
	charge_begin();
}

static void ended_making(struct making *m)
{
	charge_over();
	atomic_fetch_add(&state.s.ended[m->dev.v], 1);
}

/* True when what the card gives now and gave before tells the cost of this one. */
static bool is_alone(const struct making *m)
{
	return m->was_alone && atomic_load(&state.s.begun[m->dev.v]) == m->number;
}

static void over(struct making *m)
{
	if (!m->is_maker)
		return;
	atomic_store(&state.s.maker_tid[m->dev.v], 0);
	sys_futex_wake_all(&state.s.maker_tid[m->dev.v]);
	m->is_maker = false;
}

/* No refusal stands on a stale figure: the card is asked before. */
static int reserve_bytes(struct making *m)
{
	int rc = quota_reserve(m->dev, QUOTA_CONTEXT, m->expected_bytes);

	if (rc != -EDQUOT || charge_reconcile(m->dev, QUOTA_CONTEXT) != 0)
		return rc;
	m->before_bytes = overhead_bytes(m->dev);
	return quota_reserve(m->dev, QUOTA_CONTEXT, m->expected_bytes);
}

/* Reserves what a context was last seen to cost. */
static enum enter reserve(struct making *m, CUresult *out_res)
{
	m->before_bytes = overhead_bytes(m->dev);
	m->expected_bytes = quota_counts_contexts() ? quota_context_bytes(m->dev) : 0;
	if (m->expected_bytes && reserve_bytes(m) == -EDQUOT) {
		over(m);
		*out_res = too_small(m->dev, m->expected_bytes);
		return ENTER_REFUSE;
	}
	started(m);
	return ENTER_CHARGE;
}

static enum enter enter(struct making *m, CUdevice ord, CUresult *out_res)
{
	enum enter what = enter_ordinal(ord, &m->dev);

	m->is_maker = false;
	if (what == ENTER_REFUSE)
		*out_res = enter_refusal();
	if (what == ENTER_CHARGE)
		process_wipe_on_fork(&state, sizeof(state));
	return what;
}

static enum enter begin(struct making *m, CUdevice ord, CUresult *out_res)
{
	enum enter what = enter(m, ord, out_res);

	return what == ENTER_CHARGE ? reserve(m, out_res) : what;
}

/*
 * Becomes the one thread that makes the primary context, so that two do not reserve for one. Gives
 * up on it after a time, and in a signal handler that interrupted the maker.
 */
static bool become_maker(struct dev dev)
{
	_Atomic unsigned *maker_tid = &state.s.maker_tid[dev.v];
	unsigned me = (unsigned)sys_gettid(), owner;
	int64_t end_ns = clock_now_ns() + MAKER_WAIT_NS;

	for (;;) {
		owner = 0;
		if (atomic_compare_exchange_strong(maker_tid, &owner, me))
			return true;
		if (owner == me || clock_now_ns() >= end_ns)
			return false;
		sys_futex_wait(maker_tid, owner, 100 * NSEC_PER_MSEC);
	}
}

/* As begin() for the primary context; ENTER_FORWARD when it is there. */
static enum enter begin_primary(struct making *m, CUdevice ord, CUresult *out_res)
{
	enum enter what = enter(m, ord, out_res);

	if (what != ENTER_CHARGE)
		return what;
	m->is_maker = become_maker(m->dev);
	if (gpu_cuda_primary_active((struct cuda_ord){ ord })) {
		over(m);
		return ENTER_FORWARD;
	}
	return reserve(m, out_res);
}

static void give_up(struct making *m)
{
	ended_making(m);
	/* Where the card can be asked, a look at it may have taken the reservation off before. */
	if (charge_reconcile(m->dev, QUOTA_CONTEXT) == -ENOTSUP)
		quota_release(m->dev, QUOTA_CONTEXT, m->expected_bytes);
	over(m);
}

/*
 * The context is there: what does it really cost? 0, or -EDQUOT when the limit is passed by it; the
 * caller then ends the context.
 */
static int finish(struct making *m, uint64_t *out_cost_bytes)
{
	uint64_t limit = quota_limit(m->dev), now_bytes;

	ended_making(m);
	*out_cost_bytes = m->expected_bytes;
	if (charge_reconcile(m->dev, QUOTA_CONTEXT) < 0)
		return 0;
	now_bytes = overhead_bytes(m->dev);
	*out_cost_bytes = now_bytes > m->before_bytes ? now_bytes - m->before_bytes : 0;
	if (*out_cost_bytes && is_alone(m))
		quota_learn_context(m->dev, *out_cost_bytes);
	return limit && quota_used(m->dev) > limit ? -EDQUOT : 0;
}

/* After a context of `dev` went: its allocations are gone, and its cost. */
static void ended(struct dev dev, const void *ctx, uint64_t mark)
{
	charge_drop_context(ctx, mark);
	charge_over();
	if (charge_reconcile(dev, QUOTA_CONTEXT) == -ENOTSUP)
		quota_release(dev, QUOTA_CONTEXT, quota_context_bytes(dev));
	enter_forget_context(dev);
}

/* One create call with its arguments bound: the four forms differ in those alone. */
struct create {
	CUcontext *out_ctx;
	CUdevice ord;
	unsigned int flags;
	CUexecAffinityParam *affinity;
	int affinity_count;
	CUctxCreateParams *params;
};

typedef CUresult create_fn(const struct create *c);

static CUresult create(create_fn *call, const struct create *c)
{
	struct making m;
	uint64_t cost_bytes;
	CUresult res;
	enum enter what = begin(&m, c->ord, &res);

	if (what == ENTER_REFUSE)
		return res;
	res = call(c);
	if (what == ENTER_FORWARD)
		return res;
	if (res != CUDA_SUCCESS) {
		give_up(&m);
		return res;
	}
	if (finish(&m, &cost_bytes) == 0)
		return CUDA_SUCCESS;
	real.cuCtxDestroy_v2(*c->out_ctx);
	charge_reconcile(m.dev, QUOTA_CONTEXT);
	return too_small(m.dev, cost_bytes);
}

static CUresult create_v1(const struct create *c)
{
	return real.cuCtxCreate(c->out_ctx, c->flags, c->ord);
}

static CUresult create_v2(const struct create *c)
{
	return real.cuCtxCreate_v2(c->out_ctx, c->flags, c->ord);
}

static CUresult create_v3(const struct create *c)
{
	return real.cuCtxCreate_v3(c->out_ctx, c->affinity, c->affinity_count, c->flags, c->ord);
}

static CUresult create_v4(const struct create *c)
{
	return real.cuCtxCreate_v4(c->out_ctx, c->params, c->flags, c->ord);
}

CUresult hook_cuCtxCreate(CUcontext *out_ctx, unsigned int flags, CUdevice dev)
{
	struct create c = { .out_ctx = out_ctx, .ord = dev, .flags = flags };

	return ENTER_HAS(cuCtxCreate) ? create(create_v1, &c) : enter_missing();
}

CUresult hook_cuCtxCreate_v2(CUcontext *out_ctx, unsigned int flags, CUdevice dev)
{
	struct create c = { .out_ctx = out_ctx, .ord = dev, .flags = flags };

	return ENTER_HAS(cuCtxCreate_v2) ? create(create_v2, &c) : enter_missing();
}

CUresult hook_cuCtxCreate_v3(CUcontext *out_ctx, CUexecAffinityParam *params, int count,
			     unsigned int flags, CUdevice dev)
{
	struct create c = { .out_ctx = out_ctx,
			    .ord = dev,
			    .flags = flags,
			    .affinity = params,
			    .affinity_count = count };

	return ENTER_HAS(cuCtxCreate_v3) ? create(create_v3, &c) : enter_missing();
}

CUresult hook_cuCtxCreate_v4(CUcontext *out_ctx, CUctxCreateParams *params, unsigned int flags,
			     CUdevice dev)
{
	struct create c = { .out_ctx = out_ctx, .ord = dev, .flags = flags, .params = params };

	return ENTER_HAS(cuCtxCreate_v4) ? create(create_v4, &c) : enter_missing();
}

/* Which device a context is on shows only while it is current: all that have one are looked at. */
static CUresult destroy(CUresult (*call)(CUcontext), CUcontext ctx)
{
	uint64_t mark;
	CUresult res;

	if (!init_is_member())
		return call(ctx);
	mark = track_mark();
	charge_begin();
	res = call(ctx);
	if (res == CUDA_SUCCESS)
		charge_drop_context(ctx, mark);
	charge_over();
	for (int d = 0; res == CUDA_SUCCESS && d < RATION_DEVICES; d++) {
		struct dev dev = { d };

		if (quota_held(dev, QUOTA_CONTEXT) == 0)
			continue;
		charge_reconcile(dev, QUOTA_CONTEXT);
		enter_forget_context(dev);
	}
	return res;
}

CUresult hook_cuCtxDestroy_v2(CUcontext ctx)
{
	return ENTER_HAS(cuCtxDestroy_v2) ? destroy(real.cuCtxDestroy_v2, ctx) : enter_missing();
}

CUresult hook_cuCtxDestroy(CUcontext ctx)
{
	return ENTER_HAS(cuCtxDestroy) ? destroy(real.cuCtxDestroy, ctx) : enter_missing();
}

static void release_primary(CUdevice ord)
{
	if (real.cuDevicePrimaryCtxRelease_v2)
		real.cuDevicePrimaryCtxRelease_v2(ord);
	else if (real.cuDevicePrimaryCtxRelease)
		real.cuDevicePrimaryCtxRelease(ord);
}

CUresult hook_cuDevicePrimaryCtxRetain(CUcontext *out_ctx, CUdevice ord)
{
	enum enter what = ENTER_FORWARD;
	uint64_t cost_bytes;
	struct making m;
	CUresult res;
	int rc;

	if (!ENTER_HAS(cuDevicePrimaryCtxRetain))
		return enter_missing();
	/* Only the first reference makes the context. */
	if (out_ctx && !gpu_cuda_primary_active((struct cuda_ord){ ord }))
		what = begin_primary(&m, ord, &res);
	if (what == ENTER_REFUSE)
		return res;
	res = real.cuDevicePrimaryCtxRetain(out_ctx, ord);
	if (what == ENTER_FORWARD)
		return res;
	if (res != CUDA_SUCCESS) {
		give_up(&m);
		return res;
	}
	atomic_store(&state.s.primary[m.dev.v], *out_ctx);
	rc = finish(&m, &cost_bytes);
	if (rc < 0) {
		release_primary(ord);
		charge_reconcile(m.dev, QUOTA_CONTEXT);
	}
	over(&m);
	return rc < 0 ? too_small(m.dev, cost_bytes) : CUDA_SUCCESS;
}

/* Release and reset of a primary context: gone only if the driver says so afterwards. */
static CUresult end_primary(CUresult (*call)(CUdevice), CUdevice ord)
{
	struct dev dev;
	uint64_t mark;
	CUresult res;

	if (!init_is_member() || !device_by_ordinal((struct cuda_ord){ ord }, &dev))
		return call(ord);
	mark = track_mark();
	charge_begin();
	res = call(ord);
	if (res == CUDA_SUCCESS && !gpu_cuda_primary_active((struct cuda_ord){ ord }))
		ended(dev, atomic_load(&state.s.primary[dev.v]), mark);
	else
		charge_over();
	return res;
}

CUresult hook_cuDevicePrimaryCtxRelease(CUdevice ord)
{
	return ENTER_HAS(cuDevicePrimaryCtxRelease) ?
		       end_primary(real.cuDevicePrimaryCtxRelease, ord) :
		       enter_missing();
}

CUresult hook_cuDevicePrimaryCtxRelease_v2(CUdevice ord)
{
	return ENTER_HAS(cuDevicePrimaryCtxRelease_v2) ?
		       end_primary(real.cuDevicePrimaryCtxRelease_v2, ord) :
		       enter_missing();
}

CUresult hook_cuDevicePrimaryCtxReset(CUdevice ord)
{
	return ENTER_HAS(cuDevicePrimaryCtxReset) ? end_primary(real.cuDevicePrimaryCtxReset, ord) :
						    enter_missing();
}

CUresult hook_cuDevicePrimaryCtxReset_v2(CUdevice ord)
{
	return ENTER_HAS(cuDevicePrimaryCtxReset_v2) ?
		       end_primary(real.cuDevicePrimaryCtxReset_v2, ord) :
		       enter_missing();
}
