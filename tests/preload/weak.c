/*
 * A program that takes the driver if it is there: weak references, as in `if (&cuInit)`. Says which
 * it has, and what they answer.
 */
#include <stdio.h>

#include "abi/cuda.h"
#include "abi/nvml.h"

#pragma weak cuInit
#pragma weak cuMemAlloc_v2
#pragma weak cuMemFree_v2
#pragma weak cuMemGetInfo_v2
#pragma weak cuDeviceTotalMem_v2
#pragma weak cuDevicePrimaryCtxRetain
#pragma weak cuGetProcAddress_v2
#pragma weak cuMemCreate
#pragma weak cuMemRelease
#pragma weak cuModuleLoadData
#pragma weak nvmlDeviceGetMemoryInfo
#pragma weak nvmlDeviceGetMemoryInfo_v2

static size_t bytes[2];
static void *pointer;
static CUdeviceptr address;
static CUcontext ctx;
static CUmodule module;
static CUmemGenericAllocationHandle handle;
static const CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
static nvmlMemory_t memory;
static nvmlMemory_v2_t memory2;

/* The compiler must not take what may be NULL for an address. */
#define SAY(symbol, ...)                                              \
	do {                                                          \
		__typeof__(&symbol) volatile f = symbol;              \
		if (f)                                                \
			printf(#symbol " %d\n", (int)f(__VA_ARGS__)); \
		else                                                  \
			printf(#symbol " none\n");                    \
	} while (0)

int main(void)
{
	SAY(cuInit, 0);
	SAY(cuMemAlloc_v2, &address, 4096);
	SAY(cuMemFree_v2, 4096);
	SAY(cuMemGetInfo_v2, &bytes[0], &bytes[1]);
	SAY(cuDeviceTotalMem_v2, bytes, 0);
	SAY(cuDevicePrimaryCtxRetain, &ctx, 0);
	SAY(cuGetProcAddress_v2, "cuInit", &pointer, 12000, 0, NULL);
	SAY(cuMemCreate, &handle, 2 << 20, &prop, 0);
	SAY(cuMemRelease, 1);
	SAY(cuModuleLoadData, &module, "");
	SAY(nvmlDeviceGetMemoryInfo, NULL, &memory);
	SAY(nvmlDeviceGetMemoryInfo_v2, NULL, &memory2);
	return 0;
}
