/*
 * A round of everything that the library has a part in, while the operating system refuses it
 * something (lib_refusing.c): every answer is one of CUDA's or NVML's. Then all the memory that is
 * to be had.
 */
#include <dlfcn.h>
#include <sys/wait.h>

#include "abi/nvml.h"
#include "client.h"
#include "client_take.h"

static bool is_fine(CUresult res)
{
	const char *name;

	CHECK(cuGetErrorName(res, &name) == CUDA_SUCCESS);
	return res == CUDA_SUCCESS;
}

static void linear(void)
{
	static const char *const kinds[] = { "alloc", "pitch", "managed", "vmm", "mapped" };
	struct piece piece;

	for (int k = 0; k < 5; k++)
		for (int i = 0; i < 2; i++)
			if (is_fine(take(&piece, kinds[k], i ? 5 * MIB : 1000)))
				for (int tries = 0; tries < 5 && !is_fine(give(&piece)); tries++)
					;
}

static void arrays(void)
{
	const CUDA_ARRAY3D_DESCRIPTOR cube = { .Width = 64,
					       .Height = 64,
					       .Depth = 64,
					       .Format = CU_AD_FORMAT_FLOAT,
					       .NumChannels = 4 };
	CUmipmappedArray mipmap;
	CUarray array;

	if (is_fine(cuArray3DCreate_v2(&array, &cube)))
		is_fine(cuArrayDestroy(array));
	if (is_fine(cuMipmappedArrayCreate(&mipmap, &cube, 3)))
		is_fine(cuMipmappedArrayDestroy(mipmap));
}

static void pools(void)
{
	const CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				       .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemoryPool pool;
	CUdeviceptr addr;

	if (is_fine(cuMemAllocAsync(&addr, 3 * MIB, NULL)))
		is_fine(cuMemFreeAsync(addr, NULL));
	if (is_fine(cuMemPoolCreate(&pool, &props))) {
		if (is_fine(cuMemAllocFromPoolAsync(&addr, 3 * MIB, pool, NULL)))
			is_fine(cuMemFreeAsync(addr, NULL));
		is_fine(cuStreamSynchronize(NULL));
		is_fine(cuMemPoolTrimTo(pool, 0));
		is_fine(cuMemPoolDestroy(pool));
	}
}

static void graphs(void)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = {
		.poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			       .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } },
		.bytesize = 4 * MIB,
	};
	CUgraphNode alloc, release;
	CUgraphExec exec;
	CUgraph graph;

	if (!is_fine(cuGraphCreate(&graph, 0)))
		return;
	if (is_fine(cuGraphAddMemAllocNode(&alloc, graph, NULL, 0, &params)) &&
	    is_fine(cuGraphAddMemFreeNode(&release, graph, &alloc, 1, params.dptr)) &&
	    is_fine(cuGraphInstantiateWithFlags(&exec, graph, 0))) {
		is_fine(cuGraphLaunch(exec, NULL));
		is_fine(cuStreamSynchronize(NULL));
		is_fine(cuGraphExecDestroy(exec));
		is_fine(cuDeviceGraphMemTrim(0));
	}
	is_fine(cuGraphDestroy(graph));
}

static void modules(void)
{
	CUfunction function;
	CUmodule module;

	if (!is_fine(cuModuleLoadData(&module, CLIENT_MODULE)))
		return;
	if (is_fine(cuModuleGetFunction(&function, module, "empty")))
		is_fine(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	is_fine(cuCtxSynchronize());
	is_fine(cuModuleUnload(module));
}

static void contexts(CUcontext primary)
{
	CUcontext ctx;

	if (is_fine(cuCtxCreate_v2(&ctx, 0, 0)))
		is_fine(cuCtxDestroy_v2(ctx));
	is_fine(cuCtxSetCurrent(primary));
}

static void views(void)
{
	nvmlProcessInfo_t processes[16];
	unsigned count = 16;
	size_t free_bytes, total_bytes;
	nvmlMemory_t memory;
	nvmlDevice_t dev;

	if (is_fine(cuMemGetInfo_v2(&free_bytes, &total_bytes)))
		CHECK(free_bytes <= total_bytes);
	is_fine(cuDeviceTotalMem_v2(&total_bytes, 0));
	if (nvmlInit_v2() == NVML_SUCCESS &&
	    nvmlDeviceGetHandleByIndex_v2(0, &dev) == NVML_SUCCESS) {
		CHECK(nvmlDeviceGetMemoryInfo(dev, &memory) <= NVML_ERROR_UNKNOWN);
		CHECK(nvmlDeviceGetComputeRunningProcesses_v3(dev, &count, processes) <=
		      NVML_ERROR_UNKNOWN);
	}
}

static void lookups(void)
{
	CUdriverProcAddressQueryResult status;
	void *fn = NULL;

	CHECK(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
	CHECK(!dlsym(RTLD_DEFAULT, "cuNoSuchCall"));
	is_fine(cuGetProcAddress_v2("cuMemAlloc", &fn, 12000, 0, &status));
}

/* A child has no driver, but NVML; and a region to look at. */
static void forks(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		CUdeviceptr addr;

		is_fine(cuMemAlloc_v2(&addr, 4096));
		views();
		_exit(0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	if (status != 0)
		fprintf(stderr, "the child ended with %x\n", (unsigned)status);
	CHECK(status == 0);
}

static void take_all(void)
{
	CUdeviceptr addr;
	uint64_t got = 0;

	while (got < 1024 * MIB && is_fine(cuMemAlloc_v2(&addr, 8 * MIB)))
		got += 8 * MIB;
	client_say("got", got / MIB);
}

int main(void)
{
	const char *(*name)(void);
	CUcontext primary = NULL;
	int (*calls)(void);

	*(void **)&calls = dlsym(RTLD_DEFAULT, "refusing_calls");
	*(void **)&name = dlsym(RTLD_DEFAULT, "refusing_name");
	CHECK(calls && name);
	lookups();
	views();
	if (is_fine(cuInit(0)) && is_fine(cuDevicePrimaryCtxRetain(&primary, 0)))
		is_fine(cuCtxSetCurrent(primary));
	linear();
	arrays();
	pools();
	graphs();
	modules();
	contexts(primary);
	views();
	forks();
	take_all();
	client_say("calls", (uint64_t)calls());
	printf("refused %s\n", name() ? name() : "nothing");
	client_pause("full");
	if (primary)
		is_fine(cuDevicePrimaryCtxRelease_v2(0));
	return 0;
}
