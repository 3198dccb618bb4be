#include "cuda_external.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda_call.h"
#include "cuda_context.h"
#include "cuda_handle.h"
#include "cuda_object.h"
#include "cuda_shared.h"

/* The driver's lock protects it. Its buffers live on without it. */
struct CUextMemory_st {
	struct cuda_handle *handle;
	uint64_t size_bytes;
};

static CUresult check_type(CUexternalMemoryHandleType type)
{
	if (type == CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
		return CUDA_SUCCESS;
	return (int)type > CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD &&
			       type <= CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD ?
		       CUDA_ERROR_NOT_SUPPORTED :
		       CUDA_ERROR_INVALID_VALUE;
}

/* The descriptor is the driver's when this succeeds. */
static CUresult import(const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc, CUexternalMemory *out_external)
{
	struct CUextMemory_st *external;
	struct cuda_handle *handle;
	CUresult res = check_type(desc->type);

	if (res == CUDA_SUCCESS &&
	    (desc->size == 0 || desc->flags & ~(unsigned)CUDA_EXTERNAL_MEMORY_DEDICATED))
		res = CUDA_ERROR_INVALID_VALUE;
	if (res == CUDA_SUCCESS)
		res = cuda_handle_import(desc->handle.fd, &handle);
	if (res != CUDA_SUCCESS)
		return res;
	external = malloc(sizeof(*external));
	if (desc->size > handle->size_bytes)
		res = CUDA_ERROR_INVALID_VALUE;
	else if (!external || cuda_object_add(OBJECT_EXTERNAL, external) != 0)
		res = CUDA_ERROR_OUT_OF_MEMORY;
	if (res != CUDA_SUCCESS) {
		free(external);
		cuda_handle_put(handle);
		return res;
	}
	*external = (struct CUextMemory_st){ handle, desc->size };
	close(desc->handle.fd);
	*out_external = external;
	return CUDA_SUCCESS;
}

CUresult cuImportExternalMemory(CUexternalMemory *out_external,
				const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(CUDA_ID_cuImportExternalMemory, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	return cuda_call_end(out_external && desc ? import(desc, out_external) :
						    CUDA_ERROR_INVALID_VALUE);
}

static CUresult map_buffer(const struct CUextMemory_st *external, struct CUctx_st *ctx,
			   const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc, CUdeviceptr *out_address)
{
	struct cuda_range *range = calloc(1, sizeof(*range));

	if (!range)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*range = (struct cuda_range){ .size_bytes = desc->size,
				      .kind = RANGE_EXTERNAL,
				      .dev = external->handle->dev,
				      .ctx = ctx,
				      .handle = external->handle };
	if (cuda_shared_map(external->handle->fd, desc->offset, desc->size, &range->start,
			    &range->map_start, &range->taken_bytes) != 0)
		goto out_free;
	if (cuda_range_insert(range) != 0)
		goto out_unmap;
	external->handle->references++;
	*out_address = range->start;
	return CUDA_SUCCESS;

out_unmap:
	munmap((void *)range->map_start, range->taken_bytes);
out_free:
	free(range);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *out_address, CUexternalMemory external,
					 const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
	struct CUctx_st *ctx;
	CUresult res = cuda_call_begin_context(CUDA_ID_cuExternalMemoryGetMappedBuffer, &ctx);

	if (res != CUDA_SUCCESS)
		return res;
	if (!cuda_object_is(OBJECT_EXTERNAL, external))
		return cuda_call_end(CUDA_ERROR_INVALID_HANDLE);
	if (!out_address || !desc || desc->flags || desc->size == 0 ||
	    desc->size > external->size_bytes || desc->offset > external->size_bytes - desc->size)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	return cuda_call_end(map_buffer(external, ctx, desc, out_address));
}

void cuda_external_release(struct cuda_range *range)
{
	munmap((void *)range->map_start, range->taken_bytes);
	cuda_handle_put(range->handle);
}

CUresult cuDestroyExternalMemory(CUexternalMemory external)
{
	CUresult res = cuda_call_begin(CUDA_ID_cuDestroyExternalMemory);

	if (res != CUDA_SUCCESS)
		return res;
	if (!cuda_object_is(OBJECT_EXTERNAL, external))
		return cuda_call_end(CUDA_ERROR_INVALID_HANDLE);
	cuda_object_remove(external);
	cuda_handle_put(external->handle);
	free(external);
	return cuda_call_end(CUDA_SUCCESS);
}
