/*
 * The software GPU's NVML with what a card of its kind does not have: graphics and MPS processes,
 * accounts, attributes of a slice, protected memory, rows of other lengths. Its processes are those
 * of the machine, whosoever they are.
 *
 *   BUSY_GRAPHICS=PID,..  those that the graphics lists show; the MPS lists show all
 *   BUSY_ROW=BYTES        length of a row of nvmlDeviceGet*RunningProcesses_v3
 *   BUSY_HOST=NUMBER      added to every pid, as a driver does that names processes as the host
 * does
 *   BUSY_LOG=FILE         gets one byte for each list that is asked for
 *   BUSY_UNIFIED=1        the device has no memory of its own: NVML has no figures of it
 *   BUSY_ERROR=CODE       every list and every question about memory answers that
 *
 * busy_hold() has the next list stay inside until busy_release().
 */
#include "nvml_device.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

enum { GRAPHICS = 1, MPS = 2 };

enum { FREE, ARMED, WAITING };

static _Atomic int held;

EXPORT void busy_hold(void);
EXPORT int busy_is_waiting(void);
EXPORT void busy_release(void);

void busy_hold(void)
{
	held = ARMED;
}

int busy_is_waiting(void)
{
	return held == WAITING;
}

void busy_release(void)
{
	held = FREE;
}

static void stay_if_held(void)
{
	struct timespec a_while = { 0, 1000000 };
	int armed = ARMED;

	if (!atomic_compare_exchange_strong(&held, &armed, WAITING))
		return;
	while (held == WAITING)
		nanosleep(&a_while, NULL);
}

static unsigned number(const char *name, unsigned otherwise)
{
	const char *text = getenv(name);

	return text ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

static bool has_graphics(unsigned pid)
{
	const char *at = getenv("BUSY_GRAPHICS");

	for (char *end; at && *at; at = *end ? end + 1 : end)
		if (strtoul(at, &end, 10) == pid)
			return true;
	return false;
}

static bool is_listed(unsigned mode, const struct machine_process *process)
{
	return mode != GRAPHICS || has_graphics(process->pid);
}

static void log_question(void)
{
	const char *path = getenv("BUSY_LOG");
	FILE *log = path ? fopen(path, "ae") : NULL;

	if (!log)
		return;
	fputc('.', log);
	fclose(log);
}

/* The rows of a list, each of `row_bytes`. */
static nvmlReturn_t list(nvmlDevice_t dev, unsigned mode, size_t row_bytes, unsigned *inout_count,
			 void *out_rows)
{
	struct machine_process *found = NULL;
	unsigned room, kept = 0;
	int i, count;
	nvmlReturn_t res = nvml_device_ask(dev, inout_count, &i);

	log_question();
	stay_if_held();
	if (!res)
		res = (nvmlReturn_t)number("BUSY_ERROR", NVML_SUCCESS);
	if (res)
		return res;
	room = *inout_count;
	if (room && !out_rows)
		return NVML_ERROR_INVALID_ARGUMENT;
	count = nvml_process_list(i, &found);
	for (int k = 0; k < count; k++)
		if (is_listed(mode, &found[k]))
			found[kept++] = found[k];
	*inout_count = kept;
	for (unsigned k = 0; kept <= room && k < kept; k++) {
		nvmlProcessDetail_v1_t row = {
			.pid = found[k].pid + number("BUSY_HOST", 0),
			.usedGpuMemory = found[k].used_bytes,
			.gpuInstanceId = 3,
			.computeInstanceId = 1,
			.usedGpuCcProtectedMemory = 7,
		};

		memcpy((char *)out_rows + k * row_bytes, &row, row_bytes);
	}
	free(found);
	return kept > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t dev, unsigned int *inout_count,
						  nvmlProcessInfo_v1_t *out_infos)
{
	return list(dev, 0, sizeof(*out_infos), inout_count, out_infos);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t dev, unsigned int *inout_count,
						     nvmlProcessInfo_v2_t *out_infos)
{
	return list(dev, 0, number("BUSY_ROW", 24), inout_count, out_infos);
}

/* By a jump to another exported name: it sees the return address of our caller. */
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t dev, unsigned int *inout_count,
						     nvmlProcessInfo_t *out_infos)
{
	return nvmlDeviceGetComputeRunningProcesses_v2(dev, inout_count,
						       (nvmlProcessInfo_v2_t *)out_infos);
}

/* Defines the three forms of a list. */
#define FORMS(name, mode)                                                                  \
	nvmlReturn_t nvmlDeviceGet##name(nvmlDevice_t dev, unsigned int *inout_count,      \
					 nvmlProcessInfo_v1_t *out_infos)                  \
	{                                                                                  \
		return list(dev, mode, sizeof(*out_infos), inout_count, out_infos);        \
	}                                                                                  \
	nvmlReturn_t nvmlDeviceGet##name##_v2(nvmlDevice_t dev, unsigned int *inout_count, \
					      nvmlProcessInfo_v2_t *out_infos)             \
	{                                                                                  \
		return list(dev, mode, sizeof(*out_infos), inout_count, out_infos);        \
	}                                                                                  \
	nvmlReturn_t nvmlDeviceGet##name##_v3(nvmlDevice_t dev, unsigned int *inout_count, \
					      nvmlProcessInfo_t *out_infos)                \
	{                                                                                  \
		return list(dev, mode, number("BUSY_ROW", 24), inout_count, out_infos);    \
	}
FORMS(GraphicsRunningProcesses, GRAPHICS)
FORMS(MPSComputeRunningProcesses, MPS)

nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t dev,
						   nvmlProcessDetailList_t *inout_list)
{
	return list(dev, inout_list->mode, sizeof(*inout_list->procArray),
		    &inout_list->numProcArrayEntries, inout_list->procArray);
}

/* Accounts of the living processes, and of two that have ended. */
nvmlReturn_t nvmlDeviceGetAccountingPids(nvmlDevice_t dev, unsigned int *inout_count,
					 unsigned int *out_pids)
{
	unsigned room, count = 2;
	nvmlProcessInfo_v1_t rows[64];
	nvmlReturn_t res;
	int i;

	res = nvml_device_ask(dev, inout_count, &i);
	if (res)
		return res;
	room = *inout_count;
	*inout_count = 64;
	res = list(dev, 0, sizeof(*rows), inout_count, rows);
	if (res)
		return res;
	*inout_count += count;
	if (*inout_count > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	out_pids[0] = out_pids[1] = 999999;
	for (; count < *inout_count; count++)
		out_pids[count] = rows[count - 2].pid;
	return NVML_SUCCESS;
}

/* Of any process: its pid shows whose it is. */
nvmlReturn_t nvmlDeviceGetAccountingStats(nvmlDevice_t dev, unsigned int pid,
					  nvmlAccountingStats_t *out_stats)
{
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, out_stats, &i);

	if (res == NVML_SUCCESS)
		*out_stats = (nvmlAccountingStats_t){ .maxMemoryUsage = pid };
	return res;
}

nvmlReturn_t nvmlDeviceGetAccountingStats_v2(nvmlDevice_t dev, nvmlAccountingStats_v2_t *out_stats)
{
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, out_stats, &i);

	if (res == NVML_SUCCESS)
		out_stats->maxMemoryUsage = out_stats->pid;
	return res;
}

nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t dev, nvmlDeviceAttributes_t *attrs)
{
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, attrs, &i);

	if (res == NVML_SUCCESS)
		*attrs = (nvmlDeviceAttributes_t){
			.multiprocessorCount = 7,
			.memorySizeMB = machine_device(i)->memory_bytes >> 20,
		};
	return res;
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t dev, nvmlDeviceAttributes_t *attrs)
{
	return nvmlDeviceGetAttributes(dev, attrs);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t dev, nvmlMemory_v2_t *out_memory)
{
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, out_memory, &i);

	if (!res)
		res = (nvmlReturn_t)number("BUSY_ERROR", NVML_SUCCESS);
	if (res)
		return res;
	if (number("BUSY_UNIFIED", 0))
		return NVML_ERROR_NOT_SUPPORTED;
	out_memory->total = machine_device(i)->memory_bytes;
	out_memory->used = machine_used(i);
	out_memory->free = out_memory->total - out_memory->used;
	out_memory->reserved = 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetConfComputeProtectedMemoryUsage(nvmlDevice_t dev,
							  nvmlMemory_t *out_memory)
{
	return nvmlDeviceGetMemoryInfo(dev, out_memory);
}

/* Half of the window is mapped, by whomsoever. */
nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t dev, nvmlBAR1Memory_t *out_bar1)
{
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, out_bar1, &i);

	if (res == NVML_SUCCESS)
		*out_bar1 = (nvmlBAR1Memory_t){
			.bar1Total = machine_device(i)->memory_bytes,
			.bar1Free = machine_device(i)->memory_bytes / 2,
			.bar1Used = machine_device(i)->memory_bytes / 2,
		};
	return res;
}
