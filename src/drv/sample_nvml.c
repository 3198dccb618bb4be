#include "drv/sample_nvml.h"

#include "base/process.h"
#include "base/sys.h"
#include "drv/fingerprint.h"
#include "drv/nvml_list.h"
#include "drv/real.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/*
 * Whose numbers the pids in NVML's list are. Before the first context we must not be listed, after
 * it we must be: only then do we trust a row with our pid.
 */
enum sample_pids { PIDS_UNKNOWN, PIDS_ABSENT, PIDS_OURS, PIDS_FOREIGN };

struct sample_state {
	_Atomic int is_ready;  /* 1 initialised, -1 not to be had; atomic */
	_Atomic int pids;      /* enum sample_pids; atomic */
	_Atomic unsigned rows; /* that a list had last; atomic */
	/* The pid of our row where it is not our own, else 0; atomic, written before `pids`. */
	_Atomic unsigned own_pid;
	_Atomic bool rests; /* atomic */
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

/*
 * True when the question that got this answer is to be asked again: a program that ended NVML more
 * often than it began it ended what we began, and that is begun anew.
 */
static bool is_ended(nvmlReturn_t res)
{
	int held;

	if (res != NVML_ERROR_UNINITIALIZED)
		return false;
	/* It opens files, in which a thread that is being cancelled would end. */
	held = sys_cancel_hold();
	res = real.nvmlInit_v2();
	sys_cancel_release(held);
	return res == NVML_SUCCESS;
}

static bool handle_of(const char *uuid, nvmlDevice_t *out)
{
	nvmlReturn_t res;

	if (!ready())
		return false;
	res = real.nvmlDeviceGetHandleByUUID(uuid, out);
	if (is_ended(res))
		res = real.nvmlDeviceGetHandleByUUID(uuid, out);
	return res == NVML_SUCCESS;
}

static bool count_cards(unsigned *out_count)
{
	nvmlReturn_t res;

	if (!real.nvmlDeviceGetCount_v2)
		return false;
	res = real.nvmlDeviceGetCount_v2(out_count);
	if (is_ended(res))
		res = real.nvmlDeviceGetCount_v2(out_count);
	return res == NVML_SUCCESS;
}

bool sample_nvml_knows(const char *uuid)
{
	nvmlDevice_t dev;

	return handle_of(uuid, &dev);
}

/*
 * NVML may want room for the longest name there is. One that is too long for the region is no
 * device.
 */
static int add_device(nvmlDevice_t dev, struct device_info *out)
{
	char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE];

	if (real.nvmlDeviceGetUUID(dev, uuid, sizeof(uuid)) != NVML_SUCCESS ||
	    strnlen(uuid, sizeof(uuid)) >= sizeof(out->uuid))
		return 0;
	strcpy(out->uuid, uuid);
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

	if (!ready() || !real.nvmlDeviceGetHandleByIndex_v2 || !real.nvmlDeviceGetUUID ||
	    !count_cards(&count))
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

/* Our row of the list: 1 with its bytes, 0 when we are not in it, -errno. */
static int find_own(nvmlDevice_t dev, uint64_t *out_bytes)
{
	unsigned pid = atomic_load_explicit(&state.s.own_pid, memory_order_relaxed);
	const nvmlProcessInfo_t *row;
	struct nvml_list list;
	int rc = nvml_list_read(dev, sample_nvml_rows(), &list);

	if (rc < 0)
		return rc;
	atomic_store_explicit(&state.s.rows, list.count, memory_order_relaxed);
	row = nvml_list_find(&list, pid ? pid : (unsigned)getpid());
	if (row) {
		/* All ones: NVML knows of the process but not how much it holds. */
		rc = row->usedGpuMemory == UINT64_MAX ? -ENOTSUP : 1;
		*out_bytes = row->usedGpuMemory;
	}
	nvml_list_free(&list);
	return rc;
}

void sample_nvml_rest(bool is_wanted)
{
	process_wipe_on_fork(&state, sizeof(state));
	atomic_store(&state.s.rests, is_wanted);
}

unsigned sample_nvml_rows(void)
{
	return atomic_load_explicit(&state.s.rows, memory_order_relaxed);
}

void sample_nvml_check_pids(const char *uuid)
{
	int unknown = PIDS_UNKNOWN, rc;
	nvmlDevice_t dev;
	uint64_t bytes;

	if (atomic_load(&state.s.pids) != PIDS_UNKNOWN || !handle_of(uuid, &dev))
		return;
	rc = find_own(dev, &bytes);
	/* Nobody knows then: the search for our row will tell. */
	if (rc == -EAGAIN)
		return;
	atomic_compare_exchange_strong(&state.s.pids, &unknown,
				       rc == 0 ? PIDS_ABSENT : PIDS_FOREIGN);
}

int sample_nvml_process_bytes(const char *uuid, uint64_t *out_bytes)
{
	int pids = atomic_load(&state.s.pids), rc;
	nvmlDevice_t dev;

	if (pids == PIDS_UNKNOWN || pids == PIDS_FOREIGN || !handle_of(uuid, &dev))
		return -ENOTSUP;
	if (atomic_load(&state.s.rests))
		return -EAGAIN;
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

bool sample_nvml_own(const char *uuid, nvmlDevice_t *out_dev, unsigned *out_pid)
{
	unsigned pid = atomic_load_explicit(&state.s.own_pid, memory_order_relaxed);

	if (atomic_load(&state.s.pids) != PIDS_OURS || !handle_of(uuid, out_dev))
		return false;
	*out_pid = pid ? pid : (unsigned)getpid();
	return true;
}

int sample_nvml_card_free(const char *uuid, uint64_t *out_bytes)
{
	nvmlMemory_t memory;
	nvmlDevice_t dev;

	if (!handle_of(uuid, &dev) || !real.nvmlDeviceGetMemoryInfo ||
	    real.nvmlDeviceGetMemoryInfo(dev, &memory) != NVML_SUCCESS)
		return -ENOTSUP;
	*out_bytes = memory.free;
	return 0;
}

unsigned sample_nvml_find_own(const char *uuid, const struct fingerprint *fingerprint)
{
	int pids = atomic_load(&state.s.pids);
	nvmlDevice_t dev;
	unsigned pid;

	if (pids == PIDS_OURS || !handle_of(uuid, &dev))
		return 0;
	pid = fingerprint_find(dev, fingerprint);
	if (!pid) {
		/* With a context and not listed: a row that has our number later is another's. */
		atomic_compare_exchange_strong(&state.s.pids, &pids, PIDS_FOREIGN);
		return 0;
	}
	atomic_store(&state.s.own_pid, pid);
	atomic_store(&state.s.pids, PIDS_OURS);
	return pid;
}
