/* Launches one kernel many times and prints the rate. See `help`. */
#include <getopt.h>
#include <time.h>

#include "kernels.h"
#include "options.h"

static const char help[] =
	"Usage: launch [--count N] [--kernel empty|spin] [--ns N] [--sync] [--spare]\n"
	"Launches one kernel N times (1000) and prints the rate. --ns is how long each spin kernel\n"
	"takes; --sync waits after every launch; --spare gets a library's kernel as well and never\n"
	"launches it.\n";

struct launch {
	const char *kernel;
	unsigned long count;
	unsigned long long ns;
	int sync, spare;
};

static struct launch parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "count", required_argument, NULL, 'c' },
		{ "kernel", required_argument, NULL, 'k' },
		{ "ns", required_argument, NULL, 'n' },
		{ "sync", no_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{ "spare", no_argument, NULL, 'x' },
		{ NULL, 0, NULL, 0 },
	};
	struct launch l = { "empty", 1000, 0, 0, 0 };
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'c':
			l.count = options_number("--count", optarg, 1, UINT32_MAX);
			break;
		case 'k':
			if (strcmp(optarg, "empty") != 0 && strcmp(optarg, "spin") != 0)
				options_refuse("--kernel", optarg, "empty or spin");
			l.kernel = optarg;
			break;
		case 'n':
			l.ns = options_number("--ns", optarg, 0, 60000000000);
			break;
		case 's':
			l.sync = 1;
			break;
		case 'h':
			options_help(help);
			break;
		case 'x':
			l.spare = 1;
			break;
		default:
			exit(2);
		}
	}
	options_end(argc, argv, optind);
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
	CUlibrary library;
	CUkernel spare;
	CUfunction func;
	CUdevice dev;
	CUcontext ctx;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuDevicePrimaryCtxRetain(&ctx, dev));
	CHECK(cuCtxSetCurrent(ctx));
	CHECK(cuModuleLoadData(&module, kernels_ptx));
	CHECK(cuModuleGetFunction(&func, module, l.kernel));
	if (l.spare) {
		CHECK(cuLibraryLoadData(&library, kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
		CHECK(cuLibraryGetKernel(&spare, library, "checksum"));
	}
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
