#include "cuda_host.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda_call.h"
#include "cuda_context.h"
#include "cuda_memory.h"
#include "cuda_stream.h"

enum { ALLOC_FLAGS = 0x7, REGISTER_FLAGS = 0xf };

void cuda_host_release(struct cuda_range *range)
{
	munmap((void *)range->start, range->taken_bytes);
}

static struct cuda_range *new_range(struct CUctx_st *ctx, uint64_t start, uint64_t bytes,
				    enum range_kind kind, unsigned flags)
{
	struct cuda_range *range = calloc(1, sizeof(*range));

	if (!range)
		return NULL;
	*range = (struct cuda_range){ .start = start,
				      .size_bytes = bytes,
				      .kind = kind,
				      .dev = -1,
				      .ctx = ctx,
				      .flags = flags };
	if (cuda_range_insert(range) == 0)
		return range;
	free(range);
	return NULL;
}

static CUresult map_host(struct CUctx_st *ctx, uint64_t bytes, unsigned flags, void **out_host)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), taken_bytes;
	struct cuda_range *range;
	void *host;

	if (bytes > UINT64_MAX / 2)
		return CUDA_ERROR_OUT_OF_MEMORY;
	taken_bytes = (bytes + page - 1) / page * page;
	host = mmap(NULL, taken_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (host == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	range = new_range(ctx, (uint64_t)host, bytes, RANGE_HOST, flags);
	if (!range) {
		munmap(host, taken_bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	range->taken_bytes = taken_bytes;
	*out_host = host;
	return CUDA_SUCCESS;
}

/* No bytes are no address, which can be freed. */
static CUresult alloc(enum cuda_id id, void **out_host, uint64_t bytes, unsigned flags)
{
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(id, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_host || (flags & ~(unsigned)ALLOC_FLAGS))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	if (bytes == 0) {
		*out_host = NULL;
		return cuda_call_end(CUDA_SUCCESS);
	}
	res = cuda_stream_check_unsafe(ctx);
	if (res == CUDA_SUCCESS)
		res = map_host(ctx, bytes, flags, out_host);
	return cuda_call_end(res);
}

CUresult cuMemHostAlloc(void **out_host, size_t bytes, unsigned int flags)
{
	return alloc(CUDA_ID_cuMemHostAlloc, out_host, bytes, flags);
}

CUresult cuMemAllocHost(void **out_host, unsigned int bytes)
{
	return alloc(CUDA_ID_cuMemAllocHost, out_host, bytes, 0);
}

CUresult cuMemAllocHost_v2(void **out_host, size_t bytes)
{
	return alloc(CUDA_ID_cuMemAllocHost_v2, out_host, bytes, 0);
}

/* The range of that kind that starts there; NULL when there is none. */
static struct cuda_range *find_start(const void *host, enum range_kind kind)
{
	struct cuda_range *range = cuda_range_find((uint64_t)host);

	return range && range->start == (uint64_t)host && range->kind == kind ? range : NULL;
}

/* Takes a range away after all work of its context has ended. */
static CUresult drop(struct CUctx_st *ctx, const void *host, enum range_kind kind,
		     CUresult not_found)
{
	struct cuda_range *range = find_start(host, kind);
	CUresult res;

	if (!range)
		return not_found;
	res = cuda_stream_check_unsafe(ctx);
	if (res != CUDA_SUCCESS)
		return res;
	cuda_stream_drain(range->ctx);
	range = find_start(host, kind);
	if (!range)
		return not_found;
	cuda_memory_delete(range);
	return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void *host)
{
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(CUDA_ID_cuMemFreeHost, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	return cuda_call_end(host ? drop(ctx, host, RANGE_HOST, CUDA_ERROR_INVALID_VALUE) :
				    CUDA_SUCCESS);
}

/* True when the kernel has all these pages mapped. */
static bool is_mapped(uint64_t start, uint64_t bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t at = start / page * page, end = start + bytes;
	unsigned char present[4096];

	while (at < end) {
		uint64_t length = end - at;

		if (length > sizeof(present) * page)
			length = sizeof(present) * page;
		if (mincore((void *)at, length, present) != 0)
			return false;
		at += length;
	}
	return true;
}

static CUresult register_host(enum cuda_id id, void *host, uint64_t bytes, unsigned flags)
{
	uint64_t start = (uint64_t)host;
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(id, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	if (!host || bytes == 0 || start + bytes < start || (flags & ~(unsigned)REGISTER_FLAGS))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	if (flags & (CU_MEMHOSTREGISTER_READ_ONLY | CU_MEMHOSTREGISTER_IOMEMORY))
		return cuda_call_end(CUDA_ERROR_NOT_SUPPORTED);
	res = cuda_stream_check_unsafe(ctx);
	if (res != CUDA_SUCCESS)
		return cuda_call_end(res);
	if (!cuda_range_is_free(start, bytes))
		return cuda_call_end(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	if (!is_mapped(start, bytes))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	if (!new_range(ctx, start, bytes, RANGE_REGISTERED, flags))
		res = CUDA_ERROR_OUT_OF_MEMORY;
	return cuda_call_end(res);
}

CUresult cuMemHostRegister(void *host, size_t bytes, unsigned int flags)
{
	return register_host(CUDA_ID_cuMemHostRegister, host, bytes, flags);
}

CUresult cuMemHostRegister_v2(void *host, size_t bytes, unsigned int flags)
{
	return register_host(CUDA_ID_cuMemHostRegister_v2, host, bytes, flags);
}

CUresult cuMemHostUnregister(void *host)
{
	struct cuda_range *range;
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(CUDA_ID_cuMemHostUnregister, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	range = cuda_range_find((uint64_t)host);
	if (!host || (range && range->kind == RANGE_REGISTERED && range->start != (uint64_t)host))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	return cuda_call_end(
		drop(ctx, host, RANGE_REGISTERED, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED));
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out_address, void *host, unsigned int flags)
{
	struct cuda_range *range;
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(CUDA_ID_cuMemHostGetDevicePointer_v2, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	range = cuda_range_find((uint64_t)host);
	if (!out_address || flags || !range ||
	    (range->kind != RANGE_HOST && range->kind != RANGE_REGISTERED &&
	     range->kind != RANGE_MANAGED))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	*out_address = (CUdeviceptr)host;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuMemHostGetFlags(unsigned int *out_flags, void *host)
{
	struct cuda_range *range;
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(CUDA_ID_cuMemHostGetFlags, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	range = cuda_range_find((uint64_t)host);
	if (!out_flags || !range || (range->kind != RANGE_HOST && range->kind != RANGE_REGISTERED))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	*out_flags = range->flags;
	return cuda_call_end(CUDA_SUCCESS);
}
