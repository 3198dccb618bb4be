/* A cooperative launch on several devices at once: one kernel in a stream of each. */
#include <stdbool.h>

#include "cuda_call.h"
#include "cuda_context.h"
#include "cuda_event.h"
#include "cuda_launch.h"
#include "cuda_limit.h"
#include "cuda_stream.h"
#include "cuda_work.h"

enum { DEVICES = 64, FLAG_NO_PRE_SYNC = 1, FLAG_NO_POST_SYNC = 2 };

/* One device's part. */
struct part {
	struct CUstream_st *stream;
	struct cuda_work *work;
};

static bool is_default(CUstream stream)
{
	return !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

static CUresult make_part(const CUDA_LAUNCH_PARAMS *params, struct part *out_part)
{
	struct cuda_launch l = { .func = params->function,
				 .grid = { params->gridDimX, params->gridDimY, params->gridDimZ },
				 .block = { params->blockDimX, params->blockDimY,
					    params->blockDimZ },
				 .shared_bytes = params->sharedMemBytes,
				 .params = params->kernelParams,
				 .is_cooperative = true };
	CUresult res;

	if (is_default(params->hStream))
		return CUDA_ERROR_INVALID_VALUE;
	res = cuda_stream_find(params->hStream, DEFAULT_LEGACY, &out_part->stream);
	if (res != CUDA_SUCCESS)
		return res;
	if (out_part->stream->capture)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	res = cuda_launch_work(&l, out_part->stream->ctx, &out_part->work);
	if (res != CUDA_SUCCESS)
		return res;
	res = cuda_limit_grow(out_part->stream->ctx, out_part->work->launch.local_bytes,
			      out_part->work->launch.calls);
	if (res != CUDA_SUCCESS)
		cuda_work_delete(out_part->work);
	return res;
}

/* Each stream goes on when all have come this far. */
static CUresult meet(const struct part *parts, unsigned count)
{
	struct cuda_record *record = cuda_record_new((int)count);
	struct cuda_work *works[2 * DEVICES] = { NULL };
	bool is_short = !record;
	CUresult res = CUDA_SUCCESS;

	for (unsigned i = 0; i < 2 * count && !is_short; i++) {
		works[i] = i < count ? cuda_record_work(record) : cuda_record_wait_work(record);
		is_short = !works[i];
	}
	for (unsigned i = 0; i < 2 * count && works[i]; i++) {
		if (is_short)
			cuda_work_delete(works[i]);
		else if (res == CUDA_SUCCESS)
			res = cuda_stream_submit(parts[i % count].stream, works[i]);
	}
	cuda_record_put(record);
	return is_short ? CUDA_ERROR_OUT_OF_MEMORY : res;
}

static CUresult submit(const struct part *parts, unsigned count, unsigned flags)
{
	CUresult res = flags & FLAG_NO_PRE_SYNC ? CUDA_SUCCESS : meet(parts, count);

	for (unsigned i = 0; i < count; i++) {
		CUresult each = cuda_stream_submit(parts[i].stream, parts[i].work);

		if (res == CUDA_SUCCESS)
			res = each;
	}
	if (res == CUDA_SUCCESS && !(flags & FLAG_NO_POST_SYNC))
		res = meet(parts, count);
	return res;
}

static bool is_device_twice(const struct part *parts, unsigned last)
{
	for (unsigned i = 0; i < last; i++)
		if (parts[i].stream->ctx->index == parts[last].stream->ctx->index)
			return true;
	return false;
}

CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launches, unsigned int count,
					      unsigned int flags)
{
	struct part parts[DEVICES];
	struct CUctx_st *ctx;
	unsigned made = 0;
	CUresult res = cuda_call_begin_context(CUDA_ID_cuLaunchCooperativeKernelMultiDevice, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	if (!launches || count == 0 || count > DEVICES ||
	    flags & ~(unsigned)(FLAG_NO_PRE_SYNC | FLAG_NO_POST_SYNC))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	for (; made < count && res == CUDA_SUCCESS; made++) {
		res = make_part(&launches[made], &parts[made]);
		if (res == CUDA_SUCCESS && is_device_twice(parts, made)) {
			cuda_work_delete(parts[made].work);
			res = CUDA_ERROR_INVALID_DEVICE;
		}
	}
	if (res == CUDA_SUCCESS)
		return cuda_call_end(submit(parts, count, flags));
	for (unsigned i = 0; i + 1 < made; i++)
		cuda_work_delete(parts[i].work);
	return cuda_call_end(res);
}
