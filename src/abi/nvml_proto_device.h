/*
 * NVML as Ration uses it: start, devices, identity, topology, processes.
 *
 * Only what crosses the ABI is here: names, types, values. tests/lint/check-abi compares them with
 * NVIDIA's header.
 */
#pragma once

#include "abi/nvml_struct.h"

/* Start, errors, versions. */
const char *nvmlErrorString(nvmlReturn_t result);
nvmlReturn_t nvmlInit(void);
__typeof__(nvmlInit) nvmlInit_v2;
nvmlReturn_t nvmlInitWithFlags(unsigned int flags);
nvmlReturn_t nvmlShutdown(void);
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *out_version);
__typeof__(nvmlSystemGetCudaDriverVersion) nvmlSystemGetCudaDriverVersion_v2;
nvmlReturn_t nvmlSystemGetDriverBranch(nvmlSystemDriverBranchInfo_t *out_branch_info,
				       unsigned int len);
nvmlReturn_t nvmlSystemGetDriverVersion(char *out_version, unsigned int len);
nvmlReturn_t nvmlSystemGetHicVersion(unsigned int *inout_count, nvmlHwbcEntry_t *out_entries);
nvmlReturn_t nvmlSystemGetNVMLVersion(char *out_version, unsigned int len);
nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *out_name, unsigned int len);

/* Devices and who they are. */
nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t dev, nvmlDeviceArchitecture_t *out_arch);
nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t dev, nvmlDeviceAttributes_t *attrs);
__typeof__(nvmlDeviceGetAttributes) nvmlDeviceGetAttributes_v2;
nvmlReturn_t nvmlDeviceGetBoardId(nvmlDevice_t dev, unsigned int *out_board_id);
nvmlReturn_t nvmlDeviceGetBoardPartNumber(nvmlDevice_t dev, char *out_part_number,
					  unsigned int len);
nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t dev, nvmlBrandType_t *out_type);
nvmlReturn_t nvmlDeviceGetBusType(nvmlDevice_t dev, nvmlBusType_t *out_type);
nvmlReturn_t nvmlDeviceGetCount(unsigned int *out_count);
__typeof__(nvmlDeviceGetCount) nvmlDeviceGetCount_v2;
nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t dev, int *out_major, int *out_minor);
nvmlReturn_t nvmlDeviceGetGspFirmwareMode(nvmlDevice_t dev, unsigned int *out_enabled,
					  unsigned int *out_default_mode);
nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t dev, char *out_version);
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *out_dev);
__typeof__(nvmlDeviceGetHandleByIndex) nvmlDeviceGetHandleByIndex_v2;
nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *pci_bus_id, nvmlDevice_t *out_dev);
__typeof__(nvmlDeviceGetHandleByPciBusId) nvmlDeviceGetHandleByPciBusId_v2;
nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *out_dev);
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *out_dev);
nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *uuid, nvmlDevice_t *out_dev);
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t dev, unsigned int *out_index);
nvmlReturn_t nvmlDeviceGetInforomConfigurationChecksum(nvmlDevice_t dev,
						       unsigned int *out_checksum);
nvmlReturn_t nvmlDeviceGetInforomVersion(nvmlDevice_t dev, nvmlInforomObject_t object,
					 char *out_version, unsigned int len);
nvmlReturn_t nvmlDeviceGetIrqNum(nvmlDevice_t dev, unsigned int *out_irq_num);
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t dev, unsigned int *out_minor_number);
nvmlReturn_t nvmlDeviceGetModuleId(nvmlDevice_t dev, unsigned int *out_module_id);
nvmlReturn_t nvmlDeviceGetMultiGpuBoard(nvmlDevice_t dev, unsigned int *out_is_multi);
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t dev, char *out_name, unsigned int len);
nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t dev, unsigned int *out_num_cores);
nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t dev, unsigned int *out_node);
nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t dev, nvmlPciInfo_t *out_pci);
__typeof__(nvmlDeviceGetPciInfo) nvmlDeviceGetPciInfo_v2;
__typeof__(nvmlDeviceGetPciInfo) nvmlDeviceGetPciInfo_v3;
nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t dev, nvmlPciInfoExt_t *out_pci);
nvmlReturn_t nvmlDeviceGetPcieLinkMaxSpeed(nvmlDevice_t dev, unsigned int *out_max_speed);
nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t dev, unsigned int *out_value);
nvmlReturn_t nvmlDeviceGetPcieSpeed(nvmlDevice_t dev, unsigned int *out_pcie_speed);
nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t dev, nvmlPcieUtilCounter_t counter,
					 unsigned int *out_value);
nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t dev, char *out_serial, unsigned int len);
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t dev, char *out_uuid, unsigned int len);
nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t dev, char *out_version, unsigned int len);
nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t dev, nvmlDevice_t other, int *out_on_same_board);
nvmlReturn_t nvmlDeviceValidateInforom(nvmlDevice_t dev);
nvmlReturn_t nvmlGetExcludedDeviceCount(unsigned int *out_count);
nvmlReturn_t nvmlGetExcludedDeviceInfoByIndex(unsigned int index,
					      nvmlExcludedDeviceInfo_t *out_info);

/* Memory. */
nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t dev, nvmlBAR1Memory_t *out_bar1);
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t dev, nvmlMemory_t *out_memory);
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t dev, nvmlMemory_v2_t *out_memory);
nvmlReturn_t nvmlDeviceGetMemoryLimits_v1(nvmlDevice_t dev, nvmlGetMemoryLimits_v1_t *out_limits);
nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t dev, unsigned int *out_correctable,
				       unsigned int *out_uncorrectable, unsigned int *out_pending,
				       unsigned int *out_failed);
nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t dev, nvmlPageRetirementCause_t cause,
				       unsigned int *inout_count,
				       unsigned long long *out_addresses);
nvmlReturn_t nvmlDeviceGetRetiredPages_v2(nvmlDevice_t dev, nvmlPageRetirementCause_t cause,
					  unsigned int *inout_count,
					  unsigned long long *out_addresses,
					  unsigned long long *out_timestamps);
nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t dev,
						    nvmlEnableState_t *out_pending);
nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t dev,
					       nvmlRowRemapperHistogramValues_t *inout_values);
nvmlReturn_t nvmlDeviceSetMemoryLimits_v1(nvmlDevice_t dev, nvmlSetMemoryLimits_v1_t *limits);

/* Processes and their use. */
nvmlReturn_t nvmlDeviceClearAccountingPids(nvmlDevice_t dev);
nvmlReturn_t nvmlDeviceGetAccountingBufferSize(nvmlDevice_t dev, unsigned int *inout_bytes);
nvmlReturn_t nvmlDeviceGetAccountingMode(nvmlDevice_t dev, nvmlEnableState_t *out_mode);
nvmlReturn_t nvmlDeviceGetAccountingPids(nvmlDevice_t dev, unsigned int *inout_count,
					 unsigned int *out_pids);
nvmlReturn_t nvmlDeviceGetAccountingStats(nvmlDevice_t dev, unsigned int pid,
					  nvmlAccountingStats_t *out_stats);
nvmlReturn_t nvmlDeviceGetAccountingStats_v2(nvmlDevice_t dev, nvmlAccountingStats_v2_t *out_stats);
nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t dev, unsigned int *out_id);
nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t dev, nvmlComputeMode_t *out_mode);
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t dev, unsigned int *inout_count,
						  nvmlProcessInfo_v1_t *out_infos);
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t dev, unsigned int *inout_count,
						     nvmlProcessInfo_v2_t *out_infos);
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t dev, unsigned int *inout_count,
						     nvmlProcessInfo_t *out_infos);
nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t dev, unsigned int *out_utilization,
					     unsigned int *out_period_us);
nvmlReturn_t nvmlDeviceGetEncoderCapacity(nvmlDevice_t dev, nvmlEncoderType_t encoder_query_type,
					  unsigned int *out_encoder_capacity);
nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t dev, unsigned int *out_utilization,
					     unsigned int *out_period_us);
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t dev, unsigned int *inout_count,
						   nvmlProcessInfo_v1_t *out_infos);
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t dev, unsigned int *inout_count,
						      nvmlProcessInfo_v2_t *out_infos);
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t dev, unsigned int *inout_count,
						      nvmlProcessInfo_t *out_infos);
nvmlReturn_t nvmlDeviceGetJpgUtilization(nvmlDevice_t dev, unsigned int *out_utilization,
					 unsigned int *out_period_us);
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses(nvmlDevice_t dev, unsigned int *inout_count,
						     nvmlProcessInfo_v1_t *out_infos);
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t dev, unsigned int *inout_count,
							nvmlProcessInfo_v2_t *out_infos);
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t dev, unsigned int *inout_count,
							nvmlProcessInfo_t *out_infos);
nvmlReturn_t nvmlDeviceGetOfaUtilization(nvmlDevice_t dev, unsigned int *out_utilization,
					 unsigned int *out_period_us);
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t dev,
					     nvmlProcessUtilizationSample_t *out_utilization,
					     unsigned int *inout_count,
					     unsigned long long last_seen_time_stamp);
nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t dev,
						   nvmlProcessesUtilizationInfo_t *inout_infos);
nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t dev,
						   nvmlProcessDetailList_t *inout_list);
nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t dev, nvmlSamplingType_t type,
				  unsigned long long last_seen_time_stamp,
				  nvmlValueType_t *out_sample_val_type, unsigned int *inout_count,
				  nvmlSample_t *out_samples);
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t dev, nvmlUtilization_t *out_utilization);
nvmlReturn_t nvmlDeviceSetAccountingMode(nvmlDevice_t dev, nvmlEnableState_t mode);
nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t dev, nvmlComputeMode_t mode);

/* Modes. */
nvmlReturn_t nvmlDeviceGetAPIRestriction(nvmlDevice_t dev, nvmlRestrictedAPI_t api_type,
					 nvmlEnableState_t *out_is_restricted);
nvmlReturn_t nvmlDeviceGetAutoBoostedClocksEnabled(nvmlDevice_t dev, nvmlEnableState_t *out_enabled,
						   nvmlEnableState_t *out_default_is_enabled);
nvmlReturn_t nvmlDeviceGetConfComputeMemSizeInfo(nvmlDevice_t dev,
						 nvmlConfComputeMemSizeInfo_t *out_mem_info);
nvmlReturn_t nvmlDeviceGetConfComputeProtectedMemoryUsage(nvmlDevice_t dev,
							  nvmlMemory_t *out_memory);
nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t dev, nvmlEnableState_t *out_is_active);
nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t dev, nvmlEnableState_t *out_display);
nvmlReturn_t nvmlDeviceGetGpuOperationMode(nvmlDevice_t dev, nvmlGpuOperationMode_t *out_current,
					   nvmlGpuOperationMode_t *out_pending);
nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t dev, nvmlEnableState_t *out_mode);
nvmlReturn_t nvmlDeviceGetPowerManagementMode(nvmlDevice_t dev, nvmlEnableState_t *out_mode);
nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t dev,
					     nvmlGpuVirtualizationMode_t *out_mode);
nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t dev, nvmlEnableState_t mode);

/* Topology and links. */
nvmlReturn_t nvmlDeviceClearCpuAffinity(nvmlDevice_t dev);
nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t dev, unsigned int set_len,
				      unsigned long *out_cpu_set);
nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t dev, unsigned int set_len,
						 unsigned long *out_cpu_set,
						 nvmlAffinityScope_t scope);
nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t dev, unsigned int *out_curr_link_gen);
nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t dev, unsigned int *out_curr_link_width);
nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t dev, nvmlGpuFabricInfo_t *out_gpu_fabric_info);
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t dev,
					 nvmlGpuFabricInfoV_t *out_gpu_fabric_info);
nvmlReturn_t nvmlDeviceGetGpuMaxPcieLinkGeneration(nvmlDevice_t dev,
						   unsigned int *out_max_link_gen_device);
nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t dev, unsigned int *out_max_link_gen);
nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t dev, unsigned int *out_max_link_width);
nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t dev, unsigned int set_len,
					 unsigned long *out_node_set, nvmlAffinityScope_t scope);
nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t dev, unsigned int link,
					   nvmlNvLinkCapability_t capability,
					   unsigned int *out_cap_result);
nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t dev, unsigned int link,
					     nvmlNvLinkErrorCounter_t counter,
					     unsigned long long *out_counter_value);
nvmlReturn_t
nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t dev, unsigned int link,
				    nvmlIntNvLinkDeviceType_t *out_nv_link_device_type);
nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t dev, unsigned int link,
					      nvmlPciInfo_t *out_pci);
__typeof__(nvmlDeviceGetNvLinkRemotePciInfo) nvmlDeviceGetNvLinkRemotePciInfo_v2;
nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t dev, unsigned int link,
				      nvmlEnableState_t *out_is_active);
nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t dev, unsigned int link,
					unsigned int *out_version);
nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t dev, nvmlDevice_t other,
				    nvmlGpuP2PCapsIndex_t p2p_index,
				    nvmlGpuP2PStatus_t *out_p2p_status);
nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t dev, nvmlDevice_t other,
						 nvmlGpuTopologyLevel_t *out_path_info);
nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t dev, nvmlGpuTopologyLevel_t level,
					      unsigned int *inout_count,
					      nvmlDevice_t *out_device_array);
nvmlReturn_t nvmlDeviceSetCpuAffinity(nvmlDevice_t dev);
nvmlReturn_t nvmlSystemGetTopologyGpuSet(unsigned int cpu_number, unsigned int *inout_count,
					 nvmlDevice_t *out_device_array);
