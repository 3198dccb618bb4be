/* Start and end, versions, errors. */
#include "nvml_device.h"
#include "nvml_missing.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How often nvmlInit was called without a shutdown: machine_uses(). A fork child begins anew. */
nvmlReturn_t nvml_ready(void)
{
	return atomic_load_explicit(machine_uses(), memory_order_acquire) ?
		       NVML_SUCCESS :
		       NVML_ERROR_UNINITIALIZED;
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
	const unsigned known = NVML_INIT_FLAG_NO_GPUS | NVML_INIT_FLAG_NO_ATTACH |
			       NVML_INIT_FLAG_FORCE_INIT;

	if (flags & ~known)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (machine_open())
		return NVML_ERROR_DRIVER_NOT_LOADED;
	atomic_fetch_add_explicit(machine_uses(), 1, memory_order_release);
	return NVML_SUCCESS;
}

/* The two below end in a jump, as the real library's do: nvmlInitWithFlags sees the return address
 * of their caller. */
nvmlReturn_t nvmlInit_v2(void)
{
	return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlInit(void)
{
	return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlShutdown(void)
{
	unsigned count = atomic_load_explicit(machine_uses(), memory_order_relaxed);

	do {
		if (!count)
			return NVML_ERROR_UNINITIALIZED;
	} while (!atomic_compare_exchange_weak(machine_uses(), &count, count - 1));
	return NVML_SUCCESS;
}

static const char *const error_texts[] = {
	[NVML_SUCCESS] = "Success",
	[NVML_ERROR_UNINITIALIZED] = "Uninitialized",
	[NVML_ERROR_INVALID_ARGUMENT] = "Invalid Argument",
	[NVML_ERROR_NOT_SUPPORTED] = "Not Supported",
	[NVML_ERROR_NO_PERMISSION] = "Insufficient Permissions",
	[NVML_ERROR_ALREADY_INITIALIZED] = "Already Initialized",
	[NVML_ERROR_NOT_FOUND] = "Not Found",
	[NVML_ERROR_INSUFFICIENT_SIZE] = "Insufficient Size",
	[NVML_ERROR_INSUFFICIENT_POWER] = "Insufficient External Power",
	[NVML_ERROR_DRIVER_NOT_LOADED] = "Driver Not Loaded",
	[NVML_ERROR_TIMEOUT] = "Timeout",
	[NVML_ERROR_IRQ_ISSUE] = "Interrupt Request Issue",
	[NVML_ERROR_LIBRARY_NOT_FOUND] = "NVML Shared Library Not Found",
	[NVML_ERROR_FUNCTION_NOT_FOUND] = "Function Not Found",
	[NVML_ERROR_CORRUPTED_INFOROM] = "Corrupted infoROM",
	[NVML_ERROR_GPU_IS_LOST] = "GPU is lost",
	[NVML_ERROR_RESET_REQUIRED] = "GPU requires reset",
	[NVML_ERROR_OPERATING_SYSTEM] = "GPU access blocked by the operating system",
	[NVML_ERROR_LIB_RM_VERSION_MISMATCH] = "Driver/library version mismatch",
	[NVML_ERROR_IN_USE] = "In use by another client",
	[NVML_ERROR_MEMORY] = "Insufficient Memory",
	[NVML_ERROR_NO_DATA] = "No data",
	[NVML_ERROR_VGPU_ECC_NOT_SUPPORTED] = "ECC not supported on the virtual GPU",
	[NVML_ERROR_INSUFFICIENT_RESOURCES] = "Insufficient Resources",
	[NVML_ERROR_FREQ_NOT_SUPPORTED] = "Frequency Not Supported",
	[NVML_ERROR_ARGUMENT_VERSION_MISMATCH] = "Argument Version Mismatch",
	[NVML_ERROR_DEPRECATED] = "Deprecated",
	[NVML_ERROR_NOT_READY] = "Not Ready",
	[NVML_ERROR_GPU_NOT_FOUND] = "GPU Not Found",
	[NVML_ERROR_INVALID_STATE] = "Invalid State",
	[NVML_ERROR_RESET_TYPE_NOT_SUPPORTED] = "Reset Type Not Supported",
};

const char *nvmlErrorString(nvmlReturn_t result)
{
	unsigned code = (unsigned)result;

	if (code < sizeof(error_texts) / sizeof(error_texts[0]) && error_texts[code])
		return error_texts[code];
	return "Unknown Error";
}

nvmlReturn_t nvml_missing_answer(const char *symbol)
{
	nvmlReturn_t res = nvml_ready();

	if (!res)
		res = NVML_ERROR_NOT_SUPPORTED;
	if (secure_getenv("RATION_SIM_TRACE"))
		fprintf(stderr, "ration-sim: %s: %s\n", symbol, nvmlErrorString(res));
	return res;
}

/* The versions can be asked before nvmlInit, but of a machine that can be had. */
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *out_version)
{
	if (!out_version)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (machine_open())
		return NVML_ERROR_DRIVER_NOT_LOADED;
	*out_version = machine_cuda_version();
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *out_version)
{
	return nvmlSystemGetCudaDriverVersion_v2(out_version);
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *out_version, unsigned int len)
{
	nvmlReturn_t res = nvml_ready();

	return res ? res : nvml_device_write(machine_driver_version(), out_version, len);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *out_version, unsigned int len)
{
	char text[NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE];

	if (machine_open())
		return NVML_ERROR_DRIVER_NOT_LOADED;
	(void)snprintf(text, sizeof(text), "%d.%s", machine_cuda_version() / 1000,
		       machine_driver_version());
	return nvml_device_write(text, out_version, len);
}

nvmlReturn_t nvmlSystemGetDriverBranch(nvmlSystemDriverBranchInfo_t *out_branch_info,
				       unsigned int len)
{
	char text[sizeof(out_branch_info->branch)];
	nvmlReturn_t res = nvml_ready();

	if (res)
		return res;
	if (!out_branch_info)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (out_branch_info->version != nvmlSystemDriverBranchInfo_v1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	(void)snprintf(text, sizeof(text), "r%.*s_00", (int)strcspn(machine_driver_version(), "."),
		       machine_driver_version());
	return nvml_device_write(text, out_branch_info->branch, len);
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *out_name, unsigned int len)
{
	char path[32], name[4096];
	size_t got;
	FILE *file;
	nvmlReturn_t res = nvml_ready();

	if (res)
		return res;
	if (!out_name || !len)
		return NVML_ERROR_INVALID_ARGUMENT;
	(void)snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
	file = fopen(path, "re");
	if (!file)
		return NVML_ERROR_NOT_FOUND;
	got = fread(name, 1, sizeof(name) - 1, file);
	fclose(file);
	name[got] = 0;
	(void)snprintf(out_name, len, "%s", name);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetHicVersion(unsigned int *inout_count, nvmlHwbcEntry_t *out_entries)
{
	nvmlReturn_t res = nvml_ready();

	(void)out_entries;
	if (res)
		return res;
	if (!inout_count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*inout_count = 0;
	return NVML_SUCCESS;
}
