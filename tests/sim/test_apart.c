/* Devices that do not reach each other's memory (p2p=no): what can be asked, and what is copied. */
#include "check.h"

#define UNIT (UINT64_C(2) << 20)

static CUdeviceptr map_on(int dev)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = dev },
	};
	CUmemAccessDesc access = { prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle handle;
	CUdeviceptr addr;

	OK(cuMemAddressReserve(&addr, UNIT, 0, 0, 0));
	OK(cuMemCreate(&handle, UNIT, &prop, 0));
	OK(cuMemMap(addr, UNIT, 0, handle, 0));
	OK(cuMemRelease(handle));
	OK(cuMemSetAccess(addr, UNIT, &access, 1));
	access.location.id = !dev;
	EXPECT(cuMemSetAccess(addr, UNIT, &access, 1), CUDA_ERROR_INVALID_DEVICE);
	return addr;
}

static unsigned first_word(CUdeviceptr addr)
{
	unsigned value = 0;

	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoH_v2(&value, addr, sizeof(value)));
	return value;
}

enum way { LINE, FLAT, DEEP, WAYS };

/* The last that it does leaves the context broken: copies what is mapped by one way. */
static int copies_by(void *arg)
{
	const enum way way = *(const enum way *)arg;
	CUDA_MEMCPY2D flat = { .srcMemoryType = CU_MEMORYTYPE_DEVICE,
			       .srcPitch = 4096,
			       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			       .dstPitch = 4096,
			       .WidthInBytes = 4096,
			       .Height = UNIT / 4096 };
	CUDA_MEMCPY3D plain = { .srcMemoryType = CU_MEMORYTYPE_DEVICE,
				.dstMemoryType = CU_MEMORYTYPE_DEVICE,
				.WidthInBytes = UNIT,
				.Height = 1,
				.Depth = 1 };
	CUDA_MEMCPY3D_PEER deep = { .srcMemoryType = CU_MEMORYTYPE_DEVICE,
				    .dstMemoryType = CU_MEMORYTYPE_DEVICE,
				    .WidthInBytes = UNIT,
				    .Height = 1,
				    .Depth = 1 };
	CUdeviceptr linear, here, mapped;
	CUcontext first, second;
	int can = 1;

	check_start("count=2,mem=1g,context=32m,p2p=no");
	OK(cuDeviceCanAccessPeer(&can, 0, 1));
	TRUE(!can);
	OK(cuDeviceGetP2PAttribute(&can, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1));
	TRUE(!can);
	OK(cuCtxCreate_v2(&second, 0, 1));
	mapped = map_on(1);
	OK(cuMemAlloc_v2(&linear, UNIT));
	OK(cuMemsetD32_v2(linear, 3, UNIT / 4));
	OK(cuMemsetD32_v2(mapped, 5, UNIT / 4));
	OK(cuCtxSynchronize());
	OK(cuCtxCreate_v2(&first, 0, 0));
	EXPECT(cuCtxEnablePeerAccess(second, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
	OK(cuMemAlloc_v2(&here, UNIT));
	/* The driver's own memory, in whatever way; what is mapped, by whose it is. */
	OK(cuMemcpyDtoD_v2(here, linear, UNIT));
	TRUE(first_word(here) == 3);
	OK(cuMemcpyPeer(here, first, mapped, second, UNIT));
	TRUE(first_word(here) == 5);
	flat.dstDevice = here;
	deep.dstDevice = here;
	flat.srcDevice = linear;
	OK(cuMemsetD32_v2(here, 0, UNIT / 4));
	OK(cuMemcpy2D_v2(&flat));
	TRUE(first_word(here) == 3);
	deep.srcContext = second;
	deep.dstContext = first;
	deep.srcDevice = mapped;
	OK(cuMemcpy3DPeer(&deep));
	TRUE(first_word(here) == 5);
	flat.srcDevice = mapped;
	plain.srcDevice = mapped;
	plain.dstDevice = here;
	if (way == LINE)
		OK(cuMemcpyDtoD_v2(here, mapped, UNIT));
	else if (way == FLAT)
		OK(cuMemcpy2D_v2(&flat));
	else
		OK(cuMemcpy3D_v2(&plain));
	EXPECT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	return check_end();
}

int main(void)
{
	for (enum way way = 0; way < WAYS; way++)
		TRUE(check_child(copies_by, &way));
	return check_failures > 0;
}
