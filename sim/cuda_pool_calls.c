#include "cuda_call.h"
#include "cuda_context.h"
#include "cuda_device.h"
#include "cuda_graph_memory.h"
#include "cuda_memory.h"
#include "cuda_object.h"
#include "cuda_pool.h"
#include "cuda_shared.h"
#include "cuda_stream.h"

/* With no pool given, the current one of the stream's device. */
static CUresult alloc(enum cuda_id id, enum stream_default form, CUdeviceptr *out_address,
		      size_t bytes, CUmemoryPool pool, CUstream handle)
{
	struct CUstream_st *stream;
	uint64_t address;
	CUresult res = cuda_call_begin(id);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuda_stream_find(handle, form, &stream);
	if (res != CUDA_SUCCESS)
		return cuda_call_end(res);
	if (!pool)
		pool = cuda_pool_current(stream->ctx->dev);
	if (!pool)
		return cuda_call_end(CUDA_ERROR_OUT_OF_MEMORY);
	if (!out_address || bytes == 0)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	if (stream->capture)
		res = cuda_graph_memory_capture_alloc(stream, cuda_pool_device(pool), bytes,
						      &address);
	else
		res = cuda_pool_alloc(pool, bytes, stream, &address);
	if (res == CUDA_SUCCESS)
		*out_address = address;
	return cuda_call_end(res);
}

CUresult cuMemAllocAsync(CUdeviceptr *out_address, size_t bytes, CUstream stream)
{
	return alloc(CUDA_ID_cuMemAllocAsync, DEFAULT_LEGACY, out_address, bytes, NULL, stream);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *out_address, size_t bytes, CUstream stream)
{
	return alloc(CUDA_ID_cuMemAllocAsync_ptsz, DEFAULT_PER_THREAD, out_address, bytes, NULL,
		     stream);
}

static CUresult alloc_from(enum cuda_id id, enum stream_default form, CUdeviceptr *out_address,
			   size_t bytes, CUmemoryPool pool, CUstream stream)
{
	bool is_pool;

	if (!cuda_call_is_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	cuda_call_lock();
	is_pool = cuda_object_is(OBJECT_POOL, pool);
	cuda_call_unlock();
	if (!is_pool)
		return CUDA_ERROR_INVALID_VALUE;
	return alloc(id, form, out_address, bytes, pool, stream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out_address, size_t bytes, CUmemoryPool pool,
				 CUstream stream)
{
	return alloc_from(CUDA_ID_cuMemAllocFromPoolAsync, DEFAULT_LEGACY, out_address, bytes, pool,
			  stream);
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *out_address, size_t bytes, CUmemoryPool pool,
				      CUstream stream)
{
	return alloc_from(CUDA_ID_cuMemAllocFromPoolAsync_ptsz, DEFAULT_PER_THREAD, out_address,
			  bytes, pool, stream);
}

static CUresult free_async(enum cuda_id id, enum stream_default form, CUdeviceptr address,
			   CUstream handle)
{
	struct CUstream_st *stream;
	struct cuda_range *range;
	CUresult res = cuda_call_begin(id);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuda_stream_find(handle, form, &stream);
	if (res != CUDA_SUCCESS)
		return cuda_call_end(res);
	range = cuda_range_find(address);
	if (range && range->kind == RANGE_GRAPH)
		res = stream->capture ? cuda_graph_memory_capture_free(stream, address) :
					cuda_graph_memory_free_async(address, stream);
	else if (range && range->kind == RANGE_POOL && !stream->capture)
		res = cuda_pool_free_async(range->pool, address, stream);
	else if (range && range->kind == RANGE_LINEAR && !stream->capture)
		res = cuda_memory_free(address);
	else
		res = CUDA_ERROR_INVALID_VALUE;
	return cuda_call_end(res);
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
	return free_async(CUDA_ID_cuMemFreeAsync, DEFAULT_LEGACY, address, stream);
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream)
{
	return free_async(CUDA_ID_cuMemFreeAsync_ptsz, DEFAULT_PER_THREAD, address, stream);
}

CUresult cuMemPoolCreate(CUmemoryPool *out_pool, const CUmemPoolProps *props)
{
	CUresult res = cuda_call_begin(CUDA_ID_cuMemPoolCreate);
	bool is_shared, is_managed;
	int fd = -1;

	if (res != CUDA_SUCCESS)
		return res;
	is_managed = props && props->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED &&
		     cuda_call_version() >= 13000;
	if (!out_pool || !props ||
	    (props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED && !is_managed))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	is_shared = props->handleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE || (is_managed && is_shared) ||
	    (props->handleTypes != CU_MEM_HANDLE_TYPE_NONE && !is_shared))
		return cuda_call_end(CUDA_ERROR_NOT_SUPPORTED);
	if (!cuda_device_is_valid(props->location.id))
		return cuda_call_end(CUDA_ERROR_INVALID_DEVICE);
	if (is_shared) {
		fd = cuda_shared_new(SHARED_POOL, cuda_device_index(props->location.id), 0);
		if (fd < 0)
			return cuda_call_end(CUDA_ERROR_OUT_OF_MEMORY);
	}
	*out_pool = is_managed ? cuda_pool_new_managed(props->location.id, props->maxSize) :
				 cuda_pool_new(props->location.id, props->maxSize, fd);
	return cuda_call_end(*out_pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

/* Starts a call about a pool that exists. */
static CUresult begin(enum cuda_id id, CUmemoryPool pool)
{
	CUresult res = cuda_call_begin(id);

	if (res != CUDA_SUCCESS)
		return res;
	if (!cuda_object_is(OBJECT_POOL, pool))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	CUresult res = begin(CUDA_ID_cuMemPoolDestroy, pool);

	return res == CUDA_SUCCESS ? cuda_call_end(cuda_pool_end(pool)) : res;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep_bytes)
{
	CUresult res = begin(CUDA_ID_cuMemPoolTrimTo, pool);

	if (res != CUDA_SUCCESS)
		return res;
	if (cuda_pool_is_imported(pool))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	cuda_pool_trim(pool, keep_bytes);
	return cuda_call_end(CUDA_SUCCESS);
}

/* The 64-bit figure behind an attribute; NULL for the others. */
static uint64_t *figure(struct cuda_pool_stats *stats, CUmemPool_attribute attribute)
{
	switch ((int)attribute) {
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		return &stats->threshold_bytes;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		return &stats->reserved_bytes;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		return &stats->reserved_high_bytes;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		return &stats->used_bytes;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		return &stats->used_high_bytes;
	default:
		return NULL;
	}
}

static bool is_reuse(CUmemPool_attribute attribute)
{
	return attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
	       attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *out_value)
{
	CUresult res = begin(CUDA_ID_cuMemPoolGetAttribute, pool);
	struct cuda_pool_stats *stats;

	if (res != CUDA_SUCCESS)
		return res;
	stats = cuda_pool_stats(pool);
	if (!out_value || cuda_pool_is_imported(pool))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	if (is_reuse(attribute))
		*(int *)out_value = stats->reuse[(int)attribute - 1];
	else if (figure(stats, attribute))
		*(cuuint64_t *)out_value = *figure(stats, attribute);
	else
		res = CUDA_ERROR_INVALID_VALUE;
	return cuda_call_end(res);
}

/* A high mark can only be set to zero, which means to what it is now. */
static CUresult set_attribute(struct cuda_pool_stats *stats, CUmemPool_attribute attribute,
			      const void *value)
{
	if (is_reuse(attribute)) {
		stats->reuse[(int)attribute - 1] = *(const int *)value;
		return CUDA_SUCCESS;
	}
	switch ((int)attribute) {
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		stats->threshold_bytes = *(const cuuint64_t *)value;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		if (*(const cuuint64_t *)value)
			return CUDA_ERROR_INVALID_VALUE;
		stats->reserved_high_bytes = stats->reserved_bytes;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		if (*(const cuuint64_t *)value)
			return CUDA_ERROR_INVALID_VALUE;
		stats->used_high_bytes = stats->used_bytes;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	CUresult res = begin(CUDA_ID_cuMemPoolSetAttribute, pool);

	if (res != CUDA_SUCCESS)
		return res;
	return cuda_call_end(value ? set_attribute(cuda_pool_stats(pool), attribute, value) :
				     CUDA_ERROR_INVALID_VALUE);
}

/* The pool's own device has always access. */
CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
	CUresult res = begin(CUDA_ID_cuMemPoolSetAccess, pool);

	if (res != CUDA_SUCCESS)
		return res;
	if (!map || count == 0)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	for (size_t i = 0; i < count; i++) {
		if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
			return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
		if (!cuda_device_is_valid(map[i].location.id))
			return cuda_call_end(CUDA_ERROR_INVALID_DEVICE);
		if (map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE &&
		    (map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE ||
		     map[i].location.id == cuda_pool_device(pool)))
			return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	}
	for (size_t i = 0; i < count; i++)
		cuda_pool_set_access(pool, map[i].location.id,
				     map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *out_flags, CUmemoryPool pool,
			    CUmemLocation *location)
{
	CUresult res = begin(CUDA_ID_cuMemPoolGetAccess, pool);

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	if (!cuda_device_is_valid(location->id))
		return cuda_call_end(CUDA_ERROR_INVALID_DEVICE);
	*out_flags = cuda_pool_is_accessible(pool, location->id, RANGE_WRITE) ?
			     CU_MEM_ACCESS_FLAGS_PROT_READWRITE :
			     CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return cuda_call_end(CUDA_SUCCESS);
}

/* Answers one of a device's pools. */
static CUresult get_pool(enum cuda_id id, CUmemoryPool *out_pool, CUdevice dev,
			 struct CUmemPoolHandle_st *(*which)(CUdevice))
{
	CUresult res = cuda_call_begin(id);
	CUmemoryPool pool;

	if (res != CUDA_SUCCESS)
		return res;
	if (!out_pool)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	if (!cuda_device_is_valid(dev))
		return cuda_call_end(CUDA_ERROR_INVALID_DEVICE);
	pool = which(dev);
	if (!pool)
		return cuda_call_end(CUDA_ERROR_OUT_OF_MEMORY);
	*out_pool = pool;
	return cuda_call_end(CUDA_SUCCESS);
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *out_pool, CUdevice dev)
{
	return get_pool(CUDA_ID_cuDeviceGetDefaultMemPool, out_pool, dev, cuda_pool_default);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *out_pool, CUdevice dev)
{
	return get_pool(CUDA_ID_cuDeviceGetMemPool, out_pool, dev, cuda_pool_current);
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
	CUresult res = begin(CUDA_ID_cuDeviceSetMemPool, pool);

	if (res != CUDA_SUCCESS)
		return res;
	if (!cuda_device_is_valid(dev))
		return cuda_call_end(CUDA_ERROR_INVALID_DEVICE);
	if (cuda_pool_device(pool) != dev || cuda_pool_is_imported(pool))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	cuda_pool_set_current(dev, pool);
	return cuda_call_end(CUDA_SUCCESS);
}

/* CUDA_SUCCESS for pinned memory of a device: the pools there are. */
static CUresult check_kind(const CUmemLocation *location, CUmemAllocationType type)
{
	if (!cuda_call_is_ready())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!location)
		return CUDA_ERROR_INVALID_VALUE;
	return location->type == CU_MEM_LOCATION_TYPE_DEVICE &&
			       type == CU_MEM_ALLOCATION_TYPE_PINNED ?
		       CUDA_SUCCESS :
		       CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *out_pool, CUmemLocation *location,
				CUmemAllocationType type)
{
	CUresult res = check_kind(location, type);

	if (res != CUDA_SUCCESS)
		return res;
	return get_pool(CUDA_ID_cuMemGetDefaultMemPool, out_pool, location->id, cuda_pool_default);
}

CUresult cuMemGetMemPool(CUmemoryPool *out_pool, CUmemLocation *location, CUmemAllocationType type)
{
	CUresult res = check_kind(location, type);

	if (res != CUDA_SUCCESS)
		return res;
	return get_pool(CUDA_ID_cuMemGetMemPool, out_pool, location->id, cuda_pool_current);
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
	CUresult res = check_kind(location, type);

	if (res != CUDA_SUCCESS)
		return res;
	res = begin(CUDA_ID_cuMemSetMemPool, pool);
	if (res != CUDA_SUCCESS)
		return res;
	if (!cuda_device_is_valid(location->id) || cuda_pool_device(pool) != location->id ||
	    cuda_pool_is_imported(pool))
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	cuda_pool_set_current(location->id, pool);
	return cuda_call_end(CUDA_SUCCESS);
}
