/* Has an object, and memory of the host by handle beside it, which goes step by step. */
#include "client.h"

static CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = { .type = CU_MEM_LOCATION_TYPE_HOST_NUMA } };

static void use_handle(void)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr addr;

	OK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
	client_pause("handle");
	OK(cuMemAddressReserve(&addr, 2 * MIB, 0, 0, 0));
	OK(cuMemMap(addr, 2 * MIB, 0, handle, 0));
	OK(cuMemRelease(handle));
	client_pause("mapping");
	OK(cuMemUnmap(addr, 2 * MIB));
	/* A refusal counts for nothing. */
	prop.location.id = -1;
	IS(cuMemCreate(&handle, 2 * MIB, &prop, 0), CUDA_ERROR_INVALID_VALUE);
}

int main(void)
{
	unsigned words[2] = { 0 };
	CUdeviceptr object;

	client_start();
	OK(cuMemAlloc_v2(&object, 4 * MIB));
	OK(cuMemsetD32_v2(object, 81, MIB));
	use_handle();
	client_pause("ready");
	OK(cuMemcpyDtoH_v2(words, object + 4 * MIB - sizeof(words), sizeof(words)));
	CHECK(words[0] == 81 && words[1] == 81);
	OK(cuMemFree_v2(object));
	printf("end\n");
	return 0;
}
