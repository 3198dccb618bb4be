#include "cuda_memory.h"

#include <stdlib.h>

#include "cuda_block.h"
#include "cuda_call.h"
#include "cuda_context.h"
#include "cuda_device.h"
#include "cuda_external.h"
#include "cuda_graph_memory.h"
#include "cuda_heap.h"
#include "cuda_host.h"
#include "cuda_ipc.h"
#include "cuda_managed.h"
#include "cuda_pool.h"
#include "cuda_stream.h"

enum { PITCH_BYTES = 512 };

static uint64_t round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

/* Finds room for a range: inside a shared block when it is small, else blocks of its own, of which
 * the last is open to small ones behind its end. */
static int place(struct CUctx_st *ctx, struct cuda_range *range)
{
	uint64_t last_bytes = range->size_bytes % HEAP_BLOCK_BYTES;
	bool is_array = range->kind == RANGE_ARRAY;
	int err;

	if (range->size_bytes <= BLOCK_SHARED_BYTES)
		return cuda_block_take(ctx, is_array, range->size_bytes, &range->start,
				       &range->block);
	if (range->size_bytes > UINT64_MAX - HEAP_BLOCK_BYTES)
		return -1;
	range->taken_bytes = round_up(range->size_bytes, HEAP_BLOCK_BYTES);
	err = cuda_heap_take(ctx->index, range->taken_bytes, &range->start);
	if (err || last_bytes == 0)
		return err;
	range->block = cuda_block_open(ctx, is_array,
				       range->start + range->taken_bytes - HEAP_BLOCK_BYTES,
				       last_bytes);
	if (range->block)
		return 0;
	cuda_heap_give(ctx->index, range->start, range->taken_bytes, 0);
	return -1;
}

uint64_t cuda_memory_own_bytes(const struct cuda_range *range)
{
	return range->block && range->taken_bytes ? range->taken_bytes - HEAP_BLOCK_BYTES :
						    range->taken_bytes;
}

static void unplace(struct cuda_range *range)
{
	uint64_t own_bytes = cuda_memory_own_bytes(range);

	if (own_bytes)
		cuda_heap_give(range->ctx->index, range->start, own_bytes, range->export);
	if (range->block)
		cuda_block_give(range->block, range->start + own_bytes,
				range->size_bytes - own_bytes);
}

struct cuda_range *cuda_memory_new(struct CUctx_st *ctx, uint64_t size_bytes, enum range_kind kind)
{
	struct cuda_range *range = calloc(1, sizeof(*range));

	if (!range)
		return NULL;
	range->size_bytes = size_bytes;
	range->kind = kind;
	range->dev = ctx->dev;
	range->ctx = ctx;
	if (place(ctx, range) != 0)
		goto out_free;
	if (cuda_range_insert(range) != 0)
		goto out_unplace;
	return range;

out_unplace:
	unplace(range);
out_free:
	free(range);
	return NULL;
}

void cuda_memory_delete(struct cuda_range *range)
{
	cuda_range_remove(range);
	switch (range->kind) {
	case RANGE_LINEAR:
	case RANGE_MODULE:
	case RANGE_ARRAY:
		unplace(range);
		break;
	case RANGE_MANAGED:
		cuda_managed_release(range);
		break;
	case RANGE_HOST:
		cuda_host_release(range);
		break;
	case RANGE_IPC:
		cuda_ipc_release(range);
		break;
	case RANGE_EXTERNAL:
		cuda_external_release(range);
		break;
	case RANGE_POOL:
		cuda_pool_release(range);
		break;
	case RANGE_REGISTERED:
	case RANGE_MAPPED:
	case RANGE_GRAPH:
		break;
	}
	free(range);
}

void cuda_memory_delete_all(struct CUctx_st *ctx)
{
	struct cuda_range *next, *range = cuda_range_next(0);

	for (; range; range = next) {
		uint64_t end = range->start + range->size_bytes;

		if (range->ctx == ctx)
			cuda_memory_delete(range);
		next = cuda_range_next(end);
	}
}

static CUresult alloc(enum cuda_id id, CUdeviceptr *out_address, uint64_t size_bytes)
{
	struct cuda_range *range;
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(id, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_address || size_bytes == 0)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	res = cuda_stream_check_unsafe(ctx);
	if (res != CUDA_SUCCESS)
		return cuda_call_end(res);
	range = cuda_memory_new(ctx, size_bytes, RANGE_LINEAR);
	if (!range)
		return cuda_call_end(CUDA_ERROR_OUT_OF_MEMORY);
	*out_address = range->start;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuMemAlloc_v2(CUdeviceptr *out_address, size_t size_bytes)
{
	return alloc(CUDA_ID_cuMemAlloc_v2, out_address, size_bytes);
}

/* The forms of the 32-bit days know no context of today. */
static CUresult refuse_narrow(enum cuda_id id)
{
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(id, &ctx);

	return res == CUDA_SUCCESS ? cuda_call_end(CUDA_ERROR_INVALID_CONTEXT) : res;
}

CUresult cuMemAlloc(CUdeviceptr_v1 *out_address, unsigned int size_bytes)
{
	(void)out_address;
	(void)size_bytes;
	return refuse_narrow(CUDA_ID_cuMemAlloc);
}

CUresult cuMemAllocPitch(CUdeviceptr_v1 *out_address, unsigned int *out_pitch_bytes,
			 unsigned int width_bytes, unsigned int height, unsigned int element_bytes)
{
	(void)out_address;
	(void)out_pitch_bytes;
	(void)width_bytes;
	(void)height;
	(void)element_bytes;
	return refuse_narrow(CUDA_ID_cuMemAllocPitch);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *out_address, size_t *out_pitch_bytes, size_t width_bytes,
			    size_t height, unsigned int element_bytes)
{
	uint64_t pitch_bytes, size_bytes;
	CUresult res;

	if (!cuda_call_is_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!out_pitch_bytes || width_bytes == 0 || height == 0 || width_bytes > INT32_MAX ||
	    (element_bytes != 4 && element_bytes != 8 && element_bytes != 16))
		return CUDA_ERROR_INVALID_VALUE;
	pitch_bytes = round_up(width_bytes, PITCH_BYTES);
	if (__builtin_mul_overflow(pitch_bytes, height, &size_bytes))
		size_bytes = UINT64_MAX;
	res = alloc(CUDA_ID_cuMemAllocPitch_v2, out_address, size_bytes);
	if (res == CUDA_SUCCESS)
		*out_pitch_bytes = pitch_bytes;
	return res;
}

/* Frees after all work of the owner has ended: nothing that runs loses its memory. Memory of a pool
 * is free at once, that of a graph goes back to its store. */
static CUresult free_at(struct CUctx_st *ctx, CUdeviceptr address)
{
	struct cuda_range *range;
	CUresult res = cuda_stream_check_unsafe(ctx);

	if (res != CUDA_SUCCESS || address == 0)
		return res;
	for (int pass = 0;; pass++) {
		range = cuda_range_find(address);
		if (range && range->kind == RANGE_POOL)
			return cuda_pool_free(range->pool, address);
		if (range && range->kind == RANGE_GRAPH)
			return cuda_graph_memory_free(address, ctx);
		if (!range || range->start != address ||
		    (range->kind != RANGE_LINEAR && range->kind != RANGE_MANAGED &&
		     range->kind != RANGE_EXTERNAL))
			return CUDA_ERROR_INVALID_VALUE;
		if (pass)
			break;
		cuda_stream_drain(range->ctx);
	}
	cuda_memory_delete(range);
	return ctx->error;
}

CUresult cuda_memory_free(CUdeviceptr address)
{
	struct cuda_range *range = cuda_range_find(address);

	return range ? free_at(range->ctx, address) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult free_call(enum cuda_id id, CUdeviceptr address)
{
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(id, &ctx);

	return res == CUDA_SUCCESS ? cuda_call_end(free_at(ctx, address)) : res;
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
	return free_call(CUDA_ID_cuMemFree_v2, address);
}

CUresult cuMemFree(CUdeviceptr_v1 address)
{
	(void)address;
	return refuse_narrow(CUDA_ID_cuMemFree);
}

/* What is not asked for is not written. */
CUresult cuMemGetInfo_v2(size_t *out_free_bytes, size_t *out_total_bytes)
{
	uint64_t total_bytes, used_bytes;
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(CUDA_ID_cuMemGetInfo_v2, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	total_bytes = cuda_device_get(ctx->dev)->memory_bytes;
	used_bytes = machine_used(ctx->index);
	if (out_free_bytes)
		*out_free_bytes = used_bytes < total_bytes ? total_bytes - used_bytes : 0;
	if (out_total_bytes)
		*out_total_bytes = total_bytes;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuMemGetInfo(unsigned int *out_free_bytes, unsigned int *out_total_bytes)
{
	(void)out_free_bytes;
	(void)out_total_bytes;
	return refuse_narrow(CUDA_ID_cuMemGetInfo);
}
