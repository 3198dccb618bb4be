/*
 * Unit tests on the software GPU: its library is linked and found by drv/real.c. The machine is the
 * test's own; each test is a fresh one (fresh.h), since a process has a driver once.
 */
#pragma once

#include "drv/real.h"
#include "fresh.h"

#include <stdlib.h>

#define MIB (UINT64_C(1) << 20)

#define SIM_OK(call) CHECK_EQ(call, CUDA_SUCCESS)

/* The driver, with `settings` as RATION_SIM; device 0's primary context is current. */
static inline CUcontext sim_gpu_start(const char *settings)
{
	CUcontext ctx = NULL;
	char path[300];

	snprintf(path, sizeof(path), "%s/gpu", scratch_dir);
	setenv("RATION_SIM_FILE", path, 1);
	setenv("RATION_SIM", settings, 1);
	CHECK(real_find(REAL_CUDA));
	SIM_OK(cuInit(0));
	SIM_OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	SIM_OK(cuCtxSetCurrent(ctx));
	return ctx;
}

static inline uint64_t sim_gpu_free_bytes(void)
{
	size_t free_bytes = 0, total_bytes = 0;

	SIM_OK(cuMemGetInfo_v2(&free_bytes, &total_bytes));
	return free_bytes;
}
