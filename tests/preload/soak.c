/*
 * A member of a crowded tenant: its threads take and give back memory of every exact kind at
 * random.
 *
 *   soak run THREADS SEED    until standard input ends; gives all back
 *   soak watch               until standard input ends: the most that the tenant was ever charged
 */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "client.h"

enum { KEPT = 12, THREADS_MAX = 64 };

static CUcontext ctx;
static _Atomic bool is_over;

static bool has_ended(void)
{
	struct pollfd end = { .fd = STDIN_FILENO, .events = POLLIN };

	return poll(&end, 1, 0) != 0;
}

enum kind { NONE, LINEAR, MANAGED, HANDLE };

struct piece {
	enum kind kind;
	CUdeviceptr addr; /* or the handle */
};

static void give_back(struct piece *p)
{
	if (p->kind == HANDLE)
		OK(cuMemRelease((CUmemGenericAllocationHandle)p->addr));
	else if (p->kind != NONE)
		OK(cuMemFree_v2(p->addr));
	p->kind = NONE;
}

static CUresult take(struct piece *p, enum kind kind, uint64_t bytes)
{
	const CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					   .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemGenericAllocationHandle handle = 0;
	CUresult res;

	if (kind == LINEAR)
		res = cuMemAlloc_v2(&p->addr, bytes);
	else if (kind == MANAGED)
		res = cuMemAllocManaged(&p->addr, bytes, CU_MEM_ATTACH_GLOBAL);
	else
		res = cuMemCreate(&handle, (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES,
				  &prop, 0);
	if (kind == HANDLE)
		p->addr = (CUdeviceptr)handle;
	p->kind = res == CUDA_SUCCESS ? kind : NONE;
	return res;
}

static void *churn(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg, got = 0;
	struct piece kept[KEPT] = { { NONE, 0 } };

	OK(cuCtxSetCurrent(ctx));
	while (!atomic_load(&is_over)) {
		struct piece *p = &kept[rand_r(&seed) % KEPT];
		enum kind kind = LINEAR + (enum kind)(rand_r(&seed) % 3);
		uint64_t bytes = 1 + (uint64_t)rand_r(&seed) % (rand_r(&seed) % 2 ? 4096 : 8 * MIB);
		CUresult res;

		if (p->kind != NONE) {
			give_back(p);
			continue;
		}
		res = take(p, kind, bytes);
		CHECK(res == CUDA_SUCCESS || res == CUDA_ERROR_OUT_OF_MEMORY);
		got += res == CUDA_SUCCESS;
	}
	for (int i = 0; i < KEPT; i++)
		give_back(&kept[i]);
	return (void *)(uintptr_t)got;
}

/* Others may have all: then there is no room for a context yet. */
static void start(void)
{
	CUresult res;

	OK(cuInit(0));
	while ((res = cuDevicePrimaryCtxRetain(&ctx, 0)) == CUDA_ERROR_OUT_OF_MEMORY &&
	       !has_ended())
		usleep(1000);
	if (res == CUDA_ERROR_OUT_OF_MEMORY) {
		client_say("got", 0);
		exit(0);
	}
	OK(res);
	OK(cuCtxSetCurrent(ctx));
}

static void run(int argc, char **argv)
{
	int count = argc > 0 ? atoi(argv[0]) : 8;
	unsigned seed = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
	pthread_t threads[THREADS_MAX];
	uint64_t got = 0;

	CHECK(count <= THREADS_MAX);
	start();
	for (int i = 0; i < count; i++)
		CHECK(pthread_create(&threads[i], NULL, churn,
				     (void *)(uintptr_t)(seed * THREADS_MAX + (unsigned)i)) == 0);
	while (!has_ended())
		usleep(10000);
	atomic_store(&is_over, true);
	for (int i = 0; i < count; i++) {
		void *one;

		CHECK(pthread_join(threads[i], &one) == 0);
		got += (uintptr_t)one;
	}
	client_say("got", got);
	OK(cuDevicePrimaryCtxRelease_v2(0));
}

static void watch(int argc, char **argv)
{
	uint64_t most = 0, looks = 0;

	(void)argc;
	(void)argv;
	while (looks % 1000 || !has_ended()) {
		uint64_t now = client_charged(0);

		most = now > most ? now : most;
		looks++;
	}
	client_say("most", most);
	client_say("looks", looks);
}

int main(int argc, char **argv)
{
	static const struct client_case cases[] = { { "run", run },
						    { "watch", watch },
						    { NULL, NULL } };

	return client_main(argc, argv, cases);
}
