/* Memory that is let go of at once, and held by a descriptor alone. */
#include <string.h>
#include <unistd.h>

#include "client.h"
#include "matrix_way.h"

/* What a piece is held by. */
static void keep(int fd, struct matrix_piece *p)
{
	p->handle = (uint64_t)fd;
}

static CUresult give(struct matrix_piece *p)
{
	return close((int)p->handle) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

static CUresult take_descriptor(uint64_t bytes, struct matrix_piece *p)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	CUmemGenericAllocationHandle handle;
	CUresult res = cuMemCreate(&handle, bytes, &prop, 0);
	int fd = -1;

	if (res != CUDA_SUCCESS)
		return res;
	res = cuMemExportToShareableHandle(&fd, handle, prop.requestedHandleTypes, 0);
	keep(fd, p);
	OK(cuMemRelease(handle));
	return res;
}

static CUresult take_dma_buf(uint64_t bytes, struct matrix_piece *p)
{
	CUdeviceptr address;
	CUresult res = cuMemAlloc_v2(&address, bytes);
	int fd = -1;

	if (res != CUDA_SUCCESS)
		return res;
	res = cuMemGetHandleForAddressRange(&fd, address, bytes,
					    CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
	keep(fd, p);
	OK(cuMemFree_v2(address));
	return res;
}

const struct matrix_way matrix_lent_descriptor = { "descriptor", NULL, take_descriptor, give,
						   NULL };
const struct matrix_way matrix_lent_dma_buf = { "dma-buf", NULL, take_dma_buf, give, NULL };
