#include "cuda_context.h"

#include <stdlib.h>

#include "cuda_array.h"
#include "cuda_call.h"
#include "cuda_device.h"
#include "cuda_event.h"
#include "cuda_fault.h"
#include "cuda_graph_memory.h"
#include "cuda_green.h"
#include "cuda_limit.h"
#include "cuda_memory.h"
#include "cuda_module.h"
#include "cuda_pool.h"
#include "cuda_stream.h"
#include "cuda_work.h"

enum { STACK_DEPTH = 128, CONTEXT_FLAGS = 0xff };

static struct {
	struct CUctx_st *first;
	uint64_t last_id;
	int living[MACHINE_DEVICES]; /* contexts alive on each machine device */
} contexts;

static __thread struct {
	int depth;
	struct CUctx_st *ctx[STACK_DEPTH];
} stack;

struct CUctx_st *cuda_context_first(void)
{
	return contexts.first;
}

CUresult cuda_context_current_any(struct CUctx_st **out_ctx)
{
	struct CUctx_st *top;

	if (!stack.depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	top = stack.ctx[stack.depth - 1];
	if (!top->is_alive)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*out_ctx = top->home;
	return CUDA_SUCCESS;
}

struct CUctx_st *cuda_context_top(void)
{
	return stack.ctx[stack.depth - 1];
}

CUresult cuda_context_current(struct CUctx_st **out_ctx)
{
	CUresult res = cuda_context_current_any(out_ctx);

	return res == CUDA_SUCCESS ? (*out_ctx)->error : res;
}

CUresult cuda_context_check(struct CUctx_st *ctx)
{
	for (struct CUctx_st *c = contexts.first; c; c = c->next)
		if (c == ctx)
			return c->is_alive ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuda_context_resolve(struct CUctx_st **ctx)
{
	CUresult res = cuda_context_check(*ctx);

	if (res == CUDA_SUCCESS)
		*ctx = (*ctx)->home;
	return res;
}

void cuda_context_leave(const struct CUctx_st *ctx)
{
	if (stack.depth && stack.ctx[stack.depth - 1] == ctx)
		stack.depth--;
}

void cuda_context_fail(struct CUctx_st *ctx, CUresult error)
{
	if (ctx->error == CUDA_SUCCESS)
		ctx->error = error;
}

bool cuda_context_are_flags_valid(unsigned flags)
{
	unsigned sched = flags & CU_CTX_SCHED_MASK;

	if (flags & ~(unsigned)CONTEXT_FLAGS)
		return false;
	return (sched & (sched - 1)) == 0;
}

struct CUctx_st *cuda_context_new(CUdevice dev, bool is_primary)
{
	struct CUctx_st *ctx = calloc(1, sizeof(*ctx));

	if (!ctx)
		return NULL;
	ctx->dev = dev;
	ctx->index = cuda_device_index(dev);
	ctx->is_primary = is_primary;
	ctx->home = ctx;
	ctx->next = contexts.first;
	contexts.first = ctx;
	return ctx;
}

CUresult cuda_context_start(struct CUctx_st *ctx, CUdevice dev, unsigned flags)
{
	const struct machine_device *d = cuda_device_get(dev);

	while (ctx->is_stopping)
		cuda_work_wait();
	if (ctx->is_alive)
		return CUDA_SUCCESS;
	machine_start_context();
	if (machine_take(ctx->index, d->context_bytes) != 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ctx->legacy = cuda_stream_new(ctx, 0, 0, STREAM_LEGACY);
	if (!ctx->legacy) {
		machine_give(ctx->index, d->context_bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (contexts.living[ctx->index]++ == 0)
		machine_set_context(ctx->index, true);
	ctx->id = ++contexts.last_id;
	ctx->flags = flags;
	ctx->api_version = 3020;
	ctx->error = CUDA_SUCCESS;
	ctx->peers = 0;
	cuda_limit_start(ctx);
	ctx->is_alive = true;
	return CUDA_SUCCESS;
}

void cuda_context_stop(struct CUctx_st *ctx)
{
	ctx->is_alive = false;
	ctx->is_stopping = true;
	cuda_green_stop_all(ctx);
	cuda_stream_drain(ctx);
	ctx->legacy = NULL;
	cuda_stream_delete_all(ctx);
	cuda_event_delete_all(ctx);
	cuda_module_delete_all(ctx);
	cuda_array_delete_all(ctx);
	cuda_memory_delete_all(ctx);
	cuda_limit_stop(ctx);
	machine_give(ctx->index, cuda_device_get(ctx->dev)->context_bytes);
	if (--contexts.living[ctx->index] == 0) {
		cuda_pool_empty_device(ctx->dev);
		cuda_graph_memory_empty_device(ctx->dev);
		machine_set_context(ctx->index, false);
	}
	ctx->is_stopping = false;
	cuda_work_changed();
}

static CUresult push(struct CUctx_st *ctx)
{
	if (stack.depth == STACK_DEPTH)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stack.ctx[stack.depth++] = ctx;
	return CUDA_SUCCESS;
}

static CUresult create(enum cuda_id id, CUcontext *out_ctx, unsigned flags, CUdevice dev)
{
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin(id);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_ctx || !cuda_context_are_flags_valid(flags))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	if (!cuda_device_is_valid(dev))
		return cuda_call_end(CUDA_ERROR_INVALID_DEVICE);
	if (stack.depth == STACK_DEPTH)
		return cuda_call_end(CUDA_ERROR_OUT_OF_MEMORY);
	ctx = cuda_context_new(dev, false);
	if (!ctx)
		return cuda_call_end(CUDA_ERROR_OUT_OF_MEMORY);
	res = cuda_context_start(ctx, dev, flags);
	if (res != CUDA_SUCCESS)
		return cuda_call_end(res);
	ctx->references = 1;
	push(ctx);
	*out_ctx = ctx;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuCtxCreate(CUcontext *out_ctx, unsigned int flags, CUdevice dev)
{
	return create(CUDA_ID_cuCtxCreate, out_ctx, flags, dev);
}

CUresult cuCtxCreate_v2(CUcontext *out_ctx, unsigned int flags, CUdevice dev)
{
	return create(CUDA_ID_cuCtxCreate_v2, out_ctx, flags, dev);
}

CUresult cuCtxCreate_v3(CUcontext *out_ctx, CUexecAffinityParam *params, int count,
			unsigned int flags, CUdevice dev)
{
	if ((params && count <= 0) || (!params && count != 0))
		return CUDA_ERROR_INVALID_VALUE;
	if (params && cuda_call_is_ready())
		return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
	return create(CUDA_ID_cuCtxCreate_v3, out_ctx, flags, dev);
}

CUresult cuCtxCreate_v4(CUcontext *out_ctx, CUctxCreateParams *params, unsigned int flags,
			CUdevice dev)
{
	if (params && (params->numExecAffinityParams || params->cigParams) && cuda_call_is_ready())
		return CUDA_ERROR_NOT_SUPPORTED;
	return create(CUDA_ID_cuCtxCreate_v4, out_ctx, flags, dev);
}

static CUresult destroy(enum cuda_id id, CUcontext ctx)
{
	CUresult res = cuda_call_begin(id);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuda_context_check(ctx);
	if (res == CUDA_SUCCESS && (ctx->is_primary || ctx->green))
		res = CUDA_ERROR_INVALID_CONTEXT;
	if (res != CUDA_SUCCESS)
		return cuda_call_end(res);
	cuda_context_leave(ctx);
	cuda_context_stop(ctx);
	return cuda_call_end(CUDA_SUCCESS);
}

/* One user of cuCtxAttach less; the last one ends the context. */
CUresult cuCtxDetach(CUcontext ctx)
{
	CUresult res = cuda_call_begin(CUDA_ID_cuCtxDetach);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuda_context_check(ctx);
	if (res == CUDA_SUCCESS && (ctx->is_primary || ctx->green))
		res = CUDA_ERROR_INVALID_CONTEXT;
	if (res != CUDA_SUCCESS || --ctx->references)
		return cuda_call_end(res);
	cuda_context_leave(ctx);
	cuda_context_stop(ctx);
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuCtxDestroy(CUcontext ctx)
{
	return destroy(CUDA_ID_cuCtxDestroy, ctx);
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
	return destroy(CUDA_ID_cuCtxDestroy_v2, ctx);
}

static CUresult push_current(enum cuda_id id, CUcontext ctx)
{
	CUresult res = cuda_call_begin(id);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuda_context_check(ctx);
	if (res == CUDA_SUCCESS)
		res = push(ctx);
	return cuda_call_end(res);
}

CUresult cuCtxPushCurrent(CUcontext ctx)
{
	return push_current(CUDA_ID_cuCtxPushCurrent, ctx);
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
	return push_current(CUDA_ID_cuCtxPushCurrent_v2, ctx);
}

static CUresult pop_current(enum cuda_id id, CUcontext *out_ctx)
{
	CUresult res = cuda_call_begin(id);

	if (res != CUDA_SUCCESS)
		return res;
	if (!stack.depth)
		return cuda_call_end(CUDA_ERROR_INVALID_CONTEXT);
	stack.depth--;
	if (out_ctx)
		*out_ctx = stack.ctx[stack.depth];
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuCtxPopCurrent(CUcontext *out_ctx)
{
	return pop_current(CUDA_ID_cuCtxPopCurrent, out_ctx);
}

CUresult cuCtxPopCurrent_v2(CUcontext *out_ctx)
{
	return pop_current(CUDA_ID_cuCtxPopCurrent_v2, out_ctx);
}

/* Replaces the top of the stack; NULL takes it away. */
CUresult cuCtxSetCurrent(CUcontext ctx)
{
	CUresult res = cuda_call_begin(CUDA_ID_cuCtxSetCurrent);

	if (res != CUDA_SUCCESS)
		return res;
	if (ctx) {
		res = cuda_context_check(ctx);
		if (res != CUDA_SUCCESS)
			return cuda_call_end(res);
	}
	if (stack.depth)
		stack.depth--;
	return cuda_call_end(ctx ? push(ctx) : CUDA_SUCCESS);
}

CUresult cuCtxGetCurrent(CUcontext *out_ctx)
{
	CUresult res = cuda_fault_hit(CUDA_ID_cuCtxGetCurrent);

	if (res != CUDA_SUCCESS)
		return res;
	if (!cuda_call_is_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!out_ctx)
		return CUDA_ERROR_INVALID_VALUE;
	*out_ctx = stack.depth ? stack.ctx[stack.depth - 1] : NULL;
	return CUDA_SUCCESS;
}
