/*
 * meanwhile pins|alloc: with memory, when it is let go on, does what needs the memory on the device
 * to be.
 */
#include "client.h"

int main(int argc, char **argv)
{
	CUdeviceptr addrs[3], more;
	int yes = 1, can = 0;

	CHECK(argc == 2);
	client_start();
	for (int i = 0; i < 3; i++)
		OK(cuMemAlloc_v2(&addrs[i], 2 * MIB));
	client_pause("ready");
	if (!strcmp(argv[1], "alloc")) {
		OK(cuMemAlloc_v2(&more, 10 * MIB));
	} else {
		OK(cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, addrs[0]));
		OK(cuPointerGetAttribute(&can, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
					 addrs[1]));
	}
	printf("end\n");
	return 0;
}
