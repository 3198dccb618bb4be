/* The driver's libraries as a program finds them: loaded by name, their functions by dlsym. */
#pragma once

#include "abi/cuda.h"
#include "abi/nvml.h"

#include <stdbool.h>

struct doctor_driver {
	void *cuda;    /* handle of libcuda.so.1; NULL: not there */
	void *nvml;    /* handle of libnvidia-ml.so.1; NULL: not there */
	bool is_ready; /* cuInit succeeded */
	/* Through the handles; NULL where the driver has no such function. */
	__typeof__(&cuInit) init;
	__typeof__(&cuDriverGetVersion) version;
	__typeof__(&cuGetErrorName) error_name;
	__typeof__(&cuDeviceGetCount) count;
	__typeof__(&cuDeviceGet) get;
	__typeof__(&cuDeviceGetName) name;
	__typeof__(&cuDeviceGetUuid_v2) uuid;
	__typeof__(&cuDeviceTotalMem_v2) total;
	__typeof__(&cuDevicePrimaryCtxRetain) retain;
	__typeof__(&cuDevicePrimaryCtxRelease_v2) release;
	__typeof__(&cuGetProcAddress) proc_address;
	__typeof__(&cuGetProcAddress_v2) proc_address_v2;
	__typeof__(&nvmlInit_v2) nvml_init;
	__typeof__(&nvmlSystemGetDriverVersion) nvml_version;
	__typeof__(&nvmlDeviceGetHandleByUUID) nvml_by_uuid;
	__typeof__(&nvmlDeviceGetMemoryInfo) nvml_memory;
	__typeof__(&nvmlDeviceGetMemoryInfo_v2) nvml_memory_v2;
};

/* Loads both libraries and starts them; reports what they are, and what is missing. */
void doctor_driver_open(struct doctor_driver *out_driver);

/* The driver's name for `result`, never NULL. */
const char *doctor_driver_error(const struct doctor_driver *driver, CUresult result);

/* The UUID of a device as NVML writes it, "GPU-..." or "MIG-...". False when it has none. */
bool doctor_driver_uuid(const struct doctor_driver *driver, CUdevice dev, char out_uuid[48]);
