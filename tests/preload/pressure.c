/*
 * A full tenant whose threads ask pools in streams, so that nobody can know before whether a pool
 * will grow: its room is in pieces, or in frees that other streams have not come to.
 *
 *   pressure THREADS SEED   until standard input ends; gives all back
 */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "client.h"

enum { KEPT = 10, THREADS_MAX = 16 };

static CUcontext ctx;
static CUmemoryPool shared;
static CUstream streams[THREADS_MAX];
static int count;
static _Atomic bool is_over;
static _Atomic uint64_t got, refused;

/* What a thread has, and where from. */
struct piece {
	CUdeviceptr addr;
	bool is_linear;
};

static bool has_ended(void)
{
	struct pollfd end = { .fd = STDIN_FILENO, .events = POLLIN };

	return poll(&end, 1, 0) != 0;
}

/* A stream is late by so many microseconds. */
static void be_late(void *arg)
{
	usleep((useconds_t)(uintptr_t)arg);
}

static CUmemoryPool new_pool(void)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	cuuint64_t threshold = UINT64_MAX;
	CUmemoryPool pool;

	OK(cuMemPoolCreate(&pool, &props));
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
	return pool;
}

static uint64_t some_bytes(unsigned *seed)
{
	switch (rand_r(seed) % 8) {
	case 0:
		return 1 + (uint64_t)rand_r(seed) % 4096;
	case 1:
		return (33 + (uint64_t)rand_r(seed) % 64) * MIB;
	case 2:
	case 3:
		return (1 + (uint64_t)rand_r(seed) % 31) * MIB;
	default:
		return 1 + (uint64_t)rand_r(seed) % (4 * MIB);
	}
}

static CUresult take(struct piece *p, CUmemoryPool own, CUstream stream, unsigned *seed)
{
	uint64_t bytes = some_bytes(seed);

	p->is_linear = false;
	switch (rand_r(seed) % 8) {
	case 0:
		/* Small ones might do with room in a block that is there: another matter. */
		p->is_linear = true;
		return cuMemAlloc_v2(&p->addr, bytes + BLOCK_BYTES);
	case 1:
	case 2:
		return cuMemAllocFromPoolAsync(&p->addr, bytes, own, stream);
	case 3:
	case 4:
		return cuMemAllocAsync(&p->addr, bytes, stream);
	default:
		return cuMemAllocFromPoolAsync(&p->addr, bytes, shared, stream);
	}
}

/* In whichever stream. */
static void give(struct piece *p, CUstream stream)
{
	if (p->is_linear)
		OK(cuMemFree_v2(p->addr));
	else if (p->addr)
		OK(cuMemFreeAsync(p->addr, stream));
	p->addr = 0;
}

/* What makes it hard to know what is free. */
static void disturb(CUmemoryPool own, CUstream stream, unsigned *seed)
{
	switch (rand_r(seed) % 32) {
	case 0:
		OK(cuMemPoolTrimTo(rand_r(seed) % 2 ? own : shared, 0));
		break;
	case 1:
		OK(cuStreamSynchronize(stream));
		break;
	case 2:
	case 3:
	case 4:
		OK(cuLaunchHostFunc(stream, be_late, (void *)(uintptr_t)(rand_r(seed) % 2000)));
		break;
	default:
		break;
	}
}

static void *press(void *arg)
{
	unsigned number = (unsigned)(uintptr_t)arg, seed = number;
	CUstream stream = streams[number % THREADS_MAX];
	struct piece kept[KEPT] = { { 0 } };
	CUmemoryPool own;

	OK(cuCtxSetCurrent(ctx));
	own = new_pool();
	while (!atomic_load(&is_over)) {
		struct piece *p = &kept[rand_r(&seed) % KEPT];
		CUresult res;

		disturb(own, stream, &seed);
		if (p->addr) {
			give(p, rand_r(&seed) % 4 ? stream : streams[rand_r(&seed) % count]);
			continue;
		}
		res = take(p, own, stream, &seed);
		CHECK(res == CUDA_SUCCESS || res == CUDA_ERROR_OUT_OF_MEMORY);
		if (res == CUDA_SUCCESS) {
			atomic_fetch_add(&got, 1);
			continue;
		}
		p->addr = 0;
		atomic_fetch_add(&refused, 1);
		for (int i = 0; i < KEPT && rand_r(&seed) % 2; i++)
			give(&kept[i], stream);
	}
	for (int i = 0; i < KEPT; i++)
		give(&kept[i], stream);
	OK(cuStreamSynchronize(stream));
	return own;
}

int main(int argc, char **argv)
{
	unsigned seed = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
	pthread_t threads[THREADS_MAX];

	count = argc > 1 ? atoi(argv[1]) : 8;
	CHECK(count > 0 && count <= THREADS_MAX);
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	shared = new_pool();
	for (int i = 0; i < count; i++)
		OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
	client_pause("ready");
	for (int i = 0; i < count; i++)
		CHECK(pthread_create(&threads[i], NULL, press,
				     (void *)(uintptr_t)(seed * THREADS_MAX + (unsigned)i)) == 0);
	while (!has_ended())
		usleep(10000);
	atomic_store(&is_over, true);
	for (int i = 0; i < count; i++) {
		void *own;

		CHECK(pthread_join(threads[i], &own) == 0);
		OK(cuMemPoolDestroy(own));
	}
	OK(cuMemPoolDestroy(shared));
	client_say("got", got);
	client_say("refused", refused);
	OK(cuDevicePrimaryCtxRelease_v2(0));
	return 0;
}
