#include <sys/mman.h>
#include <unistd.h>

#include "cuda_call.h"
#include "cuda_context.h"
#include "cuda_range.h"

/* True when device memory that has one is behind all of it. */
static int has_memory(CUdeviceptr address, size_t bytes)
{
	const struct cuda_range *range = cuda_range_find(address);

	return range && (range->kind == RANGE_LINEAR || range->kind == RANGE_MAPPED) &&
	       range->dev >= 0 && bytes <= range->start + range->size_bytes - address;
}

/* The descriptor stands for one: nothing can be done with it but to close it. */
CUresult cuMemGetHandleForAddressRange(void *out_handle, CUdeviceptr address, size_t bytes,
				       CUmemRangeHandleType type, unsigned long long flags)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(CUDA_ID_cuMemGetHandleForAddressRange, &ctx);
	int fd;

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_handle || bytes == 0 || address % page_bytes || bytes % page_bytes || flags ||
	    type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || !has_memory(address, bytes))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	fd = memfd_create("dma-buf", MFD_CLOEXEC);
	if (fd < 0)
		return cuda_call_end(CUDA_ERROR_OPERATING_SYSTEM);
	*(int *)out_handle = fd;
	return cuda_call_end(CUDA_SUCCESS);
}
