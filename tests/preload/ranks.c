/*
 * ranks FILE COUNT HOW RANK...: a thread for each rank, of COUNT in all, on the device of that
 * number, with memory of its own and kernels that wait for the other ranks', whoever has them.
 * They go on until a line comes, a few rounds more, and what the memory holds is right. HOW:
 * `waits`, for the device now and then; `full`, only for what it launched some rounds before;
 * `large`, likewise, and rank 0 has memory that takes a while to move.
 */
#include "client.h"

#include <pthread.h>

#include "../../examples/kernels.h"

enum { RANKS_MOST = 16, ROUNDS_A_WAIT = 32, DEPTH = 16, ROUNDS_FIRST = 20, ROUNDS_MORE = 50 };
enum { STOP_AT = 8 * RANKS_MOST };
#define KERNEL_NS UINT64_C(100000)
#define OWN_BYTES (8 * MIB)
#define LARGE_BYTES (64 * MIB)

/* Of both processes: how far each rank is, 64 bytes apart, and behind them the last round or 0. */
static uint64_t *words;
static int ranks;
static bool is_full, is_large;
static _Atomic unsigned ready;

static uint64_t last_round(void)
{
	return __atomic_load_n(&words[STOP_AT], __ATOMIC_ACQUIRE);
}

/* Each waits for those 1, 2, 4, .. behind it, so that nobody is done before all have begun. */
static void run_round(CUfunction spin, CUfunction meet, CUstream stream, int rank, uint64_t round)
{
	uint64_t ns = KERNEL_NS, goal = round << 4;
	CUdeviceptr own, other;
	void *spin_params[] = { &ns }, *meet_params[] = { &own, &other, &goal };

	OK(cuMemHostGetDevicePointer_v2(&own, &words[8 * rank], 0));
	OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, spin_params, NULL));
	for (int apart = 1; apart < ranks; apart *= 2, goal++) {
		OK(cuMemHostGetDevicePointer_v2(&other, &words[8 * ((rank + apart) % ranks)], 0));
		OK(cuLaunchKernel(meet, 1, 1, 1, 1, 1, 1, 0, stream, meet_params, NULL));
	}
}

/* Before a round. */
static void keep_pace(CUstream stream, CUevent *events, uint64_t round)
{
	if (is_full && round > DEPTH)
		OK(cuEventSynchronize(events[round % DEPTH]));
	else if (!is_full && round % ROUNDS_A_WAIT == 0)
		OK(cuStreamSynchronize(stream));
}

static void *run_rank(void *arg)
{
	CUevent events[DEPTH];
	int rank = (int)(intptr_t)arg;
	uint64_t bytes = is_large && rank == 0 ? LARGE_BYTES : OWN_BYTES;
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
	OK(cuMemAlloc_v2(&own, bytes));
	OK(cuMemsetD32_v2(own, 5 + (unsigned)rank, bytes / 4));
	for (int i = 0; i < DEPTH; i++)
		OK(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
	for (uint64_t round = 1; !last_round() || round <= last_round(); round++) {
		keep_pace(stream, events, round);
		run_round(spin, meet, stream, rank, round);
		OK(cuEventRecord(events[round % DEPTH], stream));
		if (round == ROUNDS_FIRST)
			ready++;
	}
	OK(cuStreamSynchronize(stream));
	OK(cuMemcpyDtoH_v2(&word, own + bytes - 4, 4));
	SAME(word, 5 + (unsigned)rank);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[RANKS_MOST];
	CUcontext ctx;
	int fd, count = argc - 4;

	CHECK(count >= 1);
	ranks = atoi(argv[2]);
	CHECK(count <= ranks && ranks <= RANKS_MOST);
	is_large = strcmp(argv[3], "large") == 0;
	is_full = is_large || strcmp(argv[3], "full") == 0;
	fd = open(argv[1], O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(words != MAP_FAILED);
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, atoi(argv[4])));
	OK(cuCtxSetCurrent(ctx));
	OK(cuMemHostRegister_v2(words, 4096,
				CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
	for (int i = 0; i < count; i++)
		CHECK(pthread_create(&threads[i], NULL, run_rank,
				     (void *)(intptr_t)atoi(argv[4 + i])) == 0);
	while (ready < (unsigned)count)
		usleep(1000);
	client_pause("ready");
	/* Nobody is so far ahead: all wait for what they launched before that. */
	if (last_round() == 0)
		__atomic_store_n(&words[STOP_AT],
				 (__atomic_load_n(&words[8 * atoi(argv[4])], __ATOMIC_ACQUIRE) >>
				  4) + ROUNDS_MORE,
				 __ATOMIC_RELEASE);
	for (int i = 0; i < count; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	printf("end\n");
	return 0;
}
