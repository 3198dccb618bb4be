#include "cuda_area.h"
#include "cuda_call.h"
#include "cuda_capture.h"
#include "cuda_context.h"
#include "cuda_stream.h"

struct fill {
	uint64_t dst, pitch_bytes, width, height; /* width in values */
	uint32_t value;
	int value_bytes;
};

static CUresult area_of(const struct fill *f, struct cuda_area *out_area)
{
	uint64_t bytes = (uint64_t)f->value_bytes, width_bytes;

	if (f->dst % bytes || __builtin_mul_overflow(f->width, bytes, &width_bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (f->height > 1 && (f->pitch_bytes < width_bytes || f->pitch_bytes % bytes))
		return CUDA_ERROR_INVALID_VALUE;
	*out_area = (struct cuda_area){ .dst = f->dst,
					.dst_pitch_bytes = f->pitch_bytes,
					.width_bytes = width_bytes,
					.height = f->height,
					.depth = 1,
					.value = f->value,
					.value_bytes = f->value_bytes };
	return CUDA_SUCCESS;
}

/* A synchronous fill waits only when its target is on the host. */
static CUresult submit(const struct cuda_area *area, struct CUstream_st *stream, bool is_sync)
{
	struct cuda_work *work;
	CUresult res;

	if (cuda_area_is_empty(area))
		return CUDA_SUCCESS;
	if (is_sync) {
		res = cuda_capture_check_sync(stream);
		if (res != CUDA_SUCCESS)
			return res;
	}
	work = cuda_area_fill_work(area);
	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	res = cuda_stream_submit(stream, work);
	if (res != CUDA_SUCCESS || !is_sync || !cuda_area_has_host(area))
		return res;
	return cuda_stream_finish(stream);
}

static CUresult fill(enum cuda_id id, enum stream_default form, struct fill f, CUstream handle,
		     bool is_sync)
{
	struct CUstream_st *stream;
	struct cuda_area area;
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(id, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuda_stream_find(handle, form, &stream);
	if (res == CUDA_SUCCESS)
		res = area_of(&f, &area);
	if (res == CUDA_SUCCESS)
		res = cuda_area_resolve_fill(&area, stream->ctx);
	if (res == CUDA_SUCCESS)
		cuda_area_ask(&area, ctx);
	if (res == CUDA_SUCCESS)
		res = submit(&area, stream, is_sync);
	return cuda_call_end(res);
}

/* A family: synchronous and asynchronous, each with its per-thread form. */
#define FILL(sync, sync_twin, async, async_twin, type)                                            \
	CUresult sync(CUdeviceptr dst, type value, size_t count)                                  \
	{                                                                                         \
		return fill(CUDA_ID_##sync, DEFAULT_LEGACY, LINE(dst, value, count), NULL, true); \
	}                                                                                         \
	CUresult sync_twin(CUdeviceptr dst, type value, size_t count)                             \
	{                                                                                         \
		return fill(CUDA_ID_##sync_twin, DEFAULT_PER_THREAD, LINE(dst, value, count),     \
			    NULL, true);                                                          \
	}                                                                                         \
	CUresult async(CUdeviceptr dst, type value, size_t count, CUstream stream)                \
	{                                                                                         \
		return fill(CUDA_ID_##async, DEFAULT_LEGACY, LINE(dst, value, count), stream,     \
			    false);                                                               \
	}                                                                                         \
	CUresult async_twin(CUdeviceptr dst, type value, size_t count, CUstream stream)           \
	{                                                                                         \
		return fill(CUDA_ID_##async_twin, DEFAULT_PER_THREAD, LINE(dst, value, count),    \
			    stream, false);                                                       \
	}

#define LINE(dst, value, count) ((struct fill){ dst, 0, count, 1, value, (int)sizeof(value) })

FILL(cuMemsetD8_v2, cuMemsetD8_v2_ptds, cuMemsetD8Async, cuMemsetD8Async_ptsz, unsigned char)
FILL(cuMemsetD16_v2, cuMemsetD16_v2_ptds, cuMemsetD16Async, cuMemsetD16Async_ptsz, unsigned short)
FILL(cuMemsetD32_v2, cuMemsetD32_v2_ptds, cuMemsetD32Async, cuMemsetD32Async_ptsz, unsigned int)

/* The same in two dimensions. */
#define FILL_2D(sync, sync_twin, async, async_twin, type)                                          \
	CUresult sync(CUdeviceptr dst, size_t pitch, type value, size_t width, size_t height)      \
	{                                                                                          \
		return fill(CUDA_ID_##sync, DEFAULT_LEGACY,                                        \
			    RECT(dst, pitch, value, width, height), NULL, true);                   \
	}                                                                                          \
	CUresult sync_twin(CUdeviceptr dst, size_t pitch, type value, size_t width, size_t height) \
	{                                                                                          \
		return fill(CUDA_ID_##sync_twin, DEFAULT_PER_THREAD,                               \
			    RECT(dst, pitch, value, width, height), NULL, true);                   \
	}                                                                                          \
	CUresult async(CUdeviceptr dst, size_t pitch, type value, size_t width, size_t height,     \
		       CUstream stream)                                                            \
	{                                                                                          \
		return fill(CUDA_ID_##async, DEFAULT_LEGACY,                                       \
			    RECT(dst, pitch, value, width, height), stream, false);                \
	}                                                                                          \
	CUresult async_twin(CUdeviceptr dst, size_t pitch, type value, size_t width,               \
			    size_t height, CUstream stream)                                        \
	{                                                                                          \
		return fill(CUDA_ID_##async_twin, DEFAULT_PER_THREAD,                              \
			    RECT(dst, pitch, value, width, height), stream, false);                \
	}

#define RECT(dst, pitch, value, width, height) \
	((struct fill){ dst, pitch, width, height, value, (int)sizeof(value) })

FILL_2D(cuMemsetD2D8_v2, cuMemsetD2D8_v2_ptds, cuMemsetD2D8Async, cuMemsetD2D8Async_ptsz,
	unsigned char)
FILL_2D(cuMemsetD2D16_v2, cuMemsetD2D16_v2_ptds, cuMemsetD2D16Async, cuMemsetD2D16Async_ptsz,
	unsigned short)
FILL_2D(cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds, cuMemsetD2D32Async, cuMemsetD2D32Async_ptsz,
	unsigned int)
