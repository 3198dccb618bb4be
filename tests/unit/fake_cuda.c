/* A libcuda.so.1 of few functions, as test_real.c finds it: the symbols count, not what they do. */
#include "abi/cuda.h"

CUresult cuInit(unsigned int flags)
{
	return (CUresult)(int)flags;
}

CUresult cuMemAlloc_v2(CUdeviceptr *out_addr, size_t bytes)
{
	*out_addr = bytes;
	return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr addr)
{
	return addr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
