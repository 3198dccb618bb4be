/*
 * An NVML that asks itself by its own exported names, as NVML does for many things, in calls that
 * nobody replaces: the answers it gets are seen from outside.
 */
#include "abi/nvml.h"

#include <dlfcn.h>
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT nvmlReturn_t nvmlInit_v2(void)
{
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *out_count)
{
	*out_count = 1;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *out_dev)
{
	*out_dev = (nvmlDevice_t)0x1000;
	return index == 0 ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *out_dev)
{
	(void)uuid;
	return nvmlDeviceGetHandleByIndex_v2(0, out_dev);
}

EXPORT nvmlReturn_t nvmlShutdown(void)
{
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t dev, char *out_uuid, unsigned int bytes)
{
	static const char uuid[] = "GPU-11111111-2222-3333-4444-555555555555";

	(void)dev;
	if (bytes < sizeof(uuid))
		return NVML_ERROR_INSUFFICIENT_SIZE;
	__builtin_memcpy(out_uuid, uuid, sizeof(uuid));
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t dev, nvmlMemory_t *out_memory)
{
	(void)dev;
	*out_memory = (nvmlMemory_t){ .total = 4000, .free = 3000, .used = 1000 };
	return NVML_SUCCESS;
}

static nvmlReturn_t own_memory_info_v2(nvmlDevice_t dev, nvmlMemory_v2_t *out_memory)
{
	(void)dev;
	out_memory->total = 4000;
	out_memory->free = 3000;
	out_memory->used = 1000;
	out_memory->reserved = 0;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t dev, nvmlMemory_v2_t *out_memory)
	__attribute__((alias("own_memory_info_v2")));

/* Two processes of others. */
EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t dev,
							    unsigned int *inout_count,
							    nvmlProcessInfo_t *out_infos)
{
	unsigned int room = *inout_count;

	(void)dev;
	*inout_count = 2;
	if (room < 2)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	out_infos[0] = (nvmlProcessInfo_t){ .pid = 1, .usedGpuMemory = 400 };
	out_infos[1] = (nvmlProcessInfo_t){ .pid = 2, .usedGpuMemory = 600 };
	return NVML_SUCCESS;
}

/* Gets to _v3 by a jump: the return address there is that of whoever called this one. */
EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t dev,
							    unsigned int *inout_count,
							    nvmlProcessInfo_v2_t *out_infos)
{
	return nvmlDeviceGetComputeRunningProcesses_v3(dev, inout_count,
						       (nvmlProcessInfo_t *)out_infos);
}

EXPORT nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t dev, nvmlBAR1Memory_t *out_bar1)
{
	(void)dev;
	*out_bar1 = (nvmlBAR1Memory_t){ .bar1Total = 8000, .bar1Free = 8000 };
	return NVML_SUCCESS;
}

/* The nested call, through the PLT; both forms must say the same. */
EXPORT nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t dev,
							unsigned long long *out_energy)
{
	nvmlMemory_v2_t v2 = { .version = nvmlMemory_v2 };
	nvmlMemory_t v1 = { .total = 0 };
	nvmlReturn_t res = nvmlDeviceGetMemoryInfo(dev, &v1);

	if (res == NVML_SUCCESS)
		res = nvmlDeviceGetMemoryInfo_v2(dev, &v2);
	*out_energy = v1.total == v2.total ? v1.total : 0;
	return res;
}

/* How many processes it finds itself, by every way. */
EXPORT nvmlReturn_t nvmlDeviceGetNumFans(nvmlDevice_t dev, unsigned int *out_count)
{
	nvmlProcessInfo_v2_t rows[8];
	unsigned int count = 8;

	*out_count = 8;
	if (nvmlDeviceGetComputeRunningProcesses_v3(dev, out_count, (nvmlProcessInfo_t *)rows) ||
	    nvmlDeviceGetComputeRunningProcesses_v2(dev, &count, rows))
		return NVML_ERROR_UNKNOWN;
	return count == *out_count ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

/* The bytes that it finds in the window. */
EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t dev, unsigned int *out_limit)
{
	nvmlBAR1Memory_t bar1 = { .bar1Total = 0 };
	nvmlReturn_t res = nvmlDeviceGetBAR1MemoryInfo(dev, &bar1);

	*out_limit = (unsigned int)bar1.bar1Total;
	return res;
}

/* The same by a lookup of its own. */
EXPORT nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t dev, unsigned int *out_power)
{
	nvmlReturn_t (*memory_info)(nvmlDevice_t, nvmlMemory_t *);
	nvmlMemory_t memory = { .total = 0 };
	nvmlReturn_t res;

	*(void **)&memory_info = dlsym(RTLD_DEFAULT, "nvmlDeviceGetMemoryInfo");
	res = memory_info(dev, &memory);
	*out_power = (unsigned int)memory.total;
	return res;
}

/* Which function such a lookup finds. */
EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t dev, nvmlTemperatureSensors_t sensor,
					     unsigned int *out_is_own)
{
	(void)dev;
	(void)sensor;
	/* Its own address, not that of the exported name: that may lead to another library. */
	*out_is_own = dlsym(RTLD_DEFAULT, "nvmlDeviceGetMemoryInfo_v2") ==
		      (void *)own_memory_info_v2;
	return NVML_SUCCESS;
}
