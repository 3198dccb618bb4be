#include "cuda_managed.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda_area.h"
#include "cuda_call.h"
#include "cuda_capture.h"
#include "cuda_context.h"
#include "cuda_device.h"
#include "cuda_heap.h"
#include "cuda_stream.h"
#include "cuda_work.h"

static uint64_t managed_bytes; /* the driver's lock: of all managed ranges */

static uint64_t round_up(uint64_t bytes)
{
	return (bytes + HEAP_BLOCK_BYTES - 1) / HEAP_BLOCK_BYTES * HEAP_BLOCK_BYTES;
}

/* Moves one block to the machine's device `index`, or to the host for -1. A full device leaves it
 * where it is. Any thread: who exchanges the old place gives its memory back. */
static void move_block(_Atomic signed char *place, int index)
{
	signed char target = (signed char)(index + 1);
	signed char old = atomic_load_explicit(place, memory_order_relaxed);

	if (old == target || (index >= 0 && machine_take_managed(index, HEAP_BLOCK_BYTES) != 0))
		return;
	old = atomic_exchange_explicit(place, target, memory_order_relaxed);
	if (old > 0)
		machine_give_managed(old - 1, HEAP_BLOCK_BYTES);
}

static void move(struct cuda_range *range, uint64_t address, uint64_t bytes, int index)
{
	uint64_t first, last;

	if (address < range->start)
		address = range->start;
	first = (address - range->start) / HEAP_BLOCK_BYTES;
	last = (address + bytes - 1 - range->start) / HEAP_BLOCK_BYTES;
	for (uint64_t i = first; i <= last && i * HEAP_BLOCK_BYTES < range->taken_bytes; i++)
		move_block(&range->place[i], index);
}

void cuda_managed_touch(const struct CUctx_st *ctx, uint64_t address, uint64_t size_bytes)
{
	struct cuda_range *range = cuda_range_find(address);

	if (range && range->kind == RANGE_MANAGED)
		move(range, address, size_bytes, ctx->index);
}

void cuda_managed_release(struct cuda_range *range)
{
	move(range, range->start, range->taken_bytes, HEAP_HOST);
	free(range->place);
	munmap((void *)range->start, range->taken_bytes);
	managed_bytes -= range->taken_bytes;
}

/* What host and devices have together. */
static uint64_t most_bytes(void)
{
	uint64_t bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

	for (int i = 0; i < cuda_device_count(); i++)
		bytes += cuda_device_get(i)->memory_bytes;
	return bytes;
}

struct cuda_range *cuda_managed_new(struct CUctx_st *ctx, uint64_t bytes, unsigned flags)
{
	struct cuda_range *range;
	void *map;

	if (bytes > most_bytes() || managed_bytes + round_up(bytes) > most_bytes())
		return NULL;
	range = calloc(1, sizeof(*range));
	if (!range)
		return NULL;
	*range = (struct cuda_range){ .size_bytes = bytes,
				      .kind = RANGE_MANAGED,
				      .dev = ctx->dev,
				      .ctx = ctx,
				      .flags = flags,
				      .taken_bytes = round_up(bytes) };
	range->place = calloc(range->taken_bytes / HEAP_BLOCK_BYTES, 1);
	map = mmap(NULL, range->taken_bytes, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	range->start = (uint64_t)map;
	if (!range->place || map == MAP_FAILED || cuda_range_insert(range) != 0) {
		if (map != MAP_FAILED)
			munmap(map, range->taken_bytes);
		free(range->place);
		free(range);
		return NULL;
	}
	managed_bytes += range->taken_bytes;
	return range;
}

CUresult cuMemAllocManaged(CUdeviceptr *out_address, size_t bytes, unsigned int flags)
{
	struct cuda_range *range;
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(CUDA_ID_cuMemAllocManaged, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_address || bytes == 0 ||
	    (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	res = cuda_stream_check_unsafe(ctx);
	if (res != CUDA_SUCCESS)
		return cuda_call_end(res);
	range = cuda_managed_new(ctx, bytes, flags);
	if (!range)
		return cuda_call_end(CUDA_ERROR_OUT_OF_MEMORY);
	*out_address = range->start;
	return cuda_call_end(CUDA_SUCCESS);
}

/* The managed range that holds a whole span; NULL when none does. */
static struct cuda_range *find_span(uint64_t address, uint64_t bytes)
{
	struct cuda_range *range = cuda_range_find(address);

	if (!range || range->kind != RANGE_MANAGED || bytes == 0 ||
	    bytes > range->start + range->size_bytes - address)
		return NULL;
	return range;
}

static CUresult run_prefetch(struct cuda_work *work, struct CUctx_st *ctx, struct cuda_turn *turn)
{
	struct cuda_range *range;

	(void)ctx;
	(void)turn;
	cuda_range_lock_shared();
	range = cuda_range_find(work->prefetch.address);
	if (range && range->kind == RANGE_MANAGED)
		move(range, work->prefetch.address, work->prefetch.bytes, work->prefetch.index);
	cuda_range_unlock();
	return CUDA_SUCCESS;
}

static const struct cuda_work_ops prefetch_ops = { .run = run_prefetch };

static CUresult prefetch(enum cuda_id id, enum stream_default form, uint64_t address,
			 uint64_t bytes, CUmemLocation location, CUstream handle)
{
	struct CUstream_st *stream;
	struct cuda_work *work;
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(id, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuda_stream_find(handle, form, &stream);
	if (res != CUDA_SUCCESS)
		return cuda_call_end(res);
	if (location.type == CU_MEM_LOCATION_TYPE_DEVICE && !cuda_device_is_valid(location.id))
		return cuda_call_end(CUDA_ERROR_INVALID_DEVICE);
	if (!find_span(address, bytes))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	work = cuda_work_new(&prefetch_ops);
	if (!work)
		return cuda_call_end(CUDA_ERROR_OUT_OF_MEMORY);
	work->prefetch.address = address;
	work->prefetch.bytes = bytes;
	work->prefetch.index = location.type == CU_MEM_LOCATION_TYPE_DEVICE ?
				       cuda_device_index(location.id) :
				       HEAP_HOST;
	return cuda_call_end(cuda_stream_submit(stream, work));
}

static CUmemLocation location_of(CUdevice dev)
{
	return (CUmemLocation){ .type = dev == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST :
							       CU_MEM_LOCATION_TYPE_DEVICE,
				.id = dev };
}

CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice dev, CUstream stream)
{
	return prefetch(CUDA_ID_cuMemPrefetchAsync, DEFAULT_LEGACY, address, bytes,
			location_of(dev), stream);
}

CUresult cuMemPrefetchAsync_ptsz(CUdeviceptr address, size_t bytes, CUdevice dev, CUstream stream)
{
	return prefetch(CUDA_ID_cuMemPrefetchAsync_ptsz, DEFAULT_PER_THREAD, address, bytes,
			location_of(dev), stream);
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation location,
			       unsigned int flags, CUstream stream)
{
	if (flags)
		return cuda_call_is_ready() ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_INITIALIZED;
	return prefetch(CUDA_ID_cuMemPrefetchAsync_v2, DEFAULT_LEGACY, address, bytes, location,
			stream);
}

CUresult cuMemPrefetchAsync_v2_ptsz(CUdeviceptr address, size_t bytes, CUmemLocation location,
				    unsigned int flags, CUstream stream)
{
	if (flags)
		return cuda_call_is_ready() ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_INITIALIZED;
	return prefetch(CUDA_ID_cuMemPrefetchAsync_v2_ptsz, DEFAULT_PER_THREAD, address, bytes,
			location, stream);
}

/* Hints; nothing here follows them. */
static CUresult advise(enum cuda_id id, uint64_t address, uint64_t bytes, CUmem_advise advice,
		       CUmemLocation location)
{
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(id, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	if ((int)advice < CU_MEM_ADVISE_SET_READ_MOSTLY ||
	    advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY || !find_span(address, bytes))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	if (advice >= CU_MEM_ADVISE_SET_PREFERRED_LOCATION &&
	    location.type == CU_MEM_LOCATION_TYPE_DEVICE && !cuda_device_is_valid(location.id))
		return cuda_call_end(CUDA_ERROR_INVALID_DEVICE);
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice dev)
{
	return advise(CUDA_ID_cuMemAdvise, address, bytes, advice, location_of(dev));
}

CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, CUmem_advise advice,
			CUmemLocation location)
{
	return advise(CUDA_ID_cuMemAdvise_v2, address, bytes, advice, location);
}

/* Who may touch managed memory when: here the host always may. */
static CUresult attach(enum cuda_id id, enum stream_default form, CUstream handle, uint64_t address,
		       uint64_t bytes, unsigned flags)
{
	struct cuda_range *range;
	struct CUstream_st *stream;
	CUresult res = cuda_call_begin(id);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuda_stream_find(handle, form, &stream);
	if (res != CUDA_SUCCESS)
		return cuda_call_end(res);
	range = cuda_range_find(address);
	if (!range || range->kind != RANGE_MANAGED || range->start != address ||
	    (bytes && bytes != range->size_bytes) ||
	    (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
	     flags != CU_MEM_ATTACH_SINGLE))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t bytes,
				unsigned int flags)
{
	return attach(CUDA_ID_cuStreamAttachMemAsync, DEFAULT_LEGACY, stream, address, bytes,
		      flags);
}

CUresult cuStreamAttachMemAsync_ptsz(CUstream stream, CUdeviceptr address, size_t bytes,
				     unsigned int flags)
{
	return attach(CUDA_ID_cuStreamAttachMemAsync_ptsz, DEFAULT_PER_THREAD, stream, address,
		      bytes, flags);
}
