/* Processes of a device, and their use of it. */
#include "nvml_device.h"

#include <stdlib.h>

enum {
	/* Entries a caller's buffer must have, whatever there is to write: the driver keeps so many
	 * samples (72 on an H200 with driver 580). */
	SAMPLES_MIN = 72,
	MODE_COMPUTE = 0,
	MODE_MPS = 2,
	SPARE = 512,
};

/* Those of a card, or of all its slices one after the other: how many there are. */
static int read_processes(int i, struct machine_process *out, int max)
{
	int count = machine_processes(i, out, max);

	for (unsigned slice = 1; slice <= machine_device(i)->slices; slice++) {
		int have = count < max ? count : max;

		count += machine_processes(machine_slice(i, slice), out + have, max - have);
	}
	return count;
}

int nvml_process_list(int i, struct machine_process **out_list)
{
	struct machine_process *list = NULL, *more;
	int room = 0, count = 0, kept = 0;

	do {
		room = count + SPARE;
		more = realloc(list, (size_t)room * sizeof(*list));
		if (!more) {
			free(list);
			return -1;
		}
		list = more;
		count = read_processes(i, list, room);
	} while (count > room);
	for (int k = 0; k < count; k++) {
		if (list[k].has_context && list[k].pid)
			list[kept++] = list[k];
	}
	*out_list = list;
	return kept;
}

/* Writes entry k of the caller's array; there is one such function per layout. */
typedef void write_entry(void *array, int k, const struct machine_process *process);

static void write_v1(void *array, int k, const struct machine_process *process)
{
	nvmlProcessInfo_v1_t *entry = (nvmlProcessInfo_v1_t *)array + k;

	entry->pid = process->pid;
	entry->usedGpuMemory = process->used_bytes;
}

/* A slice is one GPU instance, numbered as the slice is, with one compute instance. */
static unsigned int gpu_instance(const struct machine_process *process)
{
	return process->slice ? process->slice : NVML_GPU_INSTANCE_ID_ANY;
}

static unsigned int compute_instance(const struct machine_process *process)
{
	return process->slice ? 0 : NVML_COMPUTE_INSTANCE_ID_ANY;
}

static void write_v2(void *array, int k, const struct machine_process *process)
{
	nvmlProcessInfo_v2_t *entry = (nvmlProcessInfo_v2_t *)array + k;

	entry->pid = process->pid;
	entry->usedGpuMemory = process->used_bytes;
	entry->gpuInstanceId = gpu_instance(process);
	entry->computeInstanceId = compute_instance(process);
}

_Static_assert(sizeof(nvmlProcessInfo_v1_t) == 16, "layout of the first form");
_Static_assert(sizeof(nvmlProcessInfo_v2_t) == 24, "layout of _v2");
_Static_assert(sizeof(nvmlProcessInfo_t) == 24, "layout of _v3");

static void write_detail(void *array, int k, const struct machine_process *process)
{
	nvmlProcessDetail_v1_t *entry = (nvmlProcessDetail_v1_t *)array + k;

	entry->pid = process->pid;
	entry->usedGpuMemory = process->used_bytes;
	entry->gpuInstanceId = gpu_instance(process);
	entry->computeInstanceId = compute_instance(process);
	entry->usedGpuCcProtectedMemory = 0;
}

/* Writes the compute processes, or says how many there are. */
static nvmlReturn_t list_compute(nvmlDevice_t dev, unsigned int *inout_count, void *out_infos,
				 write_entry *write)
{
	struct machine_process *list;
	int i, count;
	nvmlReturn_t res = nvml_device_ask_any(dev, inout_count, &i);

	if (res)
		return res;
	if (*inout_count && !out_infos)
		return NVML_ERROR_INVALID_ARGUMENT;
	count = nvml_process_list(i, &list);
	if (count < 0)
		return NVML_ERROR_MEMORY;
	if ((unsigned)count > *inout_count)
		res = NVML_ERROR_INSUFFICIENT_SIZE;
	else
		for (int k = 0; k < count; k++)
			write(out_infos, k, &list[k]);
	*inout_count = (unsigned)count;
	free(list);
	return res;
}

/* The device does neither graphics nor MPS. */
static nvmlReturn_t list_none(nvmlDevice_t dev, unsigned int *inout_count, const void *out_infos)
{
	int i;
	nvmlReturn_t res = nvml_device_ask_any(dev, inout_count, &i);

	if (res)
		return res;
	if (*inout_count && !out_infos)
		return NVML_ERROR_INVALID_ARGUMENT;
	*inout_count = 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t dev, unsigned int *inout_count,
						  nvmlProcessInfo_v1_t *out_infos)
{
	return list_compute(dev, inout_count, out_infos, write_v1);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t dev, unsigned int *inout_count,
						     nvmlProcessInfo_v2_t *out_infos)
{
	return list_compute(dev, inout_count, out_infos, write_v2);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t dev, unsigned int *inout_count,
						     nvmlProcessInfo_t *out_infos)
{
	return list_compute(dev, inout_count, out_infos, write_v2);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t dev, unsigned int *inout_count,
						   nvmlProcessInfo_v1_t *out_infos)
{
	return list_none(dev, inout_count, out_infos);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t dev, unsigned int *inout_count,
						      nvmlProcessInfo_v2_t *out_infos)
{
	return list_none(dev, inout_count, out_infos);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t dev, unsigned int *inout_count,
						      nvmlProcessInfo_t *out_infos)
{
	return list_none(dev, inout_count, out_infos);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses(nvmlDevice_t dev, unsigned int *inout_count,
						     nvmlProcessInfo_v1_t *out_infos)
{
	return list_none(dev, inout_count, out_infos);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t dev, unsigned int *inout_count,
							nvmlProcessInfo_v2_t *out_infos)
{
	return list_none(dev, inout_count, out_infos);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t dev, unsigned int *inout_count,
							nvmlProcessInfo_t *out_infos)
{
	return list_none(dev, inout_count, out_infos);
}

nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t dev,
						   nvmlProcessDetailList_t *inout_list)
{
	int i;
	nvmlReturn_t res = nvml_device_ask_any(dev, inout_list, &i);

	if (res)
		return res;
	if (inout_list->version != nvmlProcessDetailList_v1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	if (inout_list->mode > MODE_MPS)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (inout_list->mode != MODE_COMPUTE)
		return list_none(dev, &inout_list->numProcArrayEntries, inout_list->procArray);
	return list_compute(dev, &inout_list->numProcArrayEntries, inout_list->procArray,
			    write_detail);
}

static void write_sample(void *array, int k, const struct machine_process *process)
{
	nvmlProcessUtilizationSample_t *entry = (nvmlProcessUtilizationSample_t *)array + k;

	*entry = (nvmlProcessUtilizationSample_t){
		.pid = process->pid,
		.timeStamp = process->last_seen_us,
		.smUtil = process->sm_util_pct,
	};
}

static void write_info(void *array, int k, const struct machine_process *process)
{
	nvmlProcessUtilizationInfo_v1_t *entry = (nvmlProcessUtilizationInfo_v1_t *)array + k;

	*entry = (nvmlProcessUtilizationInfo_v1_t){
		.pid = process->pid,
		.timeStamp = process->last_seen_us,
		.smUtil = process->sm_util_pct,
	};
}

/* A sample for each process that was busy after `since_us`. A buffer that is too small, or none,
 * is told the size that will do. */
static nvmlReturn_t sample(int i, unsigned int *inout_count, void *out_array, uint64_t since_us,
			   write_entry *write)
{
	struct machine_process *list;
	int count = nvml_process_list(i, &list);
	unsigned int need, written = 0;

	if (count < 0)
		return NVML_ERROR_MEMORY;
	need = count > SAMPLES_MIN ? (unsigned)count : SAMPLES_MIN;
	if (!out_array || *inout_count < need) {
		*inout_count = need;
		free(list);
		return NVML_ERROR_INSUFFICIENT_SIZE;
	}
	for (int k = 0; k < count; k++) {
		if (list[k].sm_util_pct && list[k].last_seen_us > since_us)
			write(out_array, (int)written++, &list[k]);
	}
	free(list);
	*inout_count = written;
	return written ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

/* As nvml_device_ask(); how busy they are is not said of cards that are divided. */
static nvmlReturn_t ask_whole(nvmlDevice_t dev, const void *out, int *out_index)
{
	nvmlReturn_t res = nvml_device_ask(dev, out, out_index);

	if (res)
		return res;
	return machine_device(*out_index)->slices ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t dev,
					     nvmlProcessUtilizationSample_t *out_utilization,
					     unsigned int *inout_count,
					     unsigned long long last_seen_time_stamp)
{
	int i;
	nvmlReturn_t res = ask_whole(dev, inout_count, &i);

	return res ? res :
		     sample(i, inout_count, out_utilization, last_seen_time_stamp, write_sample);
}

nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t dev,
						   nvmlProcessesUtilizationInfo_t *inout_infos)
{
	int i;
	nvmlReturn_t res = ask_whole(dev, inout_infos, &i);

	if (res)
		return res;
	if (inout_infos->version != nvmlProcessesUtilizationInfo_v1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	return sample(i, &inout_infos->processSamplesCount, inout_infos->procUtilArray,
		      inout_infos->lastSeenTimeStamp, write_info);
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t dev, nvmlUtilization_t *out_utilization)
{
	int i;
	nvmlReturn_t res = ask_whole(dev, out_utilization, &i);

	if (res)
		return res;
	out_utilization->gpu = machine_util_pct(i);
	out_utilization->memory = machine_mem_util_pct(i);
	return NVML_SUCCESS;
}
