/*
 * Allocates BYTES and frees them COUNT times in counted(), after as many that do not count, beside a
 * block that stays. Prints nanoseconds per pair.
 *
 *   pairs BYTES COUNT
 */
#include "driver.h"

static __typeof__(&cuMemAlloc_v2) allocate;
static __typeof__(&cuMemFree_v2) release;

static void pairs(size_t bytes, long count)
{
	for (long i = 0; i < count; i++) {
		CUdeviceptr addr;

		CHECK(allocate(&addr, bytes));
		CHECK(release(addr));
	}
}

__attribute__((noinline)) static void counted(size_t bytes, long count)
{
	pairs(bytes, count);
}

int main(int argc, char **argv)
{
	long bytes = argc > 1 ? atol(argv[1]) : 0, count = argc > 2 ? atol(argv[2]) : 0;
	void *cuda = driver_open("libcuda.so.1");
	CUdeviceptr kept;
	int64_t begin_ns;

	if (bytes <= 0 || count <= 0) {
		fprintf(stderr, "usage: pairs BYTES COUNT\n");
		return 2;
	}
	driver_begin(cuda);
	allocate = DRIVER(cuda, cuMemAlloc_v2);
	release = DRIVER(cuda, cuMemFree_v2);
	CHECK(allocate(&kept, 4096));
	pairs((size_t)bytes, count);
	begin_ns = driver_now_ns();
	counted((size_t)bytes, count);
	printf("%.0f\n", (double)(driver_now_ns() - begin_ns) / (double)count);
	return 0;
}
