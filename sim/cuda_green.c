#include "cuda_green.h"

#include <stdlib.h>

#include "cuda_call.h"
#include "cuda_capture.h"
#include "cuda_context.h"
#include "cuda_device.h"
#include "cuda_resource.h"
#include "cuda_stream.h"

/* What one costs, as seen on a card. */
#define GREEN_BYTES ((uint64_t)6 << 20)

static struct {
	struct CUgreenCtx_st *first;
	uint64_t last_id;
} greens; /* the driver's lock */

static CUresult check_any(const struct CUgreenCtx_st *green)
{
	for (const struct CUgreenCtx_st *g = greens.first; g; g = g->next)
		if (g == green)
			return g->is_alive ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuda_green_check(CUgreenCtx green)
{
	CUresult res = check_any(green);

	return res == CUDA_SUCCESS ? green->view->home->error : res;
}

unsigned cuda_green_sms(const struct CUgreenCtx_st *green, CUdevice dev)
{
	return green ? green->sms : cuda_device_get(dev)->sms;
}

static void stop(struct CUgreenCtx_st *green)
{
	green->is_alive = false;
	green->view->is_alive = false;
	green->stream = NULL;
	machine_give(green->view->index, GREEN_BYTES);
}

void cuda_green_stop_all(const struct CUctx_st *ctx)
{
	for (struct CUgreenCtx_st *g = greens.first; g; g = g->next)
		if (g->is_alive && g->view->home == ctx)
			stop(g);
}

/* An unborn one with its view. NULL when host memory is out. */
static struct CUgreenCtx_st *new_green(CUdevice dev, unsigned sms)
{
	struct CUgreenCtx_st *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->view = cuda_context_new(dev, false);
	if (!g->view) {
		free(g);
		return NULL;
	}
	g->view->green = g;
	g->sms = sms;
	g->id = ++greens.last_id;
	g->next = greens.first;
	greens.first = g;
	return g;
}

/* The primary context is retained. */
static CUresult start(struct CUgreenCtx_st *green, struct CUctx_st *primary)
{
	if (machine_take(primary->index, GREEN_BYTES) != 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	green->stream = cuda_stream_new(primary, CU_STREAM_NON_BLOCKING, 0, STREAM_GREEN);
	if (!green->stream) {
		machine_give(primary->index, GREEN_BYTES);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	green->stream->green = green;
	green->view->home = primary;
	green->view->is_alive = true;
	green->is_alive = true;
	return CUDA_SUCCESS;
}

static CUresult create(CUdevice dev, unsigned sms, CUgreenCtx *out_green)
{
	struct CUgreenCtx_st *green;
	struct CUctx_st *primary;
	CUresult res = cuda_primary_retain(dev, &primary);

	if (res != CUDA_SUCCESS)
		return res;
	green = new_green(dev, sms);
	res = green ? start(green, primary) : CUDA_ERROR_OUT_OF_MEMORY;
	if (res == CUDA_SUCCESS)
		*out_green = green;
	else
		cuda_primary_release(primary);
	return res;
}

CUresult cuGreenCtxCreate(CUgreenCtx *out_green, CUdevResourceDesc desc, CUdevice dev,
			  unsigned int flags)
{
	CUresult res = cuda_call_begin(CUDA_ID_cuGreenCtxCreate);
	unsigned sms = 0;
	CUdevice its_dev;

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_green || (flags & ~(unsigned)CU_GREEN_CTX_DEFAULT_STREAM))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	if (!cuda_device_is_valid(dev))
		return cuda_call_end(CUDA_ERROR_INVALID_DEVICE);
	res = cuda_resource_read(desc, &its_dev, &sms);
	if (res == CUDA_SUCCESS && its_dev != dev)
		res = CUDA_ERROR_INVALID_VALUE;
	if (res == CUDA_SUCCESS)
		res = create(dev, sms, out_green);
	return cuda_call_end(res);
}

/* Its streams stay, detached, until they are destroyed; captures in them are lost. */
CUresult cuGreenCtxDestroy(CUgreenCtx green)
{
	CUresult res = cuda_call_begin(CUDA_ID_cuGreenCtxDestroy);
	struct CUctx_st *primary;

	if (res != CUDA_SUCCESS)
		return res;
	res = check_any(green);
	if (res != CUDA_SUCCESS)
		return cuda_call_end(res);
	primary = green->view->home;
	cuda_context_leave(green->view);
	cuda_stream_drain(primary);
	if (!green->is_alive)
		return cuda_call_end(CUDA_ERROR_CONTEXT_IS_DESTROYED);
	for (struct CUstream_st *s = primary->streams; s; s = s->next)
		if (s->green == green && s->capture)
			(void)cuda_capture_check_stream(s);
	cuda_stream_delete(green->stream);
	stop(green);
	cuda_primary_release(primary);
	return cuda_call_end(CUDA_SUCCESS);
}

/* Starts a question about a green context. */
static CUresult begin(enum cuda_id id, CUgreenCtx green, const void *out)
{
	CUresult res = cuda_call_begin(id);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuda_green_check(green);
	if (res == CUDA_SUCCESS && !out)
		res = CUDA_ERROR_INVALID_VALUE;
	return res == CUDA_SUCCESS ? res : cuda_call_end(res);
}

CUresult cuCtxFromGreenCtx(CUcontext *out_ctx, CUgreenCtx green)
{
	CUresult res = begin(CUDA_ID_cuCtxFromGreenCtx, green, out_ctx);

	if (res != CUDA_SUCCESS)
		return res;
	*out_ctx = green->view;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuGreenCtxGetId(CUgreenCtx green, unsigned long long *out_id)
{
	CUresult res = begin(CUDA_ID_cuGreenCtxGetId, green, out_id);

	if (res != CUDA_SUCCESS)
		return res;
	*out_id = green->id;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx green, CUdevResource *out_resource,
				  CUdevResourceType type)
{
	CUresult res = begin(CUDA_ID_cuGreenCtxGetDevResource, green, out_resource);

	if (res != CUDA_SUCCESS)
		return res;
	return cuda_call_end(cuda_resource_get(green->view->dev, green->sms, type, out_resource));
}

CUresult cuGreenCtxStreamCreate(CUstream *out_stream, CUgreenCtx green, unsigned int flags,
				int priority)
{
	CUresult res = begin(CUDA_ID_cuGreenCtxStreamCreate, green, out_stream);
	struct CUstream_st *stream;

	if (res != CUDA_SUCCESS)
		return res;
	if (flags != CU_STREAM_NON_BLOCKING)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	stream = cuda_stream_new(green->view->home, flags, cuda_stream_priority(priority),
				 STREAM_CREATED);
	if (!stream)
		return cuda_call_end(CUDA_ERROR_OUT_OF_MEMORY);
	stream->green = green;
	*out_stream = stream;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuStreamGetGreenCtx(CUstream handle, CUgreenCtx *out_green)
{
	CUresult res = cuda_call_begin(CUDA_ID_cuStreamGetGreenCtx);
	struct CUstream_st *stream;

	if (res != CUDA_SUCCESS)
		return res;
	res = out_green ? cuda_stream_find(handle, DEFAULT_LEGACY, &stream) :
			  CUDA_ERROR_INVALID_VALUE;
	if (res == CUDA_SUCCESS)
		*out_green = stream->green;
	return cuda_call_end(res);
}
