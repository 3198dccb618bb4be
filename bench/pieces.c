/*
 * How much of a limit a program can really get.
 *
 *   pieces KIND        alloc, pitch, managed or vmm
 *
 * Makes a context, loads a module, and takes pieces of 2 MiB until it is refused. Prints what the
 * driver says this process held before the first piece (context and module) and at the end, and the
 * number of pieces. What the driver says comes from NVML, asked past any library in front.
 */
#include "driver.h"
#include "kernels.h"

#include <string.h>
#include <unistd.h>

enum { PIECE = 2 << 20, ROWS = 1024 };

static struct {
	void *cuda, *nvml;
} lib;

/* What the driver says this process holds on device 0; -1 when it does not say. */
static int64_t process_bytes(void)
{
	static nvmlProcessInfo_t rows[ROWS];
	unsigned count = ROWS;
	nvmlDevice_t dev;

	if (DRIVER_OWN(lib.nvml, nvmlDeviceGetHandleByIndex_v2)(0, &dev) != NVML_SUCCESS ||
	    DRIVER_OWN(lib.nvml, nvmlDeviceGetComputeRunningProcesses_v3)(dev, &count, rows) !=
		    NVML_SUCCESS)
		return -1;
	for (unsigned i = 0; i < count; i++)
		if (rows[i].pid == (unsigned)getpid())
			return (int64_t)rows[i].usedGpuMemory;
	return -1;
}

static CUresult take_vmm(void)
{
	static const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
	};
	CUmemGenericAllocationHandle handle;

	return DRIVER(lib.cuda, cuMemCreate)(&handle, PIECE, &prop, 0);
}

static CUresult take(const char *kind)
{
	CUdeviceptr addr;
	size_t pitch;

	if (strcmp(kind, "pitch") == 0)
		return DRIVER(lib.cuda, cuMemAllocPitch_v2)(&addr, &pitch, 65536, PIECE / 65536, 4);
	if (strcmp(kind, "managed") == 0)
		return DRIVER(lib.cuda, cuMemAllocManaged)(&addr, PIECE, CU_MEM_ATTACH_GLOBAL);
	if (strcmp(kind, "vmm") == 0)
		return take_vmm();
	if (strcmp(kind, "alloc") == 0)
		return DRIVER(lib.cuda, cuMemAlloc_v2)(&addr, PIECE);
	fprintf(stderr, "pieces: '%s' is not alloc, pitch, managed or vmm\n", kind);
	exit(2);
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "alloc";
	unsigned long pieces = 0;
	int64_t before_bytes;
	CUmodule module;
	CUresult res;

	lib.cuda = driver_open("libcuda.so.1");
	lib.nvml = driver_open("libnvidia-ml.so.1");
	CHECK(DRIVER_OWN(lib.nvml, nvmlInit_v2)());
	driver_begin(lib.cuda);
	CHECK(DRIVER(lib.cuda, cuModuleLoadData)(&module, kernels_ptx));
	before_bytes = process_bytes();
	while ((res = take(kind)) == CUDA_SUCCESS)
		pieces++;
	printf("%lld %lld %lu %d\n", (long long)before_bytes, (long long)process_bytes(), pieces,
	       (int)res);
	return 0;
}
