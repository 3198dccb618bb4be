/*
 * The software GPU with multicast objects of which one thing alone is there: what is bound is held
 * until it is unbound, whatever becomes of its handle. One piece at a time.
 */
#include <stddef.h>

#include "cuda_call.h"
#include "cuda_handle.h"

#define EXPORT __attribute__((visibility("default")))

/* the driver's lock */
static struct cuda_handle *bound;

EXPORT CUresult cuMulticastBindMem(CUmemGenericAllocationHandle group, size_t group_offset,
				   CUmemGenericAllocationHandle handle, size_t handle_offset,
				   size_t bytes, unsigned long long flags)
{
	CUresult res = cuda_call_begin(CUDA_ID_cuMulticastBindMem);
	struct cuda_handle *h;

	(void)group;
	(void)group_offset;
	(void)handle_offset;
	(void)bytes;
	(void)flags;
	if (res != CUDA_SUCCESS)
		return res;
	h = cuda_handle_find(handle);
	if (!h || bound)
		return cuda_call_end(CUDA_ERROR_INVALID_VALUE);
	h->references++;
	bound = h;
	return cuda_call_end(CUDA_SUCCESS);
}

EXPORT CUresult cuMulticastUnbind(CUmemGenericAllocationHandle group, CUdevice dev,
				  size_t group_offset, size_t bytes)
{
	CUresult res = cuda_call_begin(CUDA_ID_cuMulticastUnbind);

	(void)group;
	(void)dev;
	(void)group_offset;
	(void)bytes;
	if (res != CUDA_SUCCESS)
		return res;
	cuda_handle_put(bound);
	bound = NULL;
	return cuda_call_end(CUDA_SUCCESS);
}
