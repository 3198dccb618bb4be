/*
 * Two devices of one process: memory of the first is read and written by kernels on the second,
 * from before and from after it was let reach it, and copied between them.
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

int main(void)
{
	CUdeviceptr here[BUFFERS], there;
	CUmodule module;

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
