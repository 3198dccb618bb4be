/*
 * A thread for each of two devices: kernels of its own, and one that waits for the other
 * device's. Under a limit each would hold the other up longer and longer, if what a kernel waited
 * were paid for at once.
 */
#include "client.h"

#include <pthread.h>

#include "../../examples/kernels.h"

enum { ROUNDS = 120, KERNELS = 3 };
#define KERNEL_NS UINT64_C(300000)

static uint64_t *words;

static void *rank(void *arg)
{
	int dev = (int)(intptr_t)arg;
	CUfunction spin, meet;
	CUmodule module;
	CUcontext ctx;
	CUdeviceptr own, other;
	uint64_t ns = KERNEL_NS, round;
	void *spin_params[] = { &ns }, *meet_params[] = { &own, &other, &round };

	OK(cuDevicePrimaryCtxRetain(&ctx, dev));
	OK(cuCtxSetCurrent(ctx));
	OK(cuMemHostGetDevicePointer_v2(&own, &words[8 * dev], 0));
	OK(cuMemHostGetDevicePointer_v2(&other, &words[8 * !dev], 0));
	OK(cuModuleLoadData(&module, kernels_ptx));
	OK(cuModuleGetFunction(&spin, module, "spin"));
	OK(cuModuleGetFunction(&meet, module, "ncclMeet"));
	for (round = 1; round <= ROUNDS; round++) {
		for (int i = 0; i < KERNELS; i++)
			OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, spin_params, NULL));
		OK(cuLaunchKernel(meet, 1, 1, 1, 1, 1, 1, 0, NULL, meet_params, NULL));
		if (round % 4 == 0)
			OK(cuCtxSynchronize());
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[2];
	CUcontext ctx;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	OK(cuMemHostAlloc((void **)&words, 4096,
			  CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
	memset(words, 0, 4096);
	for (int d = 0; d < 2; d++)
		CHECK(pthread_create(&threads[d], NULL, rank, (void *)(intptr_t)d) == 0);
	for (int d = 0; d < 2; d++)
		CHECK(pthread_join(threads[d], NULL) == 0);
	puts("met");
	return 0;
}
