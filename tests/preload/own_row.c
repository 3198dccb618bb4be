/*
 * Without the library: whether the search for the own row in NVML's process list finds it, on
 * whatever driver there is. "pid PID", "own PID", "us MICROSECONDS"; pid 0 when it was not found.
 */
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"
#include "drv/fingerprint.h"
#include "drv/real.h"

struct real real;

static CUdeviceptr held;

static bool take(void *arg, uint64_t bytes)
{
	(void)arg;
	return cuMemAlloc_v2(&held, bytes) == CUDA_SUCCESS;
}

static bool give(void *arg)
{
	(void)arg;
	return cuMemFree_v2(held) == CUDA_SUCCESS;
}

int main(void)
{
	struct fingerprint f = { .take = take, .give = give, .blocks_most = 4 };
	int64_t begun_ns;
	nvmlDevice_t dev;
	unsigned pid;
	CUcontext ctx;

	real.nvmlDeviceGetComputeRunningProcesses_v3 = nvmlDeviceGetComputeRunningProcesses_v3;
	if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&ctx, 0) != CUDA_SUCCESS ||
	    cuCtxSetCurrent(ctx) != CUDA_SUCCESS || nvmlInit_v2() != NVML_SUCCESS ||
	    nvmlDeviceGetHandleByIndex_v2(0, &dev) != NVML_SUCCESS)
		return 1;
	begun_ns = clock_now_ns();
	f.seed = (uint64_t)begun_ns;
	pid = fingerprint_find(dev, &f);
	printf("pid %u\nown %d\nus %lld\n", pid, (int)getpid(),
	       (long long)((clock_now_ns() - begun_ns) / NSEC_PER_USEC));
	return 0;
}
