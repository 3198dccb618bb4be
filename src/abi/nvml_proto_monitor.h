/*
 * NVML as Ration uses it: MIG, clocks, power, errors, events, metrics.
 *
 * Only what crosses the ABI is here: names, types, values. tests/lint/check-abi compares them with
 * NVIDIA's header.
 */
#pragma once

#include "abi/nvml_struct.h"

/* MIG and its instances. */
nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t compute);
nvmlReturn_t nvmlComputeInstanceGetInfo(nvmlComputeInstance_t compute,
					nvmlComputeInstanceInfo_t *out_info);
__typeof__(nvmlComputeInstanceGetInfo) nvmlComputeInstanceGetInfo_v2;
nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t dev, unsigned int profile_id,
					 nvmlGpuInstance_t *out_instance);
nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t dev, unsigned int profile_id,
						      const nvmlGpuInstancePlacement_t *placement,
						      nvmlGpuInstance_t *out_instance);
nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig, nvmlDevice_t *out_dev);
nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t dev, unsigned int id,
					  nvmlGpuInstance_t *out_instance);
nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t dev, unsigned int *out_id);
nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements(nvmlDevice_t dev, unsigned int profile_id,
							nvmlGpuInstancePlacement_t *out_placements,
							unsigned int *inout_count);
__typeof__(nvmlDeviceGetGpuInstancePossiblePlacements)
	nvmlDeviceGetGpuInstancePossiblePlacements_v2;
nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t dev, unsigned int profile,
						 nvmlGpuInstanceProfileInfo_t *out_info);
nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoByIdV(nvmlDevice_t dev, unsigned int profile_id,
						      nvmlGpuInstanceProfileInfo_v2_t *out_info);
nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t dev, unsigned int profile,
						  nvmlGpuInstanceProfileInfo_v2_t *out_info);
nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t dev, unsigned int profile_id,
						       unsigned int *inout_count);
nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t dev, unsigned int profile_id,
				       nvmlGpuInstance_t *out_instances, unsigned int *inout_count);
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t dev, unsigned int *inout_count);
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t dev, unsigned int index,
						 nvmlDevice_t *out_mig);
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t dev, unsigned int *out_current_mode,
				  unsigned int *out_pending_mode);
nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t dev, unsigned int *out_is_mig_device);
nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t instance,
						  unsigned int profile_id,
						  nvmlComputeInstance_t *out_compute);
nvmlReturn_t nvmlGpuInstanceCreateComputeInstanceWithPlacement(
	nvmlGpuInstance_t instance, unsigned int profile_id,
	const nvmlComputeInstancePlacement_t *placement, nvmlComputeInstance_t *out_compute);
nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t instance);
nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t instance, unsigned int id,
						   nvmlComputeInstance_t *out_compute);
nvmlReturn_t nvmlGpuInstanceGetComputeInstancePossiblePlacements(
	nvmlGpuInstance_t instance, unsigned int profile_id,
	nvmlComputeInstancePlacement_t *out_placements, unsigned int *inout_count);
nvmlReturn_t
nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t instance, unsigned int profile,
					     unsigned int eng_profile,
					     nvmlComputeInstanceProfileInfo_t *out_info);
nvmlReturn_t
nvmlGpuInstanceGetComputeInstanceProfileInfoV(nvmlGpuInstance_t instance, unsigned int profile,
					      unsigned int eng_profile,
					      nvmlComputeInstanceProfileInfo_v2_t *out_info);
nvmlReturn_t nvmlGpuInstanceGetComputeInstanceRemainingCapacity(nvmlGpuInstance_t instance,
								unsigned int profile_id,
								unsigned int *inout_count);
nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t instance, unsigned int profile_id,
						nvmlComputeInstance_t *out_computes,
						unsigned int *inout_count);
nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t instance, nvmlGpuInstanceInfo_t *out_info);

/* Clocks and performance. */
nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t dev, nvmlClockType_t clock_type,
					    unsigned int *out_mhz);
nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t dev, nvmlClockType_t clock_type,
				nvmlClockId_t clock_id, unsigned int *out_mhz);
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t dev, nvmlClockType_t type,
				    unsigned int *out_clock);
nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t dev,
						    unsigned long long *out_reasons);
nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t dev,
						       unsigned long long *out_reasons);
nvmlReturn_t nvmlDeviceGetDefaultApplicationsClock(nvmlDevice_t dev, nvmlClockType_t clock_type,
						   unsigned int *out_mhz);
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t dev, nvmlClockType_t type,
				       unsigned int *out_clock);
nvmlReturn_t nvmlDeviceGetMaxCustomerBoostClock(nvmlDevice_t dev, nvmlClockType_t clock_type,
						unsigned int *out_mhz);
nvmlReturn_t nvmlDeviceGetMinMaxClockOfPState(nvmlDevice_t dev, nvmlClockType_t type,
					      nvmlPstates_t pstate, unsigned int *out_min_clock_mhz,
					      unsigned int *out_max_clock_mhz);
nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t dev, nvmlPstates_t *out_state);
nvmlReturn_t nvmlDeviceGetPowerState(nvmlDevice_t dev, nvmlPstates_t *out_state);
nvmlReturn_t nvmlDeviceGetSupportedClocksEventReasons(nvmlDevice_t dev,
						      unsigned long long *out_reasons);
nvmlReturn_t nvmlDeviceGetSupportedClocksThrottleReasons(nvmlDevice_t dev,
							 unsigned long long *out_reasons);
nvmlReturn_t nvmlDeviceGetSupportedGraphicsClocks(nvmlDevice_t dev, unsigned int memory_clock_mhz,
						  unsigned int *inout_count, unsigned int *out_mhz);
nvmlReturn_t nvmlDeviceGetSupportedMemoryClocks(nvmlDevice_t dev, unsigned int *inout_count,
						unsigned int *out_mhz);
nvmlReturn_t nvmlDeviceGetSupportedPerformanceStates(nvmlDevice_t dev, nvmlPstates_t *out_pstates,
						     unsigned int len);
nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t dev, nvmlPerfPolicyType_t perf_policy_type,
					  nvmlViolationTime_t *out_viol_time);

/* Power, temperature and fans. */
nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t dev, unsigned int *out_limit);
nvmlReturn_t nvmlDeviceGetFanControlPolicy_v2(nvmlDevice_t dev, unsigned int fan,
					      nvmlFanControlPolicy_t *out_policy);
nvmlReturn_t nvmlDeviceGetFanSpeed(nvmlDevice_t dev, unsigned int *out_speed);
nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t dev, unsigned int fan, unsigned int *out_speed);
nvmlReturn_t nvmlDeviceGetMinMaxFanSpeed(nvmlDevice_t dev, unsigned int *out_min_speed,
					 unsigned int *out_max_speed);
nvmlReturn_t nvmlDeviceGetNumFans(nvmlDevice_t dev, unsigned int *out_num_fans);
nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t dev,
						      unsigned int *out_default_limit);
nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t dev, unsigned int *out_limit);
nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t dev,
							  unsigned int *out_min_limit,
							  unsigned int *out_max_limit);
nvmlReturn_t nvmlDeviceGetPowerSource(nvmlDevice_t dev, nvmlPowerSource_t *out_power_source);
nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t dev, unsigned int *out_power);
nvmlReturn_t nvmlDeviceGetTargetFanSpeed(nvmlDevice_t dev, unsigned int fan,
					 unsigned int *out_target_speed);
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t dev, nvmlTemperatureSensors_t sensor_type,
				      unsigned int *out_celsius);
nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t dev,
					       nvmlTemperatureThresholds_t threshold_type,
					       unsigned int *out_celsius);
nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t dev, nvmlTemperature_t *out_temperature);
nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t dev, unsigned long long *out_energy);
nvmlReturn_t nvmlDeviceSetPowerManagementLimit(nvmlDevice_t dev, unsigned int limit);

/* Errors. */
nvmlReturn_t nvmlDeviceGetDefaultEccMode(nvmlDevice_t dev, nvmlEnableState_t *out_default_mode);
nvmlReturn_t nvmlDeviceGetDetailedEccErrors(nvmlDevice_t dev, nvmlMemoryErrorType_t error_type,
					    nvmlEccCounterType_t counter_type,
					    nvmlEccErrorCounts_t *out_ecc_counts);
nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t dev, nvmlEnableState_t *out_current,
				  nvmlEnableState_t *out_pending);
nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t dev, nvmlMemoryErrorType_t error_type,
					     nvmlEccCounterType_t counter_type,
					     nvmlMemoryLocation_t location_type,
					     unsigned long long *inout_count);
nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t dev,
					     nvmlEccSramErrorStatus_t *out_status);
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t dev, nvmlMemoryErrorType_t error_type,
					 nvmlEccCounterType_t counter_type,
					 unsigned long long *out_ecc_counts);
nvmlReturn_t nvmlDeviceSetEccMode(nvmlDevice_t dev, nvmlEnableState_t ecc);

/* Events and fields. */
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t dev, int count, nvmlFieldValue_t *inout_values);
nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t dev,
					      unsigned long long *out_event_types);
nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t dev, unsigned long long event_types,
				      nvmlEventSet_t set);
nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *out_set);
nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set);
nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *out_data,
			      unsigned int timeout_ms);
__typeof__(nvmlEventSetWait) nvmlEventSetWait_v2;
nvmlReturn_t nvmlSystemEventSetCreate(nvmlSystemEventSetCreateRequest_t *request);
nvmlReturn_t nvmlSystemEventSetFree(nvmlSystemEventSetFreeRequest_t *request);
nvmlReturn_t nvmlSystemEventSetWait(nvmlSystemEventSetWaitRequest_t *request);
nvmlReturn_t nvmlSystemRegisterEvents(nvmlSystemRegisterEventRequest_t *request);

/* Metrics of the profiler. */
nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t dev, unsigned int gpu_instance_id,
				 nvmlGpmSample_t gpm_sample);
nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t dev, nvmlGpmSupport_t *out_gpm_support);
nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *out_gpm_sample);
nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t gpm_sample);
nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t dev, nvmlGpmSample_t gpm_sample);

/* The rest. */
nvmlReturn_t nvmlDeviceGetAddressingMode(nvmlDevice_t dev, nvmlDeviceAddressingMode_t *out_mode);
nvmlReturn_t nvmlDeviceGetDynamicPstatesInfo(nvmlDevice_t dev,
					     nvmlGpuDynamicPstatesInfo_t *out_dynamic_pstates_info);
nvmlReturn_t nvmlDeviceGetMemoryBusWidth(nvmlDevice_t dev, unsigned int *out_bus_width);
nvmlReturn_t nvmlDeviceGetPdi(nvmlDevice_t dev, nvmlPdi_t *out_pdi);
nvmlReturn_t nvmlDeviceGetPlatformInfo(nvmlDevice_t dev, nvmlPlatformInfo_t *out_platform_info);
