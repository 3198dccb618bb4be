/*
 * What a driver call costs through the library in front, beside the driver's own.
 *
 *   calls ROUNDS CALLS
 *
 * In every round each call is made CALLS times in either way, one batch after the other, and the
 * order changes each round. Prints "name ours own", nanoseconds per call, one line per round.
 */
#include "driver.h"
#include "kernels.h"

enum { WAYS = 2 };

/* The functions, as this program gets them (0) and the driver's own (1). */
static struct way {
	__typeof__(&cuMemGetInfo_v2) get_info;
	__typeof__(&cuMemAlloc_v2) alloc;
	__typeof__(&cuMemFree_v2) free;
	__typeof__(&cuLaunchKernel) launch;
} ways[WAYS];

static void *cuda;
static CUfunction empty;

static void call_get_info(const struct way *w)
{
	size_t free_bytes, total_bytes;

	CHECK(w->get_info(&free_bytes, &total_bytes));
}

static void call_alloc(const struct way *w, size_t bytes)
{
	CUdeviceptr addr;

	CHECK(w->alloc(&addr, bytes));
	CHECK(w->free(addr));
}

static void call_alloc_256(const struct way *w)
{
	call_alloc(w, 256);
}

static void call_alloc_4k(const struct way *w)
{
	call_alloc(w, 4096);
}

static void call_alloc_64k(const struct way *w)
{
	call_alloc(w, 65536);
}

static void call_alloc_1m(const struct way *w)
{
	call_alloc(w, MIB);
}

static void call_alloc_2m(const struct way *w)
{
	call_alloc(w, 2 * MIB);
}

static void call_alloc_16m(const struct way *w)
{
	call_alloc(w, 16 * MIB);
}

static void call_alloc_256m(const struct way *w)
{
	call_alloc(w, 256 * MIB);
}

static void call_alloc_1g(const struct way *w)
{
	call_alloc(w, 1024 * MIB);
}

static void call_launch(const struct way *w)
{
	CHECK(w->launch(empty, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
}

static const struct measure {
	const char *name;
	void (*call)(const struct way *w);
	long pause_ns; /* before each call: the figures that are kept for a moment are old then */
	long part;     /* one call in so many is made: they take long */
} measures[] = {
	{ "cuMemGetInfo", call_get_info, 0, 1 },
	{ "cuMemGetInfo after 1 ms", call_get_info, 1000000, 10 },
	{ "cuMemAlloc+cuMemFree of 256 B", call_alloc_256, 0, 1 },
	{ "cuMemAlloc+cuMemFree of 4 KiB", call_alloc_4k, 0, 1 },
	{ "cuMemAlloc+cuMemFree of 64 KiB", call_alloc_64k, 0, 1 },
	{ "cuMemAlloc+cuMemFree of 1 MiB", call_alloc_1m, 0, 1 },
	{ "cuMemAlloc+cuMemFree of 2 MiB", call_alloc_2m, 0, 1 },
	{ "cuMemAlloc+cuMemFree of 16 MiB", call_alloc_16m, 0, 4 },
	{ "cuMemAlloc+cuMemFree of 256 MiB", call_alloc_256m, 0, 10 },
	{ "cuMemAlloc+cuMemFree of 1 GiB", call_alloc_1g, 0, 20 },
	{ "cuLaunchKernel", call_launch, 0, 1 },
};

/* As batch_ns(), for calls each of which comes after a pause. */
static double paused_ns(const struct measure *m, const struct way *w, long calls)
{
	struct timespec pause = { .tv_nsec = m->pause_ns };
	int64_t start_ns, took_ns = 0;

	for (long i = 0; i < calls; i++) {
		nanosleep(&pause, NULL);
		start_ns = driver_now_ns();
		m->call(w);
		took_ns += driver_now_ns() - start_ns;
	}
	return (double)took_ns / (double)calls;
}

/* Nanoseconds per call of a batch; what it left in the GPU's queue is waited for after. */
static double batch_ns(const struct measure *m, const struct way *w, long calls)
{
	int64_t start_ns, took_ns;

	calls = calls / m->part + 1;
	if (m->pause_ns)
		return paused_ns(m, w, calls);
	start_ns = driver_now_ns();
	for (long i = 0; i < calls; i++)
		m->call(w);
	took_ns = driver_now_ns() - start_ns;
	CHECK(DRIVER_OWN(cuda, cuCtxSynchronize)());
	return (double)took_ns / (double)calls;
}

static void find_ways(void)
{
	ways[0] = (struct way){ DRIVER(cuda, cuMemGetInfo_v2), DRIVER(cuda, cuMemAlloc_v2),
				DRIVER(cuda, cuMemFree_v2), DRIVER(cuda, cuLaunchKernel) };
	ways[1] = (struct way){ DRIVER_OWN(cuda, cuMemGetInfo_v2), DRIVER_OWN(cuda, cuMemAlloc_v2),
				DRIVER_OWN(cuda, cuMemFree_v2), DRIVER_OWN(cuda, cuLaunchKernel) };
	if (ways[0].get_info == ways[1].get_info)
		fprintf(stderr, "calls: no library stands before the driver\n");
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 100, calls = argc > 2 ? atol(argv[2]) : 100;
	CUdeviceptr kept;
	CUmodule module;

	cuda = driver_open("libcuda.so.1");
	find_ways();
	driver_begin(cuda);
	CHECK(DRIVER(cuda, cuModuleLoadData)(&module, kernels_ptx));
	CHECK(DRIVER(cuda, cuModuleGetFunction)(&empty, module, "empty"));
	/* A block that stays: small allocations come from it, not each from a new one. */
	CHECK(ways[0].alloc(&kept, 4096));
	for (size_t m = 0; m < sizeof(measures) / sizeof(*measures); m++) {
		batch_ns(&measures[m], &ways[0], calls);
		batch_ns(&measures[m], &ways[1], calls);
		for (long i = 0; i < rounds; i++) {
			double ns[WAYS];

			ns[i % 2] = batch_ns(&measures[m], &ways[i % 2], calls);
			ns[1 - i % 2] = batch_ns(&measures[m], &ways[1 - i % 2], calls);
			printf("%s\t%.1f\t%.1f\n", measures[m].name, ns[0], ns[1]);
		}
	}
	return 0;
}
