/*
 * ranks FILE RANK...: a thread for each rank, on the device of that number, with memory of its own
 * and kernels that wait for the other rank's, of two in all, whoever has it. They go on until a
 * line comes, a few rounds more, and what the memory holds is right.
 */
#include "client.h"

#include <pthread.h>

#include "../../examples/kernels.h"

enum { RANKS = 2, KERNELS = 1, ROUNDS_A_WAIT = 64, ROUNDS_MORE = 300, STOP_AT = 32 };
#define KERNEL_NS UINT64_C(100000)
#define OWN_BYTES (8 * MIB)

/* Of both processes: how far each rank is, 64 bytes apart, and behind them the last round or 0. */
static uint64_t *words;
static _Atomic unsigned ready;

static uint64_t last_round(void)
{
	return __atomic_load_n(&words[STOP_AT], __ATOMIC_ACQUIRE);
}

static void run_round(CUfunction spin, CUfunction meet, CUstream stream, int rank, uint64_t round)
{
	CUdeviceptr own, other;
	uint64_t ns = KERNEL_NS;
	void *spin_params[] = { &ns }, *meet_params[] = { &own, &other, &round };

	OK(cuMemHostGetDevicePointer_v2(&own, &words[8 * rank], 0));
	OK(cuMemHostGetDevicePointer_v2(&other, &words[8 * !rank], 0));
	for (int i = 0; i < KERNELS; i++)
		OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, spin_params, NULL));
	OK(cuLaunchKernel(meet, 1, 1, 1, 1, 1, 1, 0, stream, meet_params, NULL));
}

static void *run_rank(void *arg)
{
	int rank = (int)(intptr_t)arg;
	CUfunction spin, meet;
	CUdeviceptr own;
	CUmodule module;
	CUstream stream;
	CUcontext ctx;
	unsigned word;

	OK(cuDevicePrimaryCtxRetain(&ctx, rank));
	OK(cuCtxSetCurrent(ctx));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuModuleLoadData(&module, kernels_ptx));
	OK(cuModuleGetFunction(&spin, module, "spin"));
	OK(cuModuleGetFunction(&meet, module, "ncclMeet"));
	OK(cuMemAlloc_v2(&own, OWN_BYTES));
	OK(cuMemsetD32_v2(own, 5 + (unsigned)rank, OWN_BYTES / 4));
	for (uint64_t round = 1; !last_round() || round <= last_round(); round++) {
		run_round(spin, meet, stream, rank, round);
		if (round % ROUNDS_A_WAIT == 0)
			OK(cuStreamSynchronize(stream));
		if (round == ROUNDS_A_WAIT)
			ready++;
	}
	OK(cuStreamSynchronize(stream));
	OK(cuMemcpyDtoH_v2(&word, own + OWN_BYTES - 4, 4));
	SAME(word, 5 + (unsigned)rank);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[RANKS];
	CUcontext ctx;
	int fd, count = argc - 2;

	CHECK(count == 1 || count == 2);
	fd = open(argv[1], O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(words != MAP_FAILED);
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, atoi(argv[2])));
	OK(cuCtxSetCurrent(ctx));
	OK(cuMemHostRegister_v2(words, 4096,
				CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
	for (int i = 0; i < count; i++)
		CHECK(pthread_create(&threads[i], NULL, run_rank,
				     (void *)(intptr_t)atoi(argv[2 + i])) == 0);
	while (ready < (unsigned)count)
		usleep(1000);
	client_pause("ready");
	/* Nobody is so far ahead. */
	if (last_round() == 0)
		__atomic_store_n(&words[STOP_AT],
				 __atomic_load_n(&words[8 * atoi(argv[2])], __ATOMIC_ACQUIRE) +
					 ROUNDS_MORE,
				 __ATOMIC_RELEASE);
	for (int i = 0; i < count; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	printf("end\n");
	return 0;
}
