/* Contexts: what they cost, and what goes with them. */
#include "core/context.h"
#include "core/library.h"
#include "core/local.h"
#include "core/lodger.h"
#include "core/module.h"
#include "core/object_context.h"
#include "core/promise.h"
#include "core/small.h"
#include "core/tiles.h"
#include "core/untold.h"
#include "drv/capture.h"
#include "drv/gpu_cuda.h"
#include "drv/gpu_fence.h"
#include "drv/gpu_heap.h"
#include "hook/gated.h"
#include "hook/ipc_import.h"
#include "hook/making.h"
#include "hook/metering.h"
#include "hook/output.h"
#include "hook/overhead.h"
#include "hook/primary.h"
#include "hook/room.h"

#include <errno.h>

/*
 * After a context of `dev` went: its cost is off. What it was charged with counts only where the
 * driver's figure cannot be had.
 */
static void uncharge(struct dev dev, uint64_t bytes)
{
	if (charge_reconcile(dev, QUOTA_CONTEXT) == -ENOTSUP)
		quota_release(dev, QUOTA_CONTEXT, bytes);
	small_settle(dev);
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

/* The flags that there are; at most one way to wait. */
#define KNOWN_FLAGS 0xffu

/* False for what the driver refuses for its arguments, before it looks for room. */
static bool is_plausible(const struct create *c)
{
	unsigned sched = c->flags & CU_CTX_SCHED_MASK;

	return c->out_ctx && !(c->flags & ~KNOWN_FLAGS) && !(sched & (sched - 1));
}

/* Where it makes one after all, that is seen on the card. */
static CUresult create_implausible(create_fn *call, const struct create *c)
{
	CUresult res = GATE_CALL(call(c));
	struct dev dev;

	if (res == CUDA_SUCCESS)
		gpu_fence_add_context(*c->out_ctx, (struct cuda_ord){ c->ord }, false);
	if (res == CUDA_SUCCESS && enter_ordinal(c->ord, &dev) == ENTER_CHARGE)
		charge_reconcile(dev, QUOTA_CONTEXT);
	return res;
}

static CUresult create(create_fn *call, const struct create *c)
{
	struct output was;
	struct making m;
	CUresult res;
	enum enter what;

	if (!is_plausible(c))
		return create_implausible(call, c);
	what = making_begin(&m, c->ord, &res);
	if (what == ENTER_REFUSE)
		return res;
	if (what == ENTER_FORWARD)
		return GATE_CALL(call(c));
	was = OUTPUT_SAVE(c->out_ctx);
	res = ROOM_CALL(m.dev, m.expected_bytes, call(c));
	if (res != CUDA_SUCCESS) {
		making_give_up(&m);
		return res;
	}
	if (making_finish(&m, *c->out_ctx) == 0) {
		gpu_fence_add_context(*c->out_ctx, (struct cuda_ord){ c->ord }, false);
		return CUDA_SUCCESS;
	}
	charge_begin();
	GATE_CALL(real.cuCtxDestroy_v2(*c->out_ctx));
	charge_over();
	output_restore(&was);
	return making_refuse(&m);
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

/* Contexts that we did not see being made: all devices that have one are looked at. */
static void look_at_all(void)
{
	for (int d = 0; d < RATION_DEVICES; d++) {
		struct dev dev = { d };

		if (quota_held(dev, QUOTA_CONTEXT))
			uncharge(dev, 0);
	}
}

/*
 * A context that is about to end, taken out: its record, if there is one, its local memory and its
 * objects.
 */
struct ending {
	CUcontext ctx;
	uint32_t was_in; /* of the gate */
	struct context *context;
	struct local_area *area;
	struct object_context *objects;
	struct ipc_import *imports;
	uint64_t mark;     /* of what is tracked */
	uint64_t contexts; /* context_mark(): what comes to a context of that handle later stays */
};

/*
 * Inside the gate until the call is over: who has it shut needs contexts to move memory in, so that
 * nothing that is about to end may wait for it to open.
 */
static void begin_ending(struct ending *e)
{
	e->was_in = gate_enter();
	gpu_fence_ending(e->ctx);
	gpu_heap_end_context(e->ctx, e);
	e->mark = track_mark();
	e->contexts = context_mark();
}

/* It has ended, with what is mapped in its arrays. */
static void drop_memory(const struct ending *e)
{
	uint64_t freed_bytes[RATION_DEVICES] = { 0 };

	charge_drop_context(e->ctx, e->mark);
	tiles_end_context(e->ctx, e->contexts, freed_bytes);
	charge_freed_handles(freed_bytes);
}

/* After the call that should end it. */
static CUresult end_context(CUresult res, const struct ending *e)
{
	bool is_known = e->context != NULL;
	struct untold_bytes untold = { 0 };
	struct context_cost cost;

	gpu_fence_ended(e->ctx, res == CUDA_SUCCESS);
	if (res == CUDA_SUCCESS)
		capture_end_context(e->ctx);
	gate_leave(e->was_in);
	if (res == CUDA_SUCCESS)
		drop_memory(e);
	charge_over();
	if (res == CUDA_SUCCESS) {
		cost = context_end(e->context);
		cost.bytes += local_end(e->area, e->contexts);
		library_end_context(e->ctx, e->contexts);
		module_end_context(e->ctx, e->contexts);
		lodger_end_context(e->ctx, e->contexts);
		promise_end_context(e);
		untold_take_context(e->ctx, e->contexts, &untold);
		object_context_end(e->objects);
		ipc_import_end(e->imports);
	} else {
		promise_rename(e, e->ctx);
		cost = context_put_back(e->context);
		local_put_back(e->area);
		object_context_put_back(e->objects);
		ipc_import_put_back(e->imports);
	}
	if (res == CUDA_SUCCESS && !is_known)
		look_at_all();
	else if (res == CUDA_SUCCESS || cost.bytes)
		uncharge(cost.dev, cost.bytes);
	overhead_give_back(&untold);
	return res;
}

static CUresult destroy(CUresult (*call)(CUcontext), CUcontext ctx)
{
	struct ending e = { .ctx = ctx };

	if (!init_is_member())
		return GATE_CALL(call(ctx));
	metering_end_context(ctx);
	begin_ending(&e);
	charge_begin();
	e.context = context_take(ctx, e.contexts);
	e.area = local_take(ctx);
	e.objects = object_context_take(ctx);
	e.imports = ipc_import_take(ctx);
	return end_context(call(ctx), &e);
}

CUresult hook_cuCtxDestroy_v2(CUcontext ctx)
{
	return ENTER_HAS(cuCtxDestroy_v2) ? destroy(real.cuCtxDestroy_v2, ctx) : enter_missing();
}

CUresult hook_cuCtxDestroy(CUcontext ctx)
{
	return ENTER_HAS(cuCtxDestroy) ? destroy(real.cuCtxDestroy, ctx) : enter_missing();
}

CUresult hook_cuCtxAttach(CUcontext *out_ctx, unsigned int flags)
{
	CUresult res;

	if (!ENTER_HAS(cuCtxAttach))
		return enter_missing();
	res = GATE_CALL(real.cuCtxAttach(out_ctx, flags));
	if (res == CUDA_SUCCESS && init_is_member())
		context_attach(*out_ctx);
	return res;
}

/* The last user ends the context. */
CUresult hook_cuCtxDetach(CUcontext ctx)
{
	struct ending e = { .ctx = ctx };
	CUresult res;

	if (!ENTER_HAS(cuCtxDetach))
		return enter_missing();
	if (!init_is_member())
		return GATE_CALL(real.cuCtxDetach(ctx));
	/* If it is not its end, what is launched next begins as in a new one. */
	metering_end_context(ctx);
	begin_ending(&e);
	charge_begin();
	if (context_detach(ctx, &e.context)) {
		e.area = local_take(ctx);
		e.objects = object_context_take(ctx);
		e.imports = ipc_import_take(ctx);
		return end_context(real.cuCtxDetach(ctx), &e);
	}
	res = real.cuCtxDetach(ctx);
	gpu_fence_ended(ctx, false);
	promise_rename(&e, ctx);
	gate_leave(e.was_in);
	charge_over();
	if (res == CUDA_SUCCESS)
		look_at_all();
	else
		context_attach(ctx);
	return res;
}

static void release_primary(CUdevice ord)
{
	if (real.cuDevicePrimaryCtxRelease_v2)
		GATE_CALL(real.cuDevicePrimaryCtxRelease_v2(ord));
	else if (real.cuDevicePrimaryCtxRelease)
		GATE_CALL(real.cuDevicePrimaryCtxRelease(ord));
}

CUresult hook_cuDevicePrimaryCtxRetain(CUcontext *out_ctx, CUdevice ord)
{
	enum enter what = ENTER_FORWARD;
	struct output was;
	struct making m;
	CUresult res;
	int rc;

	if (!ENTER_HAS(cuDevicePrimaryCtxRetain))
		return enter_missing();
	/* Only the first reference makes the context. */
	if (out_ctx && !gpu_cuda_primary_active((struct cuda_ord){ ord }))
		what = making_begin_primary(&m, ord, &res);
	if (what == ENTER_REFUSE)
		return res;
	if (what == ENTER_FORWARD) {
		res = GATE_CALL(real.cuDevicePrimaryCtxRetain(out_ctx, ord));
		if (res == CUDA_SUCCESS)
			primary_look(*out_ctx, ord);
		return res;
	}
	was = OUTPUT_SAVE(out_ctx);
	res = ROOM_CALL(m.dev, m.expected_bytes, real.cuDevicePrimaryCtxRetain(out_ctx, ord));
	if (res != CUDA_SUCCESS) {
		making_give_up(&m);
		return res;
	}
	primary_note(m.dev, *out_ctx);
	rc = making_finish(&m, *out_ctx);
	if (rc == 0)
		gpu_fence_add_context(*out_ctx, (struct cuda_ord){ ord }, true);
	if (rc < 0) {
		charge_begin();
		release_primary(ord);
		charge_over();
		output_restore(&was);
		res = making_refuse(&m);
	}
	making_over(&m);
	return res;
}

/*
 * Release and reset of a primary context. It is gone if the driver says so afterwards, or if
 * another thread saw that and began to make a new one.
 */
static CUresult end_primary(CUresult (*call)(CUdevice), CUdevice ord)
{
	struct ending e = { 0 };
	struct untold_bytes untold = { 0 };
	unsigned primaries;
	struct dev dev;
	bool is_there;
	CUresult res;

	if (!init_is_member() || !device_by_ordinal((struct cuda_ord){ ord }, &dev))
		return GATE_CALL(call(ord));
	e.ctx = (CUcontext)(uintptr_t)primary_last(dev);
	primaries = making_primaries(dev);
	/* If it is not its end, what is launched next begins as in a new one. */
	metering_end_context(e.ctx);
	begin_ending(&e);
	charge_begin();
	e.area = local_take(e.ctx);
	e.objects = object_context_take(e.ctx);
	e.imports = ipc_import_take(e.ctx);
	res = call(ord);
	is_there = res != CUDA_SUCCESS || (gpu_cuda_primary_active((struct cuda_ord){ ord }) &&
					   making_primaries(dev) == primaries);
	gpu_fence_ended(e.ctx, !is_there);
	if (!is_there)
		capture_end_context(e.ctx);
	gate_leave(e.was_in);
	if (is_there) {
		promise_rename(&e, e.ctx);
		charge_over();
		local_put_back(e.area);
		object_context_put_back(e.objects);
		ipc_import_put_back(e.imports);
		return res;
	}
	drop_memory(&e);
	charge_over();
	library_end_context(e.ctx, e.contexts);
	module_end_context(e.ctx, e.contexts);
	lodger_end_context(e.ctx, e.contexts);
	promise_end_context(&e);
	untold_take_context(e.ctx, e.contexts, &untold);
	object_context_end(e.objects);
	ipc_import_end(e.imports);
	uncharge(dev, context_end(context_take(e.ctx, e.contexts)).bytes +
			      local_end(e.area, e.contexts));
	overhead_give_back(&untold);
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
