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

/* Of memory that was imported, here by the program that made it. */
static CUresult take_import(uint64_t bytes, struct matrix_piece *p)
{
	CUmemAccessDesc access = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
				   .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle import;
	CUdeviceptr address;
	CUresult res = take_descriptor(bytes, p);
	int fd = (int)p->handle;

	if (res != CUDA_SUCCESS)
		return res;
	res = cuMemImportFromShareableHandle(&import, (void *)(intptr_t)fd,
					     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	close(fd);
	if (res != CUDA_SUCCESS)
		return res;
	OK(cuMemAddressReserve(&address, bytes, 0, 0, 0));
	res = cuMemMap(address, bytes, 0, import, 0);
	OK(cuMemRelease(import));
	if (res != CUDA_SUCCESS)
		return res;
	OK(cuMemSetAccess(address, bytes, &access, 1));
	res = cuMemGetHandleForAddressRange(&fd, address, bytes,
					    CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
	keep(fd, p);
	OK(cuMemUnmap(address, bytes));
	OK(cuMemAddressFree(address, bytes));
	return res;
}

/* Of what a graph allocates: its store has it back from another graph, and the card from that. */
static CUresult take_graph(uint64_t bytes, struct matrix_piece *p)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = {
		.poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			       .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } },
		.bytesize = bytes,
	};
	CUgraph graph, freeing;
	CUgraphExec exec, freeing_exec;
	CUgraphNode node;
	CUresult res;
	int fd = -1;

	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
	res = cuGraphInstantiateWithFlags(&exec, graph, 0);
	if (res == CUDA_SUCCESS) {
		res = cuGraphLaunch(exec, NULL);
		if (res == CUDA_SUCCESS) {
			OK(cuStreamSynchronize(NULL));
			res = cuMemGetHandleForAddressRange(&fd, params.dptr, bytes,
							    CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
			OK(cuGraphCreate(&freeing, 0));
			OK(cuGraphAddMemFreeNode(&node, freeing, NULL, 0, params.dptr));
			OK(cuGraphInstantiateWithFlags(&freeing_exec, freeing, 0));
			OK(cuGraphLaunch(freeing_exec, NULL));
			OK(cuStreamSynchronize(NULL));
			OK(cuGraphExecDestroy(freeing_exec));
			OK(cuGraphDestroy(freeing));
		}
		OK(cuGraphExecDestroy(exec));
	}
	OK(cuGraphDestroy(graph));
	OK(cuDeviceGraphMemTrim(0));
	keep(fd, p);
	return res;
}

const struct matrix_way matrix_lent_descriptor = { "descriptor", NULL, take_descriptor, give,
						   NULL };
const struct matrix_way matrix_lent_dma_buf = { "dma-buf", NULL, take_dma_buf, give, NULL };
const struct matrix_way matrix_lent_import = { "dma-buf-import", NULL, take_import, give, NULL };
const struct matrix_way matrix_lent_graph = { "dma-buf-graph", NULL, take_graph, give, NULL };
