#include "drv/sample_nvml.h"

#include "base/process.h"
#include "drv/real.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * Whose numbers the pids in NVML's list are. Before the first context we must not be listed, after
 * it we must be: only then do we trust a row with our pid.
 */
enum sample_pids { PIDS_UNKNOWN, PIDS_ABSENT, PIDS_OURS, PIDS_FOREIGN };

struct sample_state {
	_Atomic int is_ready; /* 1 initialised, -1 not to be had; atomic */
	_Atomic int pids;     /* enum sample_pids; atomic */
};
PROCESS_STATE(sample_state, state);

/* NVML counts its initialisations, so two threads here do no harm. */
static bool ready(void)
{
	int is_ready = atomic_load_explicit(&state.s.is_ready, memory_order_acquire);

	if (is_ready)
		return is_ready > 0;
	process_wipe_on_fork(&state, sizeof(state));
	is_ready = -1;
	if (real_load_nvml() == 0 && real.nvmlInit_v2 && real.nvmlDeviceGetHandleByUUID &&
	    real.nvmlInit_v2() == NVML_SUCCESS)
		is_ready = 1;
	atomic_store_explicit(&state.s.is_ready, is_ready, memory_order_release);
	return is_ready > 0;
}

static bool handle_of(const char *uuid, nvmlDevice_t *out)
{
	return ready() && real.nvmlDeviceGetHandleByUUID(uuid, out) == NVML_SUCCESS;
}

bool sample_nvml_knows(const char *uuid)
{
	nvmlDevice_t dev;

	return handle_of(uuid, &dev);
}

static int add_device(nvmlDevice_t dev, struct device_info *out)
{
	if (real.nvmlDeviceGetUUID(dev, out->uuid, sizeof(out->uuid)) != NVML_SUCCESS)
		return 0;
	/* CUDA's total is less than NVML's by what the driver keeps; CUDA's is the one we show. */
	out->physical_bytes = 0;
	return 1;
}

/* The MIG slices of a card: how many were added. */
static int add_slices(nvmlDevice_t card, struct device_info *out, int max)
{
	unsigned slices = 0;
	int n = 0;

	if (!real.nvmlDeviceGetMaxMigDeviceCount || !real.nvmlDeviceGetMigDeviceHandleByIndex ||
	    real.nvmlDeviceGetMaxMigDeviceCount(card, &slices) != NVML_SUCCESS)
		return 0;
	for (unsigned i = 0; i < slices && n < max; i++) {
		nvmlDevice_t slice;

		if (real.nvmlDeviceGetMigDeviceHandleByIndex(card, i, &slice) == NVML_SUCCESS)
			n += add_device(slice, &out[n]);
	}
	return n;
}

int sample_nvml_devices(struct device_info *out, int max)
{
	unsigned count = 0;
	int n = 0;

	if (!ready() || !real.nvmlDeviceGetCount_v2 || !real.nvmlDeviceGetHandleByIndex_v2 ||
	    !real.nvmlDeviceGetUUID || real.nvmlDeviceGetCount_v2(&count) != NVML_SUCCESS)
		return -ENOTSUP;
	for (unsigned i = 0; i < count && n < max; i++) {
		nvmlDevice_t card;
		int slices;

		if (real.nvmlDeviceGetHandleByIndex_v2(i, &card) != NVML_SUCCESS)
			continue;
		slices = add_slices(card, &out[n], max - n);
		n += slices ? slices : add_device(card, &out[n]);
	}
	return n;
}

/* The second form has the same rows as the third. */
static nvmlReturn_t list(nvmlDevice_t dev, unsigned *count, nvmlProcessInfo_t *rows)
{
	_Static_assert(sizeof(nvmlProcessInfo_t) == sizeof(nvmlProcessInfo_v2_t), "same rows");
	if (real.nvmlDeviceGetComputeRunningProcesses_v3)
		return real.nvmlDeviceGetComputeRunningProcesses_v3(dev, count, rows);
	if (real.nvmlDeviceGetComputeRunningProcesses_v2)
		return real.nvmlDeviceGetComputeRunningProcesses_v2(dev, count,
								    (nvmlProcessInfo_v2_t *)rows);
	return NVML_ERROR_NOT_SUPPORTED;
}

/* Our row of the list: 1 with its bytes, 0 when we are not in it, -errno. */
static int find_own(nvmlDevice_t dev, uint64_t *out_bytes)
{
	nvmlProcessInfo_t few[32], *rows = few;
	unsigned pid = (unsigned)getpid(), count = 32;
	nvmlReturn_t res;
	int rc = 0;

	res = list(dev, &count, rows);
	if (res == NVML_ERROR_INSUFFICIENT_SIZE) {
		count += 64;
		rows = calloc(count, sizeof(*rows));
		if (!rows)
			return -EAGAIN;
		res = list(dev, &count, rows);
	}
	if (res != NVML_SUCCESS)
		rc = res == NVML_ERROR_INSUFFICIENT_SIZE ? -EAGAIN : -ENOTSUP;
	for (unsigned i = 0; rc == 0 && i < count; i++) {
		if (rows[i].pid != pid)
			continue;
		/* All ones: NVML knows of the process but not how much it holds. */
		rc = rows[i].usedGpuMemory == UINT64_MAX ? -ENOTSUP : 1;
		*out_bytes = rows[i].usedGpuMemory;
	}
	if (rows != few)
		free(rows);
	return rc;
}

void sample_nvml_check_pids(const char *uuid)
{
	int unknown = PIDS_UNKNOWN;
	nvmlDevice_t dev;
	uint64_t bytes;

	if (atomic_load(&state.s.pids) != PIDS_UNKNOWN || !handle_of(uuid, &dev))
		return;
	atomic_compare_exchange_strong(&state.s.pids, &unknown,
				       find_own(dev, &bytes) == 0 ? PIDS_ABSENT : PIDS_FOREIGN);
}

int sample_nvml_process_bytes(const char *uuid, uint64_t *out_bytes)
{
	int pids = atomic_load(&state.s.pids), rc;
	nvmlDevice_t dev;

	if (pids == PIDS_UNKNOWN || pids == PIDS_FOREIGN || !handle_of(uuid, &dev))
		return -ENOTSUP;
	*out_bytes = 0;
	rc = find_own(dev, out_bytes);
	if (rc < 0)
		return rc;
	if (rc == 1)
		atomic_compare_exchange_strong(&state.s.pids, &pids, PIDS_OURS);
	else if (pids == PIDS_ABSENT)
		return -ENOTSUP;
	return 0;
}
