/*
 * Two devices of one process: memory of the first is read and written by kernels on the second,
 * from before and from after it was let reach it, and copied between them. With an argument, where
 * neither reaches the other's memory: copied alone.
 */
#include "client.h"

#include "../../examples/kernels.h"

enum { BUFFERS = 4 };
#define BYTES (3 * MIB)

static CUcontext ctxs[2];
static CUfunction copy_bytes;

static CUdeviceptr make(int dev, unsigned value)
{
	CUdeviceptr addr;

	OK(cuCtxSetCurrent(ctxs[dev]));
	OK(cuMemAlloc_v2(&addr, BYTES));
	OK(cuMemsetD32_v2(addr, value, BYTES / 4));
	OK(cuCtxSynchronize());
	return addr;
}

static void expect(CUdeviceptr addr, unsigned value)
{
	unsigned *got = malloc(BYTES);

	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoH_v2(got, addr, BYTES));
	for (size_t i = 0; i < BYTES / 4; i++)
		SAME(got[i], value);
	free(got);
}

static CUresult copy_by_kernel(CUdeviceptr to, CUdeviceptr from)
{
	uint64_t bytes = BYTES;
	void *params[] = { &to, &from, &bytes };

	OK(cuLaunchKernel(copy_bytes, 8, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
	return cuCtxSynchronize();
}

/* With each device's context current: of what is on the other, or on the same. */
static void copy_all_ways(CUdeviceptr there, const CUdeviceptr *here)
{
	CUdeviceptr also;
	CUstream stream;

	for (int d = 0; d < 2; d++) {
		OK(cuCtxSetCurrent(ctxs[d]));
		OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
		OK(cuMemcpyDtoDAsync_v2(there, here[0], BYTES, stream));
		OK(cuStreamSynchronize(stream));
		also = make(d, 7);
		OK(cuMemcpyDtoD_v2(also, there, BYTES));
		OK(cuCtxSetCurrent(ctxs[1]));
		expect(there, 1);
		OK(cuCtxSetCurrent(ctxs[d]));
		expect(also, 1);
		OK(cuMemcpyAsync(there, here[1], BYTES, stream));
		OK(cuStreamSynchronize(stream));
		OK(cuMemcpy(also, there, BYTES));
		OK(cuCtxSynchronize());
		expect(also, 2);
		IS(cuMemcpyDtoD_v2(there, here[0], 64 * MIB), CUDA_ERROR_INVALID_VALUE);
		OK(cuMemFree_v2(also));
		OK(cuStreamDestroy_v2(stream));
	}
	OK(cuCtxSetCurrent(ctxs[1]));
}

int main(int argc, char **argv)
{
	CUdeviceptr here[BUFFERS], there;
	CUmodule module;

	(void)argv;
	OK(cuInit(0));
	for (int d = 0; d < 2; d++)
		OK(cuDevicePrimaryCtxRetain(&ctxs[d], d));
	for (unsigned i = 0; i < BUFFERS / 2; i++)
		here[i] = make(0, i + 1);
	there = make(1, 0);
	OK(cuModuleLoadData(&module, kernels_ptx));
	OK(cuModuleGetFunction(&copy_bytes, module, "copy"));
	/* Copies need no leave. */
	OK(cuMemcpyDtoD_v2(there, here[0], BYTES));
	expect(there, 1);
	OK(cuMemcpy(there, here[1], BYTES));
	expect(there, 2);
	OK(cuMemcpyAsync(there, here[0], BYTES, NULL));
	expect(there, 1);
	OK(cuMemcpyPeer(there, ctxs[1], here[1], ctxs[0], BYTES));
	expect(there, 2);
	copy_all_ways(there, here);
	if (argc > 1) {
		IS(cuCtxEnablePeerAccess(ctxs[0], 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
		puts("apart");
		fflush(stdout);
		getchar();
		copy_all_ways(there, here);
		puts("end");
		return 0;
	}
	OK(cuCtxEnablePeerAccess(ctxs[0], 0));
	IS(cuCtxEnablePeerAccess(ctxs[0], 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	for (unsigned i = BUFFERS / 2; i < BUFFERS; i++)
		here[i] = make(0, i + 1);
	OK(cuCtxSetCurrent(ctxs[1]));
	puts("reached");
	fflush(stdout);
	getchar();
	for (unsigned i = 0; i < BUFFERS; i++) {
		OK(copy_by_kernel(there, here[i]));
		expect(there, i + 1);
	}
	OK(cuMemsetD32_v2(there, 9, BYTES / 4));
	OK(copy_by_kernel(here[0], there));
	OK(cuCtxSetCurrent(ctxs[0]));
	expect(here[0], 9);
	puts("end");
	return 0;
}
