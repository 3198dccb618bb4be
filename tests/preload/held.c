/*
 * A call of one thread stays in the driver, as a call may for long; all others go on meanwhile. No
 * lock of ours is held over a driver call. Field faults 46, 81 and 82.
 *
 *   held CALL        one of those below, by the name of the driver's symbol; "nvml": a list of
 *                    NVML's, asked for by a thread before it is refused, or by the library's own
 *   held CALL full   with nothing left of the limit but what is kept back
 */
#include <dlfcn.h>
#include <pthread.h>

#include "abi/nvml.h"
#include "client.h"
#include "client_take.h"

static const char *call;
static CUcontext primary;

/* The call that is held, and what follows it until all is given back. */
static void *held_thread(void *arg)
{
	struct piece piece;
	CUmodule module;
	CUdeviceptr p;
	CUcontext ctx;

	(void)arg;
	OK(cuCtxSetCurrent(primary));
	if (!strcmp(call, "nvml")) {
		IS(cuMemAlloc_v2(&p, client_limit(0)), CUDA_ERROR_OUT_OF_MEMORY);
	} else if (!strcmp(call, "cuCtxCreate_v2") || !strcmp(call, "cuCtxDestroy_v2")) {
		OK(cuCtxCreate_v2(&ctx, 0, 0));
		OK(cuCtxDestroy_v2(ctx));
	} else if (!strncmp(call, "cuModule", 8)) {
		OK(cuModuleLoadData(&module, CLIENT_MODULE));
		OK(cuModuleUnload(module));
	} else {
		OK(take(&piece,
			strstr(call, "Managed")                          ? "managed" :
			strstr(call, "Pitch")                            ? "pitch" :
			strstr(call, "MemAlloc") || strstr(call, "Free") ? "alloc" :
									   "mapped",
			3 * MIB));
		OK(give(&piece));
	}
	return NULL;
}

/* A little of everything. */
static void go_on(void)
{
	static const char *const kinds[] = { "alloc", "pitch", "managed", "vmm", "mapped" };
	size_t free_bytes, total_bytes;
	nvmlMemory_t memory;
	struct piece piece;
	CUmodule module;
	nvmlDevice_t dev;
	CUcontext ctx;

	for (int k = 0; k < 5; k++) {
		OK(take(&piece, kinds[k], 1000));
		OK(give(&piece));
	}
	OK(cuModuleLoadData(&module, CLIENT_MODULE));
	OK(cuModuleUnload(module));
	OK(cuMemGetInfo_v2(&free_bytes, &total_bytes));
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuCtxDestroy_v2(ctx));
	CHECK(nvmlInit_v2() == NVML_SUCCESS &&
	      nvmlDeviceGetHandleByIndex_v2(0, &dev) == NVML_SUCCESS);
	CHECK(nvmlDeviceGetMemoryInfo(dev, &memory) == NVML_SUCCESS);
}

/* A module that takes nothing of the limit has room, though nobody can ask the card meanwhile. */
static void load_when_full(void)
{
	CUdeviceptr small, block[128];
	CUmodule module;
	int count = 0;

	OK(cuMemAlloc_v2(&small, 100));
	while (count < 128 && cuMemAlloc_v2(&block[count], BLOCK_BYTES) == CUDA_SUCCESS)
		count++;
	SAME(client_charged(0), client_limit(0) - BLOCK_BYTES);
	OK(cuModuleLoadData(&module, CLIENT_MODULE));
	CHECK(client_charged(0) <= client_limit(0));
	OK(cuModuleUnload(module));
	OK(cuMemFree_v2(small));
	while (count)
		OK(cuMemFree_v2(block[--count]));
}

int main(int argc, char **argv)
{
	int (*is_waiting)(void);
	void (*release)(void), (*hold)(void);
	pthread_t thread;
	bool is_nvml;

	CHECK(argc == 2 || (argc == 3 && !strcmp(argv[2], "full")));
	call = argv[1];
	is_nvml = !strcmp(call, "nvml");
	*(void **)&hold = dlsym(RTLD_DEFAULT, "busy_hold");
	*(void **)&is_waiting = dlsym(RTLD_DEFAULT,
				      is_nvml ? "busy_is_waiting" : "held_is_waiting");
	*(void **)&release = dlsym(RTLD_DEFAULT, is_nvml ? "busy_release" : "held_release");
	CHECK(is_waiting && release && (hold || !is_nvml));
	primary = client_start();
	if (is_nvml)
		hold();
	alarm(60);
	CHECK(pthread_create(&thread, NULL, held_thread, NULL) == 0);
	while (!is_waiting())
		usleep(1000);
	if (argc == 3)
		load_when_full();
	else
		go_on();
	CHECK(is_waiting());
	release();
	pthread_join(thread, NULL);
	/* Of what a held call left open, the card's figure is taken at the next allocation. */
	go_on();
	CHARGED_IS(0, CLIENT_CONTEXT_BYTES);
	return 0;
}
