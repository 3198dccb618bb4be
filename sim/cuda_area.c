#include "cuda_area.h"

#include <stdlib.h>
#include <string.h>

#include "cuda_context.h"
#include "cuda_handle.h"
#include "cuda_heap.h"
#include "cuda_managed.h"
#include "cuda_range.h"
#include "cuda_sparse.h"
#include "cuda_vmm.h"
#include "machine.h"

enum { PIECE_BYTES = 256 << 10, STAGING_BYTES = 64 << 10 };

bool cuda_area_is_empty(const struct cuda_area *area)
{
	return !area->width_bytes || !area->height || !area->depth;
}

bool cuda_area_is_pageable(const struct cuda_area *area)
{
	return area->is_dst_host || area->is_src_host;
}

static bool is_on_host(uint64_t address)
{
	const struct cuda_range *range = cuda_range_find(address);

	return !range || range->dev < 0;
}

bool cuda_area_has_host(const struct cuda_area *area)
{
	return is_on_host(area->dst) || (area->src && is_on_host(area->src));
}

/* Bytes from the first to behind the last one that a side touches; UINT64_MAX when that overflows. */
static uint64_t span_bytes(uint64_t width, uint64_t height, uint64_t depth, uint64_t pitch,
			   uint64_t slice)
{
	uint64_t rows, slices, sum;

	if (__builtin_mul_overflow(height - 1, pitch, &rows) ||
	    __builtin_mul_overflow(depth - 1, slice, &slices) ||
	    __builtin_add_overflow(rows, slices, &sum) || __builtin_add_overflow(sum, width, &sum))
		return UINT64_MAX;
	return sum;
}

/* Tells mappings apart: by the memory behind a mapped address, by the device otherwise. */
static uint64_t mapping_of(const struct cuda_range *range)
{
	if (!range)
		return 0;
	return range->handle ? ((uint64_t)1 << 32) + range->handle->id : (uint64_t)(range->dev + 2);
}

/* One side: is it pageable host memory, and if not, is all of it in the map? */
static CUresult resolve(uint64_t address, uint64_t bytes, enum area_side side, bool *out_is_host,
			uint64_t *out_mapping)
{
	struct cuda_range *range = cuda_range_find(address);

	*out_mapping = mapping_of(range);

	if (!range) {
		if (side == SIDE_DEVICE || !address || cuda_heap_contains(address) ||
		    cuda_vmm_is_reserved(address))
			return CUDA_ERROR_INVALID_VALUE;
		*out_is_host = true;
		return CUDA_SUCCESS;
	}
	*out_is_host = false;
	if ((range->kind == RANGE_ARRAY) != (side == SIDE_ARRAY))
		return CUDA_ERROR_INVALID_VALUE;
	return cuda_range_is_spanned(address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuda_area_resolve(struct cuda_area *area, struct CUctx_st *ctx, enum area_side dst,
			   enum area_side src)
{
	uint64_t dst_bytes, src_bytes;
	CUresult res;

	if (cuda_area_is_empty(area))
		return CUDA_SUCCESS;
	if (!area->dst_ctx)
		area->dst_ctx = ctx;
	if (!area->src_ctx)
		area->src_ctx = ctx;
	dst_bytes = span_bytes(area->width_bytes, area->height, area->depth, area->dst_pitch_bytes,
			       area->dst_slice_bytes);
	src_bytes = span_bytes(area->width_bytes, area->height, area->depth, area->src_pitch_bytes,
			       area->src_slice_bytes);
	res = resolve(area->dst, dst_bytes, dst, &area->is_dst_host, &area->dst_mapping);
	if (res == CUDA_SUCCESS)
		res = resolve(area->src, src_bytes, src, &area->is_src_host, &area->src_mapping);
	return res;
}

CUresult cuda_area_resolve_fill(struct cuda_area *area, struct CUctx_st *ctx)
{
	uint64_t bytes;

	if (cuda_area_is_empty(area))
		return CUDA_SUCCESS;
	area->dst_ctx = ctx;
	bytes = span_bytes(area->width_bytes, area->height, area->depth, area->dst_pitch_bytes,
			   area->dst_slice_bytes);
	return resolve(area->dst, bytes, SIDE_DEVICE, &area->is_dst_host, &area->dst_mapping);
}

static bool may_copy(const struct CUctx_st *ctx, uint64_t address, enum range_access access)
{
	return cuda_range_is_copyable(ctx, address, 1, access);
}

void cuda_area_ask(struct cuda_area *area, struct CUctx_st *current)
{
	/* What may be there when the work comes to it is seen then, with the stream's own. */
	if (cuda_area_is_empty(area) || current->dev == area->dst_ctx->dev)
		return;
	cuda_range_lock_shared();
	area->is_denied = !area->is_dst_host && !may_copy(current, area->dst, RANGE_WRITE);
	if (!area->value_bytes && !area->is_src_host && !may_copy(current, area->src, RANGE_READ))
		area->is_denied = true;
	cuda_range_unlock();
}

static void fill(char *to, uint64_t bytes, uint32_t value, int value_bytes)
{
	if (value_bytes == 1) {
		memset(to, (int)value, bytes);
		return;
	}
	/* Twice as much each time, of what is there already. */
	memcpy(to, &value, bytes < (uint64_t)value_bytes ? bytes : (uint64_t)value_bytes);
	for (uint64_t done = (uint64_t)value_bytes; done < bytes; done *= 2)
		memcpy(to + done, to, done < bytes - done ? done : bytes - done);
}

/* A piece of a row. False when a side may not be touched. */
static bool do_piece(const struct cuda_area *area, uint64_t dst, uint64_t src, uint64_t bytes)
{
	bool allowed;

	cuda_range_lock_shared();
	allowed = !area->is_denied &&
		  (area->is_dst_host ||
		   cuda_range_is_copyable(area->dst_ctx, dst, bytes, RANGE_WRITE));
	if (allowed && !area->value_bytes)
		allowed = area->is_src_host || area->staging ||
			  cuda_range_is_copyable(area->src_ctx, src, bytes, RANGE_READ);
	if (allowed && !area->is_dst_host)
		cuda_managed_touch(area->dst_ctx, dst, bytes);
	if (allowed && area->value_bytes)
		fill((char *)dst, bytes, area->value, area->value_bytes);
	else if (allowed)
		cuda_sparse_copy(dst, src, bytes);
	cuda_range_unlock();
	return allowed;
}

static CUresult do_row(const struct cuda_area *area, struct cuda_turn *turn, uint64_t dst,
		       uint64_t src)
{
	for (uint64_t at = 0; at < area->width_bytes; at += PIECE_BYTES) {
		uint64_t left = area->width_bytes - at;

		if (!do_piece(area, dst + at, src + at, left < PIECE_BYTES ? left : PIECE_BYTES))
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		if (turn->is_held)
			cuda_turn_check(turn);
	}
	return CUDA_SUCCESS;
}

static CUresult run_area(struct cuda_work *work, struct CUctx_st *ctx, struct cuda_turn *turn)
{
	const struct cuda_area *area = &work->area;
	uint64_t src = area->staging ? (uint64_t)area->staging : area->src;
	uint64_t start_ns = cuda_turn_now_ns();
	CUresult res = CUDA_SUCCESS;

	for (uint64_t z = 0; z < area->depth; z++)
		for (uint64_t y = 0; y < area->height && res == CUDA_SUCCESS; y++)
			res = do_row(area, turn,
				     area->dst + z * area->dst_slice_bytes +
					     y * area->dst_pitch_bytes,
				     src + z * area->src_slice_bytes + y * area->src_pitch_bytes);
	machine_memory_busy(ctx->index, start_ns, cuda_turn_now_ns());
	return res;
}

static void release_area(struct cuda_work *work)
{
	free(work->area.staging);
}

/* What stays on devices is done by the engine, what passes the link is not. */
static const struct cuda_work_ops device_ops = { .node_type = CU_GRAPH_NODE_TYPE_MEMCPY,
						 .needs_turn = true,
						 .run = run_area,
						 .release = release_area };
static const struct cuda_work_ops link_ops = { .node_type = CU_GRAPH_NODE_TYPE_MEMCPY,
					       .run = run_area,
					       .release = release_area };
static const struct cuda_work_ops fill_ops = { .node_type = CU_GRAPH_NODE_TYPE_MEMSET,
					       .needs_turn = true,
					       .run = run_area,
					       .release = release_area };

struct cuda_work *cuda_area_copy_work(const struct cuda_area *area, bool may_stage)
{
	struct cuda_work *work = cuda_work_new(cuda_area_has_host(area) ? &link_ops : &device_ops);

	if (!work)
		return NULL;
	work->area = *area;
	if (may_stage && area->is_src_host && area->height == 1 && area->depth == 1 &&
	    area->width_bytes <= STAGING_BYTES) {
		work->area.staging = malloc(area->width_bytes);
		if (work->area.staging)
			memcpy(work->area.staging, (const void *)area->src, area->width_bytes);
	}
	return work;
}

struct cuda_work *cuda_area_fill_work(const struct cuda_area *area)
{
	struct cuda_work *work = cuda_work_new(&fill_ops);

	if (work)
		work->area = *area;
	return work;
}
