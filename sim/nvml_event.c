/* Events, fields and samples. */
#include "nvml_device.h"

#include "base/clock.h"

#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

/* A handle points into the table of sets. */
struct nvmlEventSet_st {
	_Atomic bool is_used;
};

enum { SETS = 256 };

#define WAIT_STEP_NS (50 * NSEC_PER_MSEC)
/* What can be registered for; none of it happens to a device that cannot fail. */
#define EVENT_TYPES                                                        \
	(nvmlEventTypeSingleBitEccError | nvmlEventTypeDoubleBitEccError | \
	 nvmlEventTypeXidCriticalError)

static struct nvmlEventSet_st sets[SETS];

static uint64_t realtime_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static bool is_set(nvmlEventSet_t set)
{
	uintptr_t at = (uintptr_t)set, base = (uintptr_t)sets;

	return at >= base && (at - base) / sizeof(sets[0]) < SETS &&
	       (at - base) % sizeof(sets[0]) == 0 && atomic_load(&set->is_used);
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *out_set)
{
	nvmlReturn_t res = nvml_ready();

	if (res)
		return res;
	if (!out_set)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (int k = 0; k < SETS; k++) {
		if (atomic_exchange(&sets[k].is_used, true))
			continue;
		*out_set = &sets[k];
		return NVML_SUCCESS;
	}
	return NVML_ERROR_INSUFFICIENT_RESOURCES;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
	nvmlReturn_t res = nvml_ready();

	if (res)
		return res;
	if (!is_set(set))
		return NVML_ERROR_INVALID_ARGUMENT;
	atomic_store(&set->is_used, false);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t dev, unsigned long long *out_event_types)
{
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, out_event_types, &i);

	if (!res)
		*out_event_types = EVENT_TYPES;
	return res;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t dev, unsigned long long event_types,
				      nvmlEventSet_t set)
{
	int i;
	nvmlReturn_t res = nvml_device_find(dev, &i);

	if (res)
		return res;
	if (!is_set(set))
		return NVML_ERROR_INVALID_ARGUMENT;
	return event_types & ~(unsigned long long)EVENT_TYPES ? NVML_ERROR_NOT_SUPPORTED :
								NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *out_data,
				 unsigned int timeout_ms)
{
	int64_t left_ns = (int64_t)timeout_ms * NSEC_PER_MSEC;
	int64_t end_ns = clock_now_ns() + left_ns;
	nvmlReturn_t res = nvml_ready();

	if (res)
		return res;
	if (!out_data || !is_set(set))
		return NVML_ERROR_INVALID_ARGUMENT;
	while (left_ns > 0 && is_set(set)) {
		clock_sleep_ns(left_ns < WAIT_STEP_NS ? left_ns : WAIT_STEP_NS);
		left_ns = end_ns - clock_now_ns();
	}
	return NVML_ERROR_TIMEOUT;
}

nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *out_data,
			      unsigned int timeout_ms)
{
	return nvmlEventSetWait_v2(set, out_data, timeout_ms);
}

static nvmlReturn_t read_power(nvmlDevice_t dev, unsigned id, unsigned int *out)
{
	unsigned int other;

	switch (id) {
	case NVML_FI_DEV_POWER_INSTANT:
	case NVML_FI_DEV_POWER_AVERAGE:
		return nvmlDeviceGetPowerUsage(dev, out);
	case NVML_FI_DEV_POWER_CURRENT_LIMIT:
	case NVML_FI_DEV_POWER_REQUESTED_LIMIT:
		return nvmlDeviceGetPowerManagementLimit(dev, out);
	case NVML_FI_DEV_POWER_DEFAULT_LIMIT:
		return nvmlDeviceGetPowerManagementDefaultLimit(dev, out);
	case NVML_FI_DEV_POWER_MIN_LIMIT:
		return nvmlDeviceGetPowerManagementLimitConstraints(dev, out, &other);
	case NVML_FI_DEV_POWER_MAX_LIMIT:
		return nvmlDeviceGetPowerManagementLimitConstraints(dev, &other, out);
	default:
		return NVML_ERROR_NOT_SUPPORTED;
	}
}

static nvmlReturn_t read_remapped(nvmlDevice_t dev, unsigned id, unsigned int *out)
{
	unsigned int rows[4];
	nvmlReturn_t res = nvmlDeviceGetRemappedRows(dev, &rows[0], &rows[1], &rows[2], &rows[3]);

	if (!res)
		*out = rows[id - NVML_FI_DEV_REMAPPED_COR];
	return res;
}

static nvmlReturn_t read_field(nvmlDevice_t dev, unsigned id, unsigned int *out)
{
	nvmlEnableState_t current, pending;
	nvmlReturn_t res;

	switch (id) {
	case NVML_FI_DEV_ECC_CURRENT:
		res = nvmlDeviceGetEccMode(dev, &current, &pending);
		if (!res)
			*out = current;
		return res;
	case NVML_FI_DEV_NVLINK_LINK_COUNT:
		*out = 0;
		return NVML_SUCCESS;
	case NVML_FI_DEV_PCIE_REPLAY_COUNTER:
		return nvmlDeviceGetPcieReplayCounter(dev, out);
	case NVML_FI_DEV_REMAPPED_COR:
	case NVML_FI_DEV_REMAPPED_UNC:
	case NVML_FI_DEV_REMAPPED_PENDING:
	case NVML_FI_DEV_REMAPPED_FAILURE:
		return read_remapped(dev, id, out);
	case NVML_FI_DEV_MEMORY_TEMP:
		return nvml_monitor_memory_celsius(dev, out);
	default:
		return read_power(dev, id, out);
	}
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t dev, int count, nvmlFieldValue_t *inout_values)
{
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, inout_values, &i);

	if (res)
		return res;
	if (count <= 0)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (int k = 0; k < count; k++) {
		nvmlFieldValue_t *field = &inout_values[k];
		unsigned int value = 0;

		field->nvmlReturn = read_field(dev, field->fieldId, &value);
		field->timestamp = (long long)realtime_us();
		field->latencyUsec = 0;
		if (field->nvmlReturn)
			continue;
		field->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
		field->value.ullVal = 0;
		field->value.uiVal = value;
	}
	return NVML_SUCCESS;
}

static nvmlReturn_t read_sample(nvmlDevice_t dev, int i, nvmlSamplingType_t type, unsigned int *out)
{
	switch ((unsigned)type) {
	case NVML_TOTAL_POWER_SAMPLES:
		return nvmlDeviceGetPowerUsage(dev, out);
	case NVML_GPU_UTILIZATION_SAMPLES:
		*out = machine_util_pct(i);
		return NVML_SUCCESS;
	case NVML_MEMORY_UTILIZATION_SAMPLES:
		*out = machine_mem_util_pct(i);
		return NVML_SUCCESS;
	case NVML_PROCESSOR_CLK_SAMPLES:
		return nvmlDeviceGetClockInfo(dev, NVML_CLOCK_SM, out);
	case NVML_MEMORY_CLK_SAMPLES:
		return nvmlDeviceGetClockInfo(dev, NVML_CLOCK_MEM, out);
	default:
		return (unsigned)type < NVML_SAMPLINGTYPE_COUNT ? NVML_ERROR_NOT_SUPPORTED :
								  NVML_ERROR_INVALID_ARGUMENT;
	}
}

/* The buffer of samples holds one: now. */
nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t dev, nvmlSamplingType_t type,
				  unsigned long long last_seen_time_stamp,
				  nvmlValueType_t *out_sample_val_type, unsigned int *inout_count,
				  nvmlSample_t *out_samples)
{
	const uint64_t now_us = realtime_us();
	unsigned int value = 0;
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, inout_count, &i);

	if (res)
		return res;
	if (!out_sample_val_type || (out_samples && !*inout_count))
		return NVML_ERROR_INVALID_ARGUMENT;
	res = read_sample(dev, i, type, &value);
	if (res)
		return res;
	if (now_us <= last_seen_time_stamp)
		return NVML_ERROR_NOT_FOUND;
	*out_sample_val_type = NVML_VALUE_TYPE_UNSIGNED_INT;
	*inout_count = 1;
	if (out_samples) {
		out_samples[0].timeStamp = now_us;
		out_samples[0].sampleValue.ullVal = 0;
		out_samples[0].sampleValue.uiVal = value;
	}
	return NVML_SUCCESS;
}
