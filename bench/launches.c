/*
 * Launches an empty kernel COUNT times in counted(), after BEFORE launches that do not count: by then its time
 * is known. Prints nanoseconds per launch.
 *
 *   launches BEFORE COUNT
 */
#include "driver.h"
#include "kernels.h"

/* For launch_clock.c, by which time goes where it is preloaded. */
extern volatile uint64_t launches_made;
volatile uint64_t launches_made;

static __typeof__(&cuLaunchKernel) launch;
static CUfunction empty;

__attribute__((noinline)) static void counted(long count)
{
	for (long i = 0; i < count; i++) {
		launches_made++;
		CHECK(launch(empty, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	}
}

int main(int argc, char **argv)
{
	long before = argc > 1 ? atol(argv[1]) : 0, count = argc > 2 ? atol(argv[2]) : 0;
	void *cuda = driver_open("libcuda.so.1");
	int64_t begin_ns;
	CUcontext ctx;
	CUmodule module;
	CUdevice device;

	if (before <= 0 || count <= 0) {
		fprintf(stderr, "usage: launches BEFORE COUNT\n");
		return 2;
	}
	launch = DRIVER(cuda, cuLaunchKernel);
	CHECK(DRIVER(cuda, cuInit)(0));
	CHECK(DRIVER(cuda, cuDeviceGet)(&device, 0));
	CHECK(DRIVER(cuda, cuDevicePrimaryCtxRetain)(&ctx, device));
	CHECK(DRIVER(cuda, cuCtxSetCurrent)(ctx));
	CHECK(DRIVER(cuda, cuModuleLoadData)(&module, kernels_ptx));
	CHECK(DRIVER(cuda, cuModuleGetFunction)(&empty, module, "empty"));
	for (long i = 0; i < before; i++) {
		launches_made++;
		CHECK(launch(empty, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	}
	begin_ns = driver_now_ns();
	counted(count);
	printf("%.0f\n", (double)(driver_now_ns() - begin_ns) / (double)count);
	return 0;
}
