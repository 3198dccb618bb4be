#include <unistd.h>

#include "cuda_block.h"
#include "cuda_call.h"
#include "cuda_context.h"
#include "cuda_graph_memory.h"
#include "cuda_handle.h"
#include "cuda_heap.h"
#include "cuda_memory.h"
#include "cuda_pool.h"
#include "cuda_shared.h"

/* The mapping at the address where those from there on have all of it. */
static struct cuda_range *find_mapped(CUdeviceptr address, size_t bytes)
{
	struct cuda_range *first = cuda_range_find(address), *range = first;
	CUdeviceptr end = address + bytes;

	while (range && range->kind == RANGE_MAPPED && range->dev == first->dev) {
		if (end - range->start <= range->size_bytes)
			return first;
		range = cuda_range_find(range->start + range->size_bytes);
	}
	return NULL;
}

/* The graph's allocation that has all of it, where there is memory behind it. */
static struct cuda_graph_memory *find_graph(const struct cuda_range *range, CUdeviceptr address,
					    size_t bytes)
{
	struct cuda_graph_memory *memory = cuda_graph_memory_find(range->start);

	return memory && memory->chunk && bytes <= range->start + range->size_bytes - address ?
		       memory :
		       NULL;
}

/* The allocation that has all of it, or NULL: memory of a device that can have one. */
static struct cuda_range *find(CUdeviceptr address, size_t bytes)
{
	struct cuda_range *range = cuda_range_find(address), *part = range;

	if (!range || range->dev < 0)
		return NULL;
	if (range->kind == RANGE_MAPPED)
		return find_mapped(address, bytes);
	if (range->kind == RANGE_GRAPH)
		return find_graph(range, address, bytes) ? range : NULL;
	if (range->kind == RANGE_POOL && !cuda_pool_is_managed(range->pool) &&
	    !cuda_pool_is_imported(range->pool))
		part = cuda_pool_find(range->pool, address);
	else if (range->kind != RANGE_LINEAR)
		return NULL;
	return part && bytes <= part->start + part->size_bytes - address ? range : NULL;
}

/* All of it, also the blocks that it shares: what a device gives out is kept or it is not. */
static CUresult mark_linear(struct cuda_range *range, int fd)
{
	uint64_t own_bytes = cuda_memory_own_bytes(range);
	CUresult res = CUDA_SUCCESS;

	if (own_bytes)
		res = cuda_shared_mark(fd, range->ctx->index, own_bytes, &range->export);
	if (res == CUDA_SUCCESS && range->block)
		res = cuda_shared_mark(fd, range->ctx->index, HEAP_BLOCK_BYTES,
				       cuda_block_export(range->block));
	return res;
}

/* Of all mappings up to `end`. */
static CUresult mark_mapped(const struct cuda_range *range, CUdeviceptr end, int fd)
{
	CUresult res = CUDA_SUCCESS;

	while (res == CUDA_SUCCESS) {
		res = cuda_handle_mark(range->handle, fd);
		if (end - range->start <= range->size_bytes)
			break;
		range = cuda_range_find(range->start + range->size_bytes);
	}
	return res;
}

static CUresult mark(struct cuda_range *range, CUdeviceptr end, int fd)
{
	switch (range->kind) {
	case RANGE_MAPPED:
		return mark_mapped(range, end, fd);
	case RANGE_POOL:
		return cuda_shared_mark(fd, range->index, range->size_bytes, &range->export);
	case RANGE_GRAPH:
		return cuda_graph_memory_mark(cuda_graph_memory_find(range->start), fd);
	default:
		return mark_linear(range, fd);
	}
}

static CUresult make(struct cuda_range *range, CUdeviceptr end, int *out_fd)
{
	int fd = cuda_heap_file_new("dma-buf");
	CUresult res;

	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	res = mark(range, end, fd);
	if (res == CUDA_SUCCESS)
		*out_fd = fd;
	else
		close(fd);
	return res;
}

/* The descriptor stands for one: it keeps the memory, and nothing can be done with it but that. */
CUresult cuMemGetHandleForAddressRange(void *out_handle, CUdeviceptr address, size_t bytes,
				       CUmemRangeHandleType type, unsigned long long flags)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	struct cuda_range *range;
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(CUDA_ID_cuMemGetHandleForAddressRange, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	range = find(address, bytes);
	if (!out_handle || bytes == 0 || address % page_bytes || bytes % page_bytes || flags ||
	    type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || !range)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	return cuda_call_end(make(range, address + bytes, out_handle));
}
