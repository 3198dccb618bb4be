/* The software GPU's libnvidia-ml.so.1, for tests that compare what it says with the driver. */
#pragma once

#include <dlfcn.h>

#include "abi/nvml.h"
#include "check.h"

static inline void *nvml_symbol(const char *name)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	void *symbol = library ? dlsym(library, name) : NULL;

	TRUE(symbol != NULL);
	return symbol;
}

/* Calls `name` with these arguments, as the declared function's type. */
#define NVML(name, ...) ((__typeof__(&name))nvml_symbol(#name))(__VA_ARGS__)

/* Device 0, ready. */
static inline nvmlDevice_t nvml_start(void)
{
	nvmlDevice_t dev = NULL;

	TRUE(NVML(nvmlInit_v2) == NVML_SUCCESS);
	TRUE(NVML(nvmlDeviceGetHandleByIndex_v2, 0, &dev) == NVML_SUCCESS);
	return dev;
}

/* What NVML's list says that process `pid` holds of the device; -1 when it is not in it. */
static inline int64_t nvml_process_bytes(nvmlDevice_t dev, unsigned pid)
{
	nvmlProcessInfo_t rows[16];
	unsigned count = 16;

	TRUE(NVML(nvmlDeviceGetComputeRunningProcesses_v3, dev, &count, rows) == NVML_SUCCESS);
	for (unsigned i = 0; i < count && i < 16; i++)
		if (rows[i].pid == pid)
			return (int64_t)rows[i].usedGpuMemory;
	return -1;
}

/* What NVML says that all processes hold, without what the card keeps. */
static inline uint64_t nvml_used_bytes(nvmlDevice_t dev)
{
	nvmlMemory_v2_t memory = { .version = nvmlMemory_v2 };

	TRUE(NVML(nvmlDeviceGetMemoryInfo_v2, dev, &memory) == NVML_SUCCESS);
	return memory.used;
}
