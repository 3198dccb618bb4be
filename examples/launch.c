/*
 * Launches one kernel many times and prints the rate.
 *
 *   launch [--count N] [--kernel empty|spin] [--ns N] [--sync]
 *
 * --ns is how long each spin kernel takes, --sync waits after every launch.
 */
#include <getopt.h>
#include <time.h>

#include "kernels.h"
#include "options.h"

struct launch {
	const char *kernel;
	unsigned long count;
	unsigned long long ns;
	int sync;
};

static struct launch parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "count", required_argument, NULL, 'c' },
		{ "kernel", required_argument, NULL, 'k' },
		{ "ns", required_argument, NULL, 'n' },
		{ "sync", no_argument, NULL, 's' },
		{ NULL, 0, NULL, 0 },
	};
	struct launch l = { "empty", 1000, 0, 0 };
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'c':
			l.count = strtoul(optarg, NULL, 10);
			break;
		case 'k':
			l.kernel = optarg;
			break;
		case 'n':
			l.ns = strtoull(optarg, NULL, 10);
			break;
		case 's':
			l.sync = 1;
			break;
		default:
			exit(2);
		}
	}
	return l;
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	struct launch l = parse(argc, argv);
	void *params[] = { &l.ns };
	double start_s, took_s;
	CUmodule module;
	CUfunction func;
	CUdevice dev;
	CUcontext ctx;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuDevicePrimaryCtxRetain(&ctx, dev));
	CHECK(cuCtxSetCurrent(ctx));
	CHECK(cuModuleLoadData(&module, kernels_ptx));
	CHECK(cuModuleGetFunction(&func, module, l.kernel));
	start_s = now_s();
	for (unsigned long i = 0; i < l.count; i++) {
		CHECK(cuLaunchKernel(func, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
		if (l.sync)
			CHECK(cuCtxSynchronize());
	}
	CHECK(cuCtxSynchronize());
	took_s = now_s() - start_s;
	printf("%lu launches of %s in %.3f s, %.0f per second\n", l.count, l.kernel, took_s,
	       (double)l.count / took_s);
	CHECK(cuModuleUnload(module));
	CHECK(cuDevicePrimaryCtxRelease_v2(dev));
	return 0;
}
