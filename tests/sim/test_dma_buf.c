/* Memory that DMA buffers keep. */
#include "kept.h"

/* Of a handle that cannot be exported too, and of one that was imported. */
static int mapped(void *arg)
{
	CUmemGenericAllocationHandle handle, again;
	CUdeviceptr address;
	int fd, exported;

	(void)arg;
	begin();
	handle = create_for(CU_MEM_HANDLE_TYPE_NONE, 8 * MIB);
	address = map(handle, 8 * MIB);
	fd = dma_buf(address, MIB);
	OK(cuMemUnmap(address, 8 * MIB));
	OK(cuMemRelease(handle));
	HAS(8 * MIB, 0);
	close(fd);
	HAS(0, 0);
	handle = create(8 * MIB);
	exported = export(handle);
	OK(cuMemRelease(handle));
	again = import(exported);
	close(exported);
	address = map(again, 8 * MIB);
	HAS(8 * MIB, 8 * MIB);
	fd = dma_buf(address, MIB);
	HAS(8 * MIB, 8 * MIB);
	OK(cuMemUnmap(address, 8 * MIB));
	OK(cuMemRelease(again));
	HAS(8 * MIB, 0);
	close(fd);
	HAS(0, 0);
	return 0;
}

/* A DMA buffer of a part keeps the whole allocation, several keep it once. */
static int allocations(void *arg)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr large, odd, small, other, mapped;
	int fd, second;

	(void)arg;
	begin();
	OK(cuMemAlloc_v2(&large, 256 * MIB));
	fd = dma_buf(large + 8 * MIB, 4 * MIB);
	second = dma_buf(large, 4096);
	TRUE(is_open_as_it_should(fd));
	HAS(256 * MIB, 256 * MIB);
	OK(cuMemFree_v2(large));
	HAS(256 * MIB, 0);
	close(fd);
	HAS(256 * MIB, 0);
	close(second);
	HAS(0, 0);
	/* Two whole blocks, and a third in which another allocation lies. */
	OK(cuMemAlloc_v2(&odd, 5 * MIB));
	OK(cuMemAlloc_v2(&small, 4096));
	HAS(6 * MIB, 6 * MIB);
	fd = dma_buf(odd, 4096);
	OK(cuMemFree_v2(odd));
	HAS(6 * MIB, 2 * MIB);
	OK(cuMemFree_v2(small));
	HAS(6 * MIB, 0);
	close(fd);
	HAS(0, 0);
	OK(cuMemAlloc_v2(&small, 4096));
	OK(cuMemAlloc_v2(&other, 4096));
	fd = dma_buf(small, 4096);
	OK(cuMemFree_v2(small));
	OK(cuMemFree_v2(other));
	HAS(2 * MIB, 0);
	close(fd);
	HAS(0, 0);
	handle = create(8 * MIB);
	mapped = map(handle, 8 * MIB);
	fd = dma_buf(mapped + MIB, MIB);
	second = export(handle);
	OK(cuMemUnmap(mapped, 8 * MIB));
	OK(cuMemRelease(handle));
	HAS(8 * MIB, 0);
	close(second);
	HAS(8 * MIB, 0);
	close(fd);
	HAS(0, 0);
	return 0;
}

/* A card gives one of all memory that a range is mapped to. */
static int several_mapped(void *arg)
{
	CUmemGenericAllocationHandle handles[3];
	CUdeviceptr range;
	int fd;

	(void)arg;
	begin();
	OK(cuMemAddressReserve(&range, 24 * MIB, 0, 0, 0));
	for (uint64_t i = 0; i < 3; i++) {
		handles[i] = create(8 * MIB);
		OK(cuMemMap(range + i * 8 * MIB, 8 * MIB, 0, handles[i], 0));
	}
	fd = dma_buf(range + 4 * MIB, 8 * MIB);
	EXPECT(cuMemGetHandleForAddressRange(&(int){ 0 }, range + 4 * MIB, 24 * MIB,
					     CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
	       CUDA_ERROR_INVALID_VALUE);
	OK(cuMemUnmap(range, 24 * MIB));
	for (int i = 0; i < 3; i++)
		OK(cuMemRelease(handles[i]));
	HAS(16 * MIB, 0);
	close(fd);
	HAS(0, 0);
	return 0;
}

/* Whole steps of the store, when a trim has given them back. */
static int of_a_graph(void *arg)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = {
		.poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			       .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } },
		.bytesize = MIB,
	};
	CUgraph graph;
	CUgraphExec exec;
	CUgraphNode node;
	int fd;

	(void)arg;
	begin();
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
	EXPECT(cuMemGetHandleForAddressRange(&fd, params.dptr, MIB,
					     CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
	       CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, NULL));
	OK(cuStreamSynchronize(NULL));
	fd = dma_buf(params.dptr, MIB);
	HAS(32 * MIB, 32 * MIB);
	OK(cuMemFree_v2(params.dptr));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	HAS(32 * MIB, 32 * MIB);
	OK(cuDeviceGraphMemTrim(0));
	HAS(32 * MIB, 0);
	close(fd);
	HAS(0, 0);
	return 0;
}

static int others(void *arg)
{
	CUmemAllocationHandleType types[] = { CU_MEM_HANDLE_TYPE_NONE, POSIX };
	CUdeviceptr address, plain;
	CUmemoryPool pool;
	int fd = -1;

	(void)arg;
	begin();
	OK(cuMemAllocManaged(&address, 4 * MIB, CU_MEM_ATTACH_GLOBAL));
	EXPECT(cuMemGetHandleForAddressRange(&fd, address, 2 * MIB,
					     CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
	       CUDA_ERROR_INVALID_VALUE);
	for (int i = 0; i < 2; i++) {
		pool = new_pool(types[i]);
		OK(cuMemAllocFromPoolAsync(&address, 4 * MIB, pool, NULL));
		fd = dma_buf(address + MIB, 2 * MIB);
		EXPECT(cuMemGetHandleForAddressRange(&fd, address + 3 * MIB, 2 * MIB,
						     CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
		       CUDA_ERROR_INVALID_VALUE);
		end_pool(pool, address);
		HAS(32 * MIB, 0);
		close(fd);
		HAS(0, 0);
	}
	OK(cuMemAlloc_v2(&plain, 16 * MIB));
	fd = dma_buf(plain, 2 * MIB);
	OK(cuDevicePrimaryCtxReset_v2(0));
	begin();
	TRUE(start.used == (64 + 16) * MIB);
	close(fd);
	TRUE(nvml_used_bytes(start.card) == 64 * MIB);
	return 0;
}

int main(void)
{
	check_machine("count=1,mem=1g,context=64m");
	TRUE(check_child(allocations, NULL));
	TRUE(check_child(mapped, NULL));
	TRUE(check_child(several_mapped, NULL));
	TRUE(check_child(of_a_graph, NULL));
	TRUE(check_child(others, NULL));
	return check_end();
}
