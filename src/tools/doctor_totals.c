#include "tools/doctor_totals.h"

#include "base/units.h"
#include "shm/view.h"
#include "tools/doctor_report.h"

#include <stdio.h>
#include <string.h>

#define TOPIC "view"

static const struct view_device *find(const struct view *view, const char *uuid)
{
	for (int d = 0; d < view->device_count; d++)
		if (!strcmp(view->devices[d].uuid, uuid))
			return &view->devices[d];
	return NULL;
}

/* What a program must see: the limit, unless the card itself is smaller. 0: anything. */
static uint64_t expected(const struct view_device *d)
{
	if (d->physical_bytes && d->physical_bytes <= d->limit_bytes)
		return 0;
	return d->limit_bytes;
}

static void compare(const char *uuid, const char *call, uint64_t seen,
		    const struct view_device *dev)
{
	uint64_t want = expected(dev);
	char seen_text[32], want_text[32];

	units_format_size(seen, seen_text, sizeof(seen_text));
	units_format_size(want ? want : dev->limit_bytes, want_text, sizeof(want_text));
	if (dev->limit_bytes == 0)
		doctor_report(DOCTOR_OK, TOPIC, "%.12s: %s shows %s; there is no limit", uuid, call,
			      seen_text);
	else if (want ? seen == want : seen <= dev->limit_bytes)
		doctor_report(DOCTOR_OK, TOPIC, "%.12s: %s shows %s under a limit of %s", uuid,
			      call, seen_text, want_text);
	else
		doctor_report(DOCTOR_FAIL, TOPIC,
			      "%.12s: %s shows %s, not the limit of %s; the call does not pass the "
			      "library: see the lines on interception",
			      uuid, call, seen_text, want_text);
}

static void compare_nvml(const struct doctor_driver *d, const char *uuid,
			 const struct view_device *dev)
{
	nvmlMemory_v2_t memory_v2 = { .version = nvmlMemory_v2 };
	nvmlMemory_t memory;
	nvmlDevice_t handle;

	if (!d->nvml_by_uuid || d->nvml_by_uuid(uuid, &handle) != NVML_SUCCESS)
		return;
	if (d->nvml_memory && d->nvml_memory(handle, &memory) == NVML_SUCCESS)
		compare(uuid, "nvmlDeviceGetMemoryInfo", memory.total, dev);
	if (d->nvml_memory_v2 && d->nvml_memory_v2(handle, &memory_v2) == NVML_SUCCESS)
		compare(uuid, "nvmlDeviceGetMemoryInfo_v2", memory_v2.total, dev);
}

static void compare_device(const struct doctor_driver *d, int ordinal, const struct view *view)
{
	const struct view_device *row;
	char uuid[48];
	size_t total;
	CUdevice dev;

	if (d->get(&dev, ordinal) != CUDA_SUCCESS || !doctor_driver_uuid(d, dev, uuid))
		return;
	row = find(view, uuid);
	if (!row) {
		/* A MIG slice has the same digits behind another prefix. */
		memcpy(uuid, "MIG", 3);
		row = find(view, uuid);
	}
	if (!row) {
		doctor_report(
			DOCTOR_FAIL, TOPIC,
			"device %d is not in the region: its memory is not counted; see the lines "
			"on interception",
			ordinal);
		return;
	}
	if (d->total && d->total(&total, dev) == CUDA_SUCCESS)
		compare(uuid, "cuDeviceTotalMem", total, row);
	compare_nvml(d, uuid, row);
}

void doctor_totals_report(const struct doctor_driver *d, const char *path)
{
	static struct view view;
	int count = 0, rc;

	if (!d->is_ready || !d->count || !d->get || d->count(&count) != CUDA_SUCCESS)
		return;
	rc = view_read(path, &view);
	if (rc < 0) {
		doctor_report(
			DOCTOR_FAIL, "region",
			"%s cannot be read after cuInit (%s): nothing is counted; choose a path "
			"that can be written in RATION_REGION",
			path, strerror(-rc));
		return;
	}
	for (int i = 0; i < count; i++)
		compare_device(d, i, &view);
	view_free(&view);
}
