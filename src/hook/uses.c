#include "hook/uses.h"

#include "core/function.h"
#include "core/link_cost.h"
#include "drv/real.h"
#include "hook/uses_sample.h"

#include <string.h>

/* No function has more; and none more bytes of them. */
enum { PARAMS = 1024, PARAM_BYTES = 32768 };

static bool is_device(CUmemorytype type)
{
	return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED;
}

/* One side of a copy: `addr` is where its memory begins, x, y and z where the copy does in it. */
static bool uses_side(CUmemorytype type, CUdeviceptr device, const void *host, uint64_t x,
		      uint64_t y, uint64_t z, uint64_t pitch_bytes, uint64_t rows,
		      const uint64_t extent[3])
{
	CUdeviceptr addr = type == CU_MEMORYTYPE_UNIFIED && !device ? (CUdeviceptr)(uintptr_t)host :
								      device;
	uint64_t height = extent[1] + (extent[2] - 1) * rows;

	if (!is_device(type) || !extent[0] || !extent[1] || !extent[2])
		return true;
	return uses_rows(addr + x + (y + z * rows) * pitch_bytes, pitch_bytes, extent[0], height);
}

bool uses_copy_2d(const CUDA_MEMCPY2D *c)
{
	if (!movable_is_on() || !c)
		return true;
	const uint64_t extent[3] = { c->WidthInBytes, c->Height, 1 };

	return uses_side(c->srcMemoryType, c->srcDevice, c->srcHost, c->srcXInBytes, c->srcY, 0,
			 c->srcPitch, 0, extent) &&
	       uses_side(c->dstMemoryType, c->dstDevice, c->dstHost, c->dstXInBytes, c->dstY, 0,
			 c->dstPitch, 0, extent);
}

bool uses_copy_3d(const CUDA_MEMCPY3D *c)
{
	if (!movable_is_on() || !c)
		return true;
	const uint64_t extent[3] = { c->WidthInBytes, c->Height, c->Depth };

	return uses_side(c->srcMemoryType, c->srcDevice, c->srcHost, c->srcXInBytes, c->srcY,
			 c->srcZ, c->srcPitch, c->srcHeight, extent) &&
	       uses_side(c->dstMemoryType, c->dstDevice, c->dstHost, c->dstXInBytes, c->dstY,
			 c->dstZ, c->dstPitch, c->dstHeight, extent);
}

/* Whatever looks like an object's address among them, as pointers are aligned. */
static void look_at(const void *bytes, size_t count, struct backing_uses *uses)
{
	const char *at = bytes;

	for (; count >= sizeof(CUdeviceptr); count -= sizeof(CUdeviceptr)) {
		CUdeviceptr addr;

		memcpy(&addr, at, sizeof(addr));
		object_use_whole(addr, uses);
		at += sizeof(addr);
	}
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

/* A function's, or a kernel's of a library under a function's type. */
static bool param_bytes(CUfunction function, size_t i, size_t *out_bytes)
{
	size_t offset;

	if (real.cuFuncGetParamInfo &&
	    real.cuFuncGetParamInfo(function, i, &offset, out_bytes) == CUDA_SUCCESS)
		return true;
	return real.cuKernelGetParamInfo &&
	       real.cuKernelGetParamInfo((CUkernel)(uintptr_t)function, i, &offset, out_bytes) ==
		       CUDA_SUCCESS;
}

static void look_at_buffer(void *const *extra, struct backing_uses *uses)
{
	const void *buffer = NULL;
	size_t bytes = 0;

	for (int i = 0; i < 4 && extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
		if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = extra[i + 1];
		else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
			bytes = *(const size_t *)extra[i + 1];
	}
	if (buffer && bytes <= PARAM_BYTES)
		look_at(buffer, bytes, uses);
}

/* Launches of one function and size: not 0. */
static uint64_t kind_of(CUfunction function, uint64_t blocks)
{
	return ((uint64_t)(uintptr_t)function ^ blocks << 48 ^ blocks * UINT64_C(0x9e3779b1)) | 1;
}

void uses_launch(CUfunction function, uint64_t blocks, CUstream stream, void *const *params,
		 void *const *extra)
{
	uint64_t kind = kind_of(function, blocks);
	struct backing_uses uses = { .weight = link_cost_weight(kind) };
	size_t bytes;

	uses_sample_end();
	/* A function that was not launched yet would be loaded by the question. */
	if (!movable_is_on() || !function || (function_any() && !function_is_settled(function)))
		return;
	if (extra)
		look_at_buffer(extra, &uses);
	else if (params)
		for (size_t i = 0; i < PARAMS && param_bytes(function, i, &bytes); i++)
			look_at(params[i], bytes, &uses);
	uses_sample_begin(kind, uses.far_bytes, stream);
}
