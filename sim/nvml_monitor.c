/*
 * Sensors and settings of the modelled card. What a sensor shows follows from how busy the device
 * is; settings are those of a data-centre card as it comes.
 */
#include "nvml_device.h"

#include <time.h>

enum {
	POWER_IDLE_MW = 70000,
	POWER_PER_PCT_MW = 6000, /* 670 W when busy all the time */
	POWER_LIMIT_MW = 700000,
	POWER_LIMIT_MIN_MW = 200000,
	IDLE_CELSIUS = 30,
	BUSY_CELSIUS = 35,  /* above idle, when busy all the time */
	MEMORY_CELSIUS = 8, /* above the GPU */
	SHUTDOWN_CELSIUS = 92,
	SLOWDOWN_CELSIUS = 89,
	MEMORY_MAX_CELSIUS = 95,
	GPU_MAX_CELSIUS = 87,
	CLOCK_IDLE_MHZ = 345,
	SAMPLING_US = 1000000,
};

static nvmlReturn_t answer_state(nvmlDevice_t dev, nvmlEnableState_t *out, nvmlEnableState_t value)
{
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, out, &i);

	if (!res)
		*out = value;
	return res;
}

/* Clocks */

static unsigned max_mhz(int i, nvmlClockType_t type)
{
	const struct machine_device *device = machine_device(i);

	return type == NVML_CLOCK_MEM ? device->memory_clock_mhz : device->clock_mhz;
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t dev, nvmlClockType_t type,
				       unsigned int *out_clock)
{
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, out_clock, &i);

	if (res)
		return res;
	if ((unsigned)type >= NVML_CLOCK_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	*out_clock = max_mhz(i, type);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxCustomerBoostClock(nvmlDevice_t dev, nvmlClockType_t clock_type,
						unsigned int *out_mhz)
{
	return nvmlDeviceGetMaxClockInfo(dev, clock_type, out_mhz);
}

/* The memory clock stays; the others fall when nothing executes. */
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t dev, nvmlClockType_t type, unsigned int *out_clock)
{
	unsigned mhz;
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, out_clock, &i);

	if (res)
		return res;
	if ((unsigned)type >= NVML_CLOCK_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	mhz = max_mhz(i, type);
	if (type != NVML_CLOCK_MEM && !machine_util_pct(i) && mhz > CLOCK_IDLE_MHZ)
		mhz = CLOCK_IDLE_MHZ;
	*out_clock = mhz;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t dev, nvmlClockType_t clock_type,
				nvmlClockId_t clock_id, unsigned int *out_mhz)
{
	if (clock_id == NVML_CLOCK_ID_CURRENT)
		return nvmlDeviceGetClockInfo(dev, clock_type, out_mhz);
	if ((unsigned)clock_id >= NVML_CLOCK_ID_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	return nvmlDeviceGetMaxClockInfo(dev, clock_type, out_mhz);
}

nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t dev, nvmlClockType_t clock_type,
					    unsigned int *out_mhz)
{
	return nvmlDeviceGetMaxClockInfo(dev, clock_type, out_mhz);
}

nvmlReturn_t nvmlDeviceGetDefaultApplicationsClock(nvmlDevice_t dev, nvmlClockType_t clock_type,
						   unsigned int *out_mhz)
{
	return nvmlDeviceGetMaxClockInfo(dev, clock_type, out_mhz);
}

nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t dev, nvmlPstates_t *out_state)
{
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, out_state, &i);

	if (!res)
		*out_state = NVML_PSTATE_0;
	return res;
}

nvmlReturn_t nvmlDeviceGetPowerState(nvmlDevice_t dev, nvmlPstates_t *out_state)
{
	return nvmlDeviceGetPerformanceState(dev, out_state);
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t dev,
						    unsigned long long *out_reasons)
{
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, out_reasons, &i);

	if (res)
		return res;
	*out_reasons = nvmlClocksEventReasonNone;
	if (!machine_util_pct(i))
		*out_reasons |= nvmlClocksEventReasonGpuIdle;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t dev,
						       unsigned long long *out_reasons)
{
	return nvmlDeviceGetCurrentClocksEventReasons(dev, out_reasons);
}

nvmlReturn_t nvmlDeviceGetSupportedClocksEventReasons(nvmlDevice_t dev,
						      unsigned long long *out_reasons)
{
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, out_reasons, &i);

	if (!res)
		*out_reasons = nvmlClocksEventReasonGpuIdle;
	return res;
}

nvmlReturn_t nvmlDeviceGetSupportedClocksThrottleReasons(nvmlDevice_t dev,
							 unsigned long long *out_reasons)
{
	return nvmlDeviceGetSupportedClocksEventReasons(dev, out_reasons);
}

/* Nothing ever holds the clocks down. */
nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t dev, nvmlPerfPolicyType_t perf_policy_type,
					  nvmlViolationTime_t *out_viol_time)
{
	struct timespec now;
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, out_viol_time, &i);

	if (res)
		return res;
	if ((unsigned)perf_policy_type >= NVML_PERF_POLICY_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	clock_gettime(CLOCK_REALTIME, &now);
	out_viol_time->referenceTime = (unsigned long long)now.tv_sec * 1000000 +
				       (unsigned long long)now.tv_nsec / 1000;
	out_viol_time->violationTime = 0;
	return NVML_SUCCESS;
}

/* Power and temperature */

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t dev, unsigned int *out_power)
{
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, out_power, &i);

	if (!res)
		*out_power = POWER_IDLE_MW + POWER_PER_PCT_MW * machine_util_pct(i);
	return res;
}

nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t dev, unsigned int *out_limit)
{
	return nvml_device_answer(dev, out_limit, POWER_LIMIT_MW);
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t dev, unsigned int *out_limit)
{
	return nvml_device_answer(dev, out_limit, POWER_LIMIT_MW);
}

nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t dev,
						      unsigned int *out_default_limit)
{
	return nvml_device_answer(dev, out_default_limit, POWER_LIMIT_MW);
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t dev,
							  unsigned int *out_min_limit,
							  unsigned int *out_max_limit)
{
	nvmlReturn_t res = nvml_device_answer(dev, out_max_limit, POWER_LIMIT_MW);

	return res ? res : nvml_device_answer(dev, out_min_limit, POWER_LIMIT_MIN_MW);
}

nvmlReturn_t nvmlDeviceGetPowerManagementMode(nvmlDevice_t dev, nvmlEnableState_t *out_mode)
{
	return answer_state(dev, out_mode, NVML_FEATURE_ENABLED);
}

nvmlReturn_t nvmlDeviceGetPowerSource(nvmlDevice_t dev, nvmlPowerSource_t *out_power_source)
{
	return nvml_device_answer(dev, out_power_source, NVML_POWER_SOURCE_AC);
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t dev, nvmlTemperatureSensors_t sensor_type,
				      unsigned int *out_celsius)
{
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, out_celsius, &i);

	if (res)
		return res;
	if (sensor_type != NVML_TEMPERATURE_GPU)
		return NVML_ERROR_INVALID_ARGUMENT;
	*out_celsius = IDLE_CELSIUS + BUSY_CELSIUS * machine_util_pct(i) / 100;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t dev, nvmlTemperature_t *out_temperature)
{
	unsigned int celsius;
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, out_temperature, &i);

	if (res)
		return res;
	if (out_temperature->version != nvmlTemperature_v1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	res = nvmlDeviceGetTemperature(dev, out_temperature->sensorType, &celsius);
	if (!res)
		out_temperature->temperature = (int)celsius;
	return res;
}

nvmlReturn_t nvml_monitor_memory_celsius(nvmlDevice_t dev, unsigned int *out_celsius)
{
	nvmlReturn_t res = nvmlDeviceGetTemperature(dev, NVML_TEMPERATURE_GPU, out_celsius);

	if (!res)
		*out_celsius += MEMORY_CELSIUS;
	return res;
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t dev,
					       nvmlTemperatureThresholds_t threshold_type,
					       unsigned int *out_celsius)
{
	switch ((unsigned)threshold_type) {
	case NVML_TEMPERATURE_THRESHOLD_SHUTDOWN:
		return nvml_device_answer(dev, out_celsius, SHUTDOWN_CELSIUS);
	case NVML_TEMPERATURE_THRESHOLD_SLOWDOWN:
		return nvml_device_answer(dev, out_celsius, SLOWDOWN_CELSIUS);
	case NVML_TEMPERATURE_THRESHOLD_MEM_MAX:
		return nvml_device_answer(dev, out_celsius, MEMORY_MAX_CELSIUS);
	case NVML_TEMPERATURE_THRESHOLD_GPU_MAX:
		return nvml_device_answer(dev, out_celsius, GPU_MAX_CELSIUS);
	default:
		return (unsigned)threshold_type < NVML_TEMPERATURE_THRESHOLD_COUNT ?
			       NVML_ERROR_NOT_SUPPORTED :
			       NVML_ERROR_INVALID_ARGUMENT;
	}
}

/* The card is cooled by the air of its case. */
nvmlReturn_t nvmlDeviceGetNumFans(nvmlDevice_t dev, unsigned int *out_num_fans)
{
	return nvml_device_answer(dev, out_num_fans, 0);
}

/* Engines that the card has and nobody can use */

static nvmlReturn_t answer_engine(nvmlDevice_t dev, unsigned int *out_utilization,
				  unsigned int *out_period_us)
{
	nvmlReturn_t res = nvml_device_answer(dev, out_period_us, SAMPLING_US);

	return res ? res : nvml_device_answer(dev, out_utilization, 0);
}

nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t dev, unsigned int *out_utilization,
					     unsigned int *out_period_us)
{
	return answer_engine(dev, out_utilization, out_period_us);
}

nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t dev, unsigned int *out_utilization,
					     unsigned int *out_period_us)
{
	return answer_engine(dev, out_utilization, out_period_us);
}

nvmlReturn_t nvmlDeviceGetJpgUtilization(nvmlDevice_t dev, unsigned int *out_utilization,
					 unsigned int *out_period_us)
{
	return answer_engine(dev, out_utilization, out_period_us);
}

nvmlReturn_t nvmlDeviceGetOfaUtilization(nvmlDevice_t dev, unsigned int *out_utilization,
					 unsigned int *out_period_us)
{
	return answer_engine(dev, out_utilization, out_period_us);
}

/* Modes */

nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t dev, nvmlEnableState_t *out_mode)
{
	return answer_state(dev, out_mode, NVML_FEATURE_ENABLED);
}

nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t dev, nvmlEnableState_t *out_is_active)
{
	return answer_state(dev, out_is_active, NVML_FEATURE_DISABLED);
}

nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t dev, nvmlEnableState_t *out_display)
{
	return answer_state(dev, out_display, NVML_FEATURE_DISABLED);
}

nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t dev, nvmlComputeMode_t *out_mode)
{
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, out_mode, &i);

	if (!res)
		*out_mode = NVML_COMPUTEMODE_DEFAULT;
	return res;
}

nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t dev,
					     nvmlGpuVirtualizationMode_t *out_mode)
{
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, out_mode, &i);

	if (!res)
		*out_mode = NVML_GPU_VIRTUALIZATION_MODE_NONE;
	return res;
}

/* Errors: the memory has none */

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t dev, nvmlEnableState_t *out_current,
				  nvmlEnableState_t *out_pending)
{
	nvmlReturn_t res = answer_state(dev, out_pending, NVML_FEATURE_ENABLED);

	return res ? res : answer_state(dev, out_current, NVML_FEATURE_ENABLED);
}

nvmlReturn_t nvmlDeviceGetDefaultEccMode(nvmlDevice_t dev, nvmlEnableState_t *out_default_mode)
{
	return answer_state(dev, out_default_mode, NVML_FEATURE_ENABLED);
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t dev, nvmlMemoryErrorType_t error_type,
					 nvmlEccCounterType_t counter_type,
					 unsigned long long *out_ecc_counts)
{
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, out_ecc_counts, &i);

	if (res)
		return res;
	if ((unsigned)error_type >= NVML_MEMORY_ERROR_TYPE_COUNT ||
	    (unsigned)counter_type >= NVML_ECC_COUNTER_TYPE_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	*out_ecc_counts = 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t dev, nvmlMemoryErrorType_t error_type,
					     nvmlEccCounterType_t counter_type,
					     nvmlMemoryLocation_t location_type,
					     unsigned long long *inout_count)
{
	if ((unsigned)location_type >= NVML_MEMORY_LOCATION_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	return nvmlDeviceGetTotalEccErrors(dev, error_type, counter_type, inout_count);
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t dev, unsigned int *out_correctable,
				       unsigned int *out_uncorrectable, unsigned int *out_pending,
				       unsigned int *out_failed)
{
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, out_correctable, &i);

	if (res)
		return res;
	if (!out_uncorrectable || !out_pending || !out_failed)
		return NVML_ERROR_INVALID_ARGUMENT;
	*out_correctable = *out_uncorrectable = *out_pending = *out_failed = 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlGetExcludedDeviceCount(unsigned int *out_count)
{
	nvmlReturn_t res = nvml_ready();

	if (res)
		return res;
	if (!out_count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*out_count = 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t dev, nvmlGpmSupport_t *out_gpm_support)
{
	int i;
	nvmlReturn_t res = nvml_device_ask(dev, out_gpm_support, &i);

	if (!res)
		out_gpm_support->isSupportedDevice = 0;
	return res;
}
