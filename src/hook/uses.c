#include "hook/uses.h"

#include "core/function.h"
#include "core/link_cost.h"
#include "hook/uses_params.h"
#include "hook/uses_sample.h"

static bool is_device(CUmemorytype type)
{
	return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED;
}

/*
 * What one side of a copy uses: its memory begins at `device` or `host`, the copy at x, y and z in
 * that. False when it uses none of a device.
 */
static bool side(CUmemorytype type, CUdeviceptr device, const void *host, uint64_t x, uint64_t y,
		 uint64_t z, uint64_t pitch_bytes, uint64_t rows, const uint64_t extent[3],
		 struct uses_span *out)
{
	CUdeviceptr addr = type == CU_MEMORYTYPE_UNIFIED && !device ? (CUdeviceptr)(uintptr_t)host :
								      device;
	uint64_t height = extent[1] + (extent[2] - 1) * rows;

	if (!is_device(type) || !extent[0] || !extent[1] || !extent[2])
		return false;
	out->addr = addr + x + (y + z * rows) * pitch_bytes;
	return uses_rows_bytes(pitch_bytes, extent[0], height, &out->bytes);
}

static unsigned spans_2d(const CUDA_MEMCPY2D *c, struct uses_span out[2])
{
	const uint64_t extent[3] = { c->WidthInBytes, c->Height, 1 };
	unsigned n = 0;

	n += side(c->srcMemoryType, c->srcDevice, c->srcHost, c->srcXInBytes, c->srcY, 0,
		  c->srcPitch, 0, extent, &out[n]);
	n += side(c->dstMemoryType, c->dstDevice, c->dstHost, c->dstXInBytes, c->dstY, 0,
		  c->dstPitch, 0, extent, &out[n]);
	return n;
}

unsigned uses_spans_3d(const CUDA_MEMCPY3D *c, struct uses_span out[2])
{
	const uint64_t extent[3] = { c->WidthInBytes, c->Height, c->Depth };
	unsigned n = 0;

	n += side(c->srcMemoryType, c->srcDevice, c->srcHost, c->srcXInBytes, c->srcY, c->srcZ,
		  c->srcPitch, c->srcHeight, extent, &out[n]);
	n += side(c->dstMemoryType, c->dstDevice, c->dstHost, c->dstXInBytes, c->dstY, c->dstZ,
		  c->dstPitch, c->dstHeight, extent, &out[n]);
	return n;
}

static unsigned spans_peer(const CUDA_MEMCPY3D_PEER *c, struct uses_span out[2])
{
	const uint64_t extent[3] = { c->WidthInBytes, c->Height, c->Depth };
	unsigned n = 0;

	n += side(c->srcMemoryType, c->srcDevice, c->srcHost, c->srcXInBytes, c->srcY, c->srcZ,
		  c->srcPitch, c->srcHeight, extent, &out[n]);
	n += side(c->dstMemoryType, c->dstDevice, c->dstHost, c->dstXInBytes, c->dstY, c->dstZ,
		  c->dstPitch, c->dstHeight, extent, &out[n]);
	return n;
}

static bool use_spans(const struct uses_span *spans, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (!uses_span(spans[i].addr, spans[i].bytes))
			return false;
	return true;
}

bool uses_copy_2d(const CUDA_MEMCPY2D *c)
{
	struct uses_span spans[2];

	return !movable_is_on() || !c || use_spans(spans, spans_2d(c, spans));
}

bool uses_copy_3d(const CUDA_MEMCPY3D *c)
{
	struct uses_span spans[2];

	return !movable_is_on() || !c || use_spans(spans, uses_spans_3d(c, spans));
}

bool uses_copy_peer(const CUDA_MEMCPY3D_PEER *c)
{
	struct uses_span spans[2];

	return !movable_is_on() || !c || use_spans(spans, spans_peer(c, spans));
}

bool uses_batch(const CUdeviceptr *to, const CUdeviceptr *from, const size_t *bytes, size_t count,
		size_t *out_failed)
{
	if (!movable_is_on() || !to || !from || !bytes)
		return true;
	for (size_t i = 0; i < count; i++)
		if (!uses_span(to[i], bytes[i]) || !uses_span(from[i], bytes[i])) {
			if (out_failed)
				*out_failed = i;
			return false;
		}
	return true;
}

uint64_t uses_kind(CUfunction function, uint64_t blocks)
{
	return ((uint64_t)(uintptr_t)function ^ blocks << 48 ^ blocks * UINT64_C(0x9e3779b1)) | 1;
}

static void use(CUdeviceptr word, void *uses)
{
	object_use_whole(word, uses);
}

void uses_launch(CUfunction function, uint64_t blocks, CUstream stream, void *const *params,
		 void *const *extra)
{
	uint64_t kind = uses_kind(function, blocks);
	struct backing_uses uses = { .weight = link_cost_weight(kind) };

	/* A function that was not launched yet would be loaded by the question. */
	if (!movable_is_on() || !function || (function_any() && !function_is_settled(function)))
		return;
	uses_params(function, params, extra, use, &uses);
	uses_sample_begin(kind, uses.far_bytes, stream);
}
