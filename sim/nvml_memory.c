/* Memory of a device: one story with the machine's. */
#include "nvml_device.h"

/* A divided card has in use what its slices have. */
static uint64_t used_bytes(int i)
{
	uint64_t bytes = machine_used(i);

	for (unsigned slice = 1; slice <= machine_device(i)->slices; slice++)
		bytes += machine_used(machine_slice(i, slice));
	return bytes;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t dev, nvmlMemory_v2_t *out_memory)
{
	const struct machine_device *device;
	int i;
	nvmlReturn_t res = nvml_device_ask_any(dev, out_memory, &i);

	if (res)
		return res;
	if (out_memory->version != nvmlMemory_v2)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	device = machine_device(i);
	out_memory->total = device->memory_bytes + device->reserved_bytes;
	out_memory->reserved = device->reserved_bytes;
	out_memory->used = used_bytes(i);
	out_memory->free = device->memory_bytes - out_memory->used;
	return NVML_SUCCESS;
}

/* The first form knows no reserved memory: it is part of what is used. */
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t dev, nvmlMemory_t *out_memory)
{
	nvmlMemory_v2_t memory = { .version = nvmlMemory_v2 };
	nvmlReturn_t res = nvmlDeviceGetMemoryInfo_v2(dev, &memory);

	if (res)
		return res;
	if (!out_memory)
		return NVML_ERROR_INVALID_ARGUMENT;
	out_memory->total = memory.total;
	out_memory->free = memory.free;
	out_memory->used = memory.used + memory.reserved;
	return NVML_SUCCESS;
}

/* The window on the bus is as large as the memory, rounded up to a power of two. Nobody maps it. */
nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t dev, nvmlBAR1Memory_t *out_bar1)
{
	uint64_t bytes = 1;
	int i;
	nvmlReturn_t res = nvml_device_ask_any(dev, out_bar1, &i);

	if (res)
		return res;
	while (bytes < machine_device(i)->memory_bytes + machine_device(i)->reserved_bytes)
		bytes *= 2;
	out_bar1->bar1Total = bytes;
	out_bar1->bar1Used = 0;
	out_bar1->bar1Free = bytes;
	return NVML_SUCCESS;
}
