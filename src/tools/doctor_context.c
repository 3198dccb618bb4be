#include "tools/doctor_context.h"

#include "base/units.h"
#include "shm/view.h"
#include "tools/doctor_report.h"
#include "tools/doctor_symbol.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOPIC "limit"

enum { ROWS = 1024 };

/* NVML as it is, past the library, which shows the tenant's own processes. */
struct nvml {
	__typeof__(&nvmlDeviceGetComputeRunningProcesses_v3) list;
	__typeof__(&nvmlDeviceGetComputeRunningProcesses_v2) list_v2;
	__typeof__(&nvmlDeviceGetMemoryInfo) memory;
	nvmlDevice_t device;
};

/* What NVML says of the device and of this process on it. */
struct sight {
	bool is_listed; /* under our own pid, with its bytes */
	uint64_t own_bytes;
	uint64_t used_bytes; /* by everybody */
};

static bool open_nvml(const struct doctor_driver *d, CUdevice dev, struct nvml *out)
{
	char uuid[48];

	if (!d->nvml || !d->nvml_by_uuid || !doctor_driver_uuid(d, dev, uuid))
		return false;
	out->list = doctor_symbol_find(d->nvml, "nvmlDeviceGetComputeRunningProcesses_v3");
	out->list_v2 = doctor_symbol_find(d->nvml, "nvmlDeviceGetComputeRunningProcesses_v2");
	out->memory = doctor_symbol_find(d->nvml, "nvmlDeviceGetMemoryInfo");
	if (d->nvml_by_uuid(uuid, &out->device) == NVML_SUCCESS)
		return true;
	/* A MIG slice has the same digits behind another prefix. */
	memcpy(uuid, "MIG", 3);
	return d->nvml_by_uuid(uuid, &out->device) == NVML_SUCCESS;
}

static nvmlReturn_t list(const struct nvml *nvml, unsigned *inout_count, nvmlProcessInfo_t *rows)
{
	_Static_assert(sizeof(nvmlProcessInfo_t) == sizeof(nvmlProcessInfo_v2_t), "same rows");
	if (nvml->list)
		return nvml->list(nvml->device, inout_count, rows);
	if (nvml->list_v2)
		return nvml->list_v2(nvml->device, inout_count, (nvmlProcessInfo_v2_t *)rows);
	return NVML_ERROR_NOT_SUPPORTED;
}

static struct sight look(const struct nvml *nvml)
{
	static nvmlProcessInfo_t rows[ROWS];
	struct sight sight = { .is_listed = false };
	unsigned count = ROWS;
	nvmlMemory_t memory;

	if (list(nvml, &count, rows) != NVML_SUCCESS)
		count = 0;
	for (unsigned i = 0; i < count && i < ROWS; i++) {
		/* All ones: NVML knows of the process but not how much it holds. */
		if (rows[i].pid != (unsigned)getpid() || rows[i].usedGpuMemory == UINT64_MAX)
			continue;
		sight.is_listed = true;
		sight.own_bytes = rows[i].usedGpuMemory;
	}
	if (nvml->memory && nvml->memory(nvml->device, &memory) == NVML_SUCCESS)
		sight.used_bytes = memory.used;
	return sight;
}

/* What this process is charged for in the region at `path`, on all devices. */
static uint64_t charged_bytes(const char *path)
{
	static struct view view; /* 12 KiB */
	uint64_t bytes = 0;

	if (!path || view_read(path, &view) < 0)
		return 0;
	for (unsigned i = 0; i < view.process_count; i++)
		for (int d = 0; view.processes[i].pid == (int)getpid() && d < view.device_count;
		     d++)
			bytes += view.processes[i].used_bytes[d];
	view_free(&view);
	return bytes;
}

static void report(const struct sight *before, const struct sight *after, uint64_t charged)
{
	/* Listed before we had a context: somebody else has our number there. */
	bool is_ours = after->is_listed && !before->is_listed;
	bool is_known = after->used_bytes > before->used_bytes;
	char size[32];

	if (is_ours || charged) {
		units_format_size(is_ours ? after->own_bytes : charged, size, sizeof(size));
		doctor_report(DOCTOR_OK, TOPIC,
			      "contexts and modules are counted; a context takes %s here", size);
		return;
	}
	units_format_size(after->used_bytes - before->used_bytes, size, sizeof(size));
	doctor_report(
		DOCTOR_WARN, TOPIC,
		"contexts are not counted, and modules as the most that they may take: "
		"NVML does not say what this process holds. "
		"What programs allocate is held to the byte; each process can have a context%s%s%s "
		"beyond it",
		is_known ? " (" : "", is_known ? size : "", is_known ? " here)" : "");
}

void doctor_context_report(const struct doctor_driver *d, const char *path, bool is_free)
{
	struct sight before = { .is_listed = false }, after = before;
	struct nvml nvml = { .list = NULL };
	CUcontext ctx;
	CUresult res;
	uint64_t charged;
	CUdevice dev;
	bool has_nvml;

	if (!d->is_ready || !d->get || !d->retain || !d->release || d->get(&dev, 0) != CUDA_SUCCESS)
		return;
	has_nvml = open_nvml(d, dev, &nvml);
	if (has_nvml)
		before = look(&nvml);
	res = d->retain(&ctx, dev);
	if (res != CUDA_SUCCESS) {
		doctor_report(DOCTOR_FAIL, TOPIC,
			      "no context can be made on device 0: the driver gives %d (%s)%s",
			      (int)res, doctor_driver_error(d, res),
			      res == CUDA_ERROR_OUT_OF_MEMORY ?
				      "; the card is full, or the limit smaller than a context" :
				      "");
		return;
	}
	if (has_nvml)
		after = look(&nvml);
	charged = charged_bytes(path);
	d->release(dev);
	if (is_free)
		doctor_report(
			DOCTOR_NOTE, TOPIC,
			"contexts and modules are not counted, as RATION_CHARGE_CONTEXT says");
	else
		report(&before, &after, charged);
}
