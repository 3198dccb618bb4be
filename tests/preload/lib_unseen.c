/* Loaded with RTLD_DEEPBIND: its calls go to the driver past every preload. */
#include "abi/cuda.h"

__attribute__((visibility("default"))) CUresult unseen_alloc(CUdeviceptr *out_addr, size_t bytes);

CUresult unseen_alloc(CUdeviceptr *out_addr, size_t bytes)
{
	return cuMemAlloc_v2(out_addr, bytes);
}
