#include "drv/gpu_copy.h"

#include "base/clock.h"
#include "drv/gpu_fence.h"
#include "drv/real.h"
#include "drv/status.h"

#include <errno.h>

#define NAP_NS (20 * NSEC_PER_USEC)

static bool has_calls(void)
{
	return real.cuCtxPushCurrent_v2 && real.cuCtxPopCurrent_v2 && real.cuStreamCreate &&
	       real.cuStreamQuery && real.cuMemcpyAsync && real.cuMemcpyDtoHAsync_v2 &&
	       real.cuMemcpyHtoDAsync_v2;
}

static int make_streams(struct gpu_copy *copy)
{
	int rc = 0;

	for (int i = 0; i < GPU_COPY_WAYS && rc == 0; i++) {
		if (copy->streams[i])
			continue;
		rc = status_errno(real.cuStreamCreate(&copy->streams[i], CU_STREAM_NON_BLOCKING));
		if (rc == 0)
			gpu_fence_add_stream(copy->ctx, copy->streams[i], CU_STREAM_NON_BLOCKING);
		else
			copy->streams[i] = NULL;
	}
	return rc;
}

/* Those of another context are gone with it, or stay there unused. */
static int find_context(struct gpu_copy *copy)
{
	uint64_t serial = 0;
	CUcontext ctx = gpu_fence_context(copy->ord, &serial);

	if (!ctx)
		return -EAGAIN;
	if (copy->serial != serial)
		*copy = (struct gpu_copy){ .ord = copy->ord, .ctx = ctx, .serial = serial };
	return 0;
}

int gpu_copy_begin(struct gpu_copy *copy)
{
	int rc = has_calls() ? find_context(copy) : -ENOTSUP;

	if (rc == 0)
		rc = status_errno(real.cuCtxPushCurrent_v2(copy->ctx));
	if (rc < 0)
		return rc;
	rc = make_streams(copy);
	if (rc < 0)
		gpu_copy_end(copy);
	return rc;
}

int gpu_copy_start(struct gpu_copy *copy, enum gpu_copy_way way, uint64_t to, uint64_t from,
		   void *pages, uint64_t bytes)
{
	CUstream stream = copy->streams[way];
	CUresult res;

	copy->has[GPU_COPY_PARTS][way] = true;
	if (!pages)
		res = real.cuMemcpyAsync(to, from, bytes, stream);
	else if (way == GPU_COPY_OUT)
		res = real.cuMemcpyDtoHAsync_v2(pages, from, bytes, stream);
	else
		res = real.cuMemcpyHtoDAsync_v2(to, pages, bytes, stream);
	return status_errno(res);
}

static bool mark(struct gpu_copy *copy, unsigned part, enum gpu_copy_way way)
{
	CUevent *end = &copy->ends[part][way];

	if (!real.cuEventCreate || !real.cuEventRecord || !real.cuEventQuery)
		return false;
	if (!*end && real.cuEventCreate(end, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
		*end = NULL;
	return *end && real.cuEventRecord(*end, copy->streams[way]) == CUDA_SUCCESS;
}

void gpu_copy_end_part(struct gpu_copy *copy, unsigned part)
{
	bool *has = copy->has[GPU_COPY_PARTS];

	copy->is_marked[part] = true;
	for (unsigned way = 0; way < GPU_COPY_WAYS; way++) {
		if (has[way])
			copy->is_marked[part] = copy->is_marked[part] && mark(copy, part, way);
		copy->has[part][way] = has[way];
		has[way] = false;
	}
}

/* 0, -EAGAIN while it runs, -ENODEV. An answer that says nothing of the work is asked for again. */
static int ask(const struct gpu_copy *copy, unsigned part, enum gpu_copy_way way)
{
	CUresult res;

	if (part < GPU_COPY_PARTS && !copy->has[part][way])
		return 0;
	/* Without its events a part ends with all that was started. */
	res = part < GPU_COPY_PARTS && copy->is_marked[part] ?
		      real.cuEventQuery(copy->ends[part][way]) :
		      real.cuStreamQuery(copy->streams[way]);
	if (res == CUDA_SUCCESS)
		return 0;
	return status_is_sticky(res) ? -ENODEV : -EAGAIN;
}

int gpu_copy_wait(struct gpu_copy *copy, unsigned part, int64_t until_ns)
{
	int rc = 0;

	for (unsigned way = 0; way < GPU_COPY_WAYS && rc == 0; way++) {
		while ((rc = ask(copy, part, way)) == -EAGAIN && clock_now_ns() < until_ns)
			clock_sleep_ns(NAP_NS);
	}
	return rc == -EAGAIN ? -EBUSY : rc;
}

void gpu_copy_end(struct gpu_copy *copy)
{
	CUcontext popped;

	(void)copy;
	real.cuCtxPopCurrent_v2(&popped);
}

bool gpu_copy_is_over(struct gpu_copy *copy)
{
	uint64_t serial = 0;

	if (!copy->ctx || !gpu_fence_context(copy->ord, &serial) || serial != copy->serial)
		return true;
	return gpu_copy_wait(copy, GPU_COPY_PARTS, 0) != -EBUSY;
}
