/*
 * NVML as Ration uses it: structures.
 *
 * Only what crosses the ABI is here: names, types, values. tests/lint/check-abi compares them with
 * NVIDIA's header.
 */
#pragma once

#include "abi/nvml_types.h"

typedef struct {
	unsigned int hwbcId;
	char firmwareVersion[32];
} nvmlHwbcEntry_t;

typedef struct {
	unsigned int version;
	char branch[80];
} nvmlSystemDriverBranchInfo_v1_t;
typedef nvmlSystemDriverBranchInfo_v1_t nvmlSystemDriverBranchInfo_t;

typedef struct {
	unsigned int multiprocessorCount, sharedCopyEngineCount;
	unsigned int sharedDecoderCount, sharedEncoderCount, sharedJpegCount;
	unsigned int sharedOfaCount, gpuInstanceSliceCount;
	unsigned int computeInstanceSliceCount;
	unsigned long long memorySizeMB;
} nvmlDeviceAttributes_t;

typedef union {
	char str[41];
	unsigned char bytes[16];
} nvmlUUIDValue_t;

typedef struct {
	unsigned int version, type;
	nvmlUUIDValue_t value;
} nvmlUUID_v1_t;
typedef nvmlUUID_v1_t nvmlUUID_t;

typedef struct {
	unsigned int version, value;
} nvmlDeviceAddressingMode_v1_t;
typedef nvmlDeviceAddressingMode_v1_t nvmlDeviceAddressingMode_t;

typedef struct {
	unsigned int version, domain, bus, device, pciDeviceId, pciSubSystemId;
	unsigned int baseClass, subClass;
	char busId[32];
} nvmlPciInfoExt_v1_t;
typedef nvmlPciInfoExt_v1_t nvmlPciInfoExt_t;

typedef struct {
	char busIdLegacy[16];
	unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
	char busId[32];
} nvmlPciInfo_t;

typedef struct {
	unsigned int version;
	nvmlTemperatureSensors_t sensorType;
	int temperature;
} nvmlTemperature_v1_t;
typedef nvmlTemperature_v1_t nvmlTemperature_t;

typedef struct {
	unsigned int flags;
	struct {
		unsigned int bIsPresent, percentage, incThreshold, decThreshold;
	} utilization[8];
} nvmlGpuDynamicPstatesInfo_t;

typedef struct {
	unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct {
	unsigned int version;
	unsigned long long total;
	unsigned long long reserved;
	unsigned long long free, used;
} nvmlMemory_v2_t;

typedef struct {
	const char *nameSpace;
	unsigned long long softLimit, hardLimit;
} nvmlSetMemoryLimits_v1_t;

typedef struct {
	const char *nameSpace;
	unsigned long long softLimit, hardLimit, currentUsed;
} nvmlGetMemoryLimits_v1_t;

typedef struct {
	unsigned long long l1Cache, l2Cache, deviceMemory, registerFile;
} nvmlEccErrorCounts_t;

typedef struct {
	unsigned int gpu, memory;
} nvmlUtilization_t;

typedef struct {
	unsigned int pid;
	unsigned long long usedGpuMemory;
	unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

typedef struct {
	unsigned int pid;
	unsigned long long usedGpuMemory;
	unsigned int gpuInstanceId, computeInstanceId;
	unsigned long long usedGpuCcProtectedMemory;
} nvmlProcessDetail_v1_t;

typedef struct {
	unsigned int version, mode, numProcArrayEntries;
	nvmlProcessDetail_v1_t *procArray;
} nvmlProcessDetailList_v1_t;
typedef nvmlProcessDetailList_v1_t nvmlProcessDetailList_t;

typedef union {
	double dVal;
	int siVal;
	unsigned int uiVal;
	unsigned long ulVal;
	unsigned long long ullVal;
	signed long long sllVal;
	unsigned short usVal;
} nvmlValue_t;

typedef struct {
	unsigned long long timeStamp;
	nvmlValue_t sampleValue;
} nvmlSample_t;

typedef struct {
	unsigned long long bar1Total, bar1Free, bar1Used;
} nvmlBAR1Memory_t;

typedef struct {
	unsigned long long referenceTime, violationTime;
} nvmlViolationTime_t;

typedef struct {
	unsigned char clusterUuid[16];
	nvmlReturn_t status;
	unsigned int cliqueId;
	nvmlGpuFabricState_t state;
} nvmlGpuFabricInfo_t;

typedef struct {
	unsigned int version;
	unsigned char clusterUuid[16];
	nvmlReturn_t status;
	unsigned int cliqueId;
	nvmlGpuFabricState_t state;
	unsigned int healthMask;
	unsigned char healthSummary;
} nvmlGpuFabricInfo_v3_t;
typedef nvmlGpuFabricInfo_v3_t nvmlGpuFabricInfoV_t;

typedef struct {
	unsigned long long protectedMemSizeKib, unprotectedMemSizeKib;
} nvmlConfComputeMemSizeInfo_t;

typedef struct {
	unsigned int version;
	unsigned long long aggregateUncParity, aggregateUncSecDed, aggregateCor;
	unsigned long long volatileUncParity, volatileUncSecDed, volatileCor;
	unsigned long long aggregateUncBucketL2, aggregateUncBucketSm;
	unsigned long long aggregateUncBucketPcie, aggregateUncBucketMcu;
	unsigned long long aggregateUncBucketOther;
	unsigned int bThresholdExceeded;
} nvmlEccSramErrorStatus_v1_t;
typedef nvmlEccSramErrorStatus_v1_t nvmlEccSramErrorStatus_t;

typedef struct {
	unsigned int gpuUtilization, memoryUtilization;
	unsigned long long maxMemoryUsage, time, startTime;
	unsigned int isRunning;
	unsigned int reserved[5];
} nvmlAccountingStats_t;

typedef struct {
	unsigned int pid, isRunning, gpuUtilization, memoryUtilization;
	unsigned long long maxMemoryUsage;
	unsigned int sampleCount;
	unsigned long long sumGpuUtil, sumFbUtil, time, startTime;
} nvmlAccountingStats_v2_t;

typedef struct {
	unsigned int max, high, partial, low, none;
} nvmlRowRemapperHistogramValues_t;

typedef struct {
	unsigned int pid;
	unsigned long long timeStamp;
	unsigned int smUtil, memUtil, encUtil, decUtil;
} nvmlProcessUtilizationSample_t;

typedef struct {
	unsigned long long timeStamp;
	unsigned int pid, smUtil, memUtil, encUtil, decUtil, jpgUtil, ofaUtil;
} nvmlProcessUtilizationInfo_v1_t;

typedef struct {
	unsigned int version, processSamplesCount;
	unsigned long long lastSeenTimeStamp;
	nvmlProcessUtilizationInfo_v1_t *procUtilArray;
} nvmlProcessesUtilizationInfo_v1_t;
typedef nvmlProcessesUtilizationInfo_v1_t nvmlProcessesUtilizationInfo_t;

typedef struct {
	unsigned int version;
	unsigned char ibGuid[16], chassisSerialNumber[16], slotNumber;
	unsigned char trayIndex, hostId, peerType, moduleId;
} nvmlPlatformInfo_v2_t;
typedef nvmlPlatformInfo_v2_t nvmlPlatformInfo_t;

typedef struct {
	unsigned int version;
	unsigned long long value;
} nvmlPdi_v1_t;
typedef nvmlPdi_v1_t nvmlPdi_t;

typedef struct {
	nvmlDevice_t device;
	unsigned long long eventType, eventData;
	unsigned int gpuInstanceId, computeInstanceId;
} nvmlEventData_t;

typedef struct {
	unsigned int version;
	nvmlSystemEventSet_t set;
} nvmlSystemEventSetCreateRequest_v1_t;
typedef nvmlSystemEventSetCreateRequest_v1_t nvmlSystemEventSetCreateRequest_t;

typedef struct {
	unsigned int version;
	nvmlSystemEventSet_t set;
} nvmlSystemEventSetFreeRequest_v1_t;
typedef nvmlSystemEventSetFreeRequest_v1_t nvmlSystemEventSetFreeRequest_t;

typedef struct {
	unsigned int version;
	unsigned long long eventTypes;
	nvmlSystemEventSet_t set;
} nvmlSystemRegisterEventRequest_v1_t;
typedef nvmlSystemRegisterEventRequest_v1_t nvmlSystemRegisterEventRequest_t;

typedef struct {
	unsigned long long eventType;
	unsigned int gpuId;
} nvmlSystemEventData_v1_t;

typedef struct {
	unsigned int version, timeoutms;
	nvmlSystemEventSet_t set;
	nvmlSystemEventData_v1_t *data;
	unsigned int dataSize, numEvent;
} nvmlSystemEventSetWaitRequest_v1_t;
typedef nvmlSystemEventSetWaitRequest_v1_t nvmlSystemEventSetWaitRequest_t;

typedef struct {
	unsigned int fieldId, scopeId;
	long long timestamp, latencyUsec;
	nvmlValueType_t valueType;
	nvmlReturn_t nvmlReturn;
	nvmlValue_t value;
} nvmlFieldValue_t;

typedef struct {
	nvmlPciInfo_t pciInfo;
	char uuid[80];
} nvmlExcludedDeviceInfo_t;

typedef struct {
	unsigned int id, isP2pSupported, sliceCount, instanceCount;
	unsigned int multiprocessorCount, copyEngineCount, decoderCount;
	unsigned int encoderCount, jpegCount, ofaCount;
	unsigned long long memorySizeMB;
} nvmlGpuInstanceProfileInfo_t;

typedef struct {
	unsigned int version, id, isP2pSupported, sliceCount, instanceCount;
	unsigned int multiprocessorCount, copyEngineCount, decoderCount;
	unsigned int encoderCount, jpegCount, ofaCount;
	unsigned long long memorySizeMB;
	char name[96];
} nvmlGpuInstanceProfileInfo_v2_t;

typedef struct {
	unsigned int start, size;
} nvmlGpuInstancePlacement_t;

typedef struct {
	nvmlDevice_t device;
	unsigned int id, profileId;
	nvmlGpuInstancePlacement_t placement;
} nvmlGpuInstanceInfo_t;

typedef struct {
	unsigned int id, sliceCount, instanceCount, multiprocessorCount;
	unsigned int sharedCopyEngineCount, sharedDecoderCount;
	unsigned int sharedEncoderCount, sharedJpegCount, sharedOfaCount;
} nvmlComputeInstanceProfileInfo_t;

typedef struct {
	unsigned int version, id, sliceCount, instanceCount;
	unsigned int multiprocessorCount, sharedCopyEngineCount;
	unsigned int sharedDecoderCount, sharedEncoderCount, sharedJpegCount;
	unsigned int sharedOfaCount;
	char name[96];
} nvmlComputeInstanceProfileInfo_v2_t;

typedef struct {
	unsigned int start, size;
} nvmlComputeInstancePlacement_t;

typedef struct {
	nvmlDevice_t device;
	nvmlGpuInstance_t gpuInstance;
	unsigned int id, profileId;
	nvmlComputeInstancePlacement_t placement;
} nvmlComputeInstanceInfo_t;

typedef struct {
	unsigned int version, isSupportedDevice;
} nvmlGpmSupport_t;

typedef struct {
	unsigned int pid;
	unsigned long long usedGpuMemory;
} nvmlProcessInfo_v1_t;

typedef struct {
	unsigned int pid;
	unsigned long long usedGpuMemory;
	unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_v2_t;

/*
 * The version field of a structure holds its size and its number; NVML refuses any other value.
 */
#define NVML_VERSION_OF(type, number) ((unsigned int)(sizeof(type) | (number) << 24))
#define nvmlComputeInstanceProfileInfo_v2 NVML_VERSION_OF(nvmlComputeInstanceProfileInfo_v2_t, 2)
#define nvmlDeviceAddressingMode_v1 NVML_VERSION_OF(nvmlDeviceAddressingMode_v1_t, 1)
#define nvmlEccSramErrorStatus_v1 NVML_VERSION_OF(nvmlEccSramErrorStatus_v1_t, 1)
#define nvmlGpuFabricInfo_v3 NVML_VERSION_OF(nvmlGpuFabricInfo_v3_t, 3)
#define nvmlGpuInstanceProfileInfo_v2 NVML_VERSION_OF(nvmlGpuInstanceProfileInfo_v2_t, 2)
#define nvmlMemory_v2 NVML_VERSION_OF(nvmlMemory_v2_t, 2)
#define nvmlPciInfoExt_v1 NVML_VERSION_OF(nvmlPciInfoExt_v1_t, 1)
#define nvmlPdi_v1 NVML_VERSION_OF(nvmlPdi_v1_t, 1)
#define nvmlPlatformInfo_v2 NVML_VERSION_OF(nvmlPlatformInfo_v2_t, 2)
#define nvmlProcessDetailList_v1 NVML_VERSION_OF(nvmlProcessDetailList_v1_t, 1)
#define nvmlProcessesUtilizationInfo_v1 NVML_VERSION_OF(nvmlProcessesUtilizationInfo_v1_t, 1)
#define nvmlSystemDriverBranchInfo_v1 NVML_VERSION_OF(nvmlSystemDriverBranchInfo_v1_t, 1)
#define nvmlSystemEventSetCreateRequest_v1 NVML_VERSION_OF(nvmlSystemEventSetCreateRequest_v1_t, 1)
#define nvmlSystemEventSetFreeRequest_v1 NVML_VERSION_OF(nvmlSystemEventSetFreeRequest_v1_t, 1)
#define nvmlSystemEventSetWaitRequest_v1 NVML_VERSION_OF(nvmlSystemEventSetWaitRequest_v1_t, 1)
#define nvmlSystemRegisterEventRequest_v1 NVML_VERSION_OF(nvmlSystemRegisterEventRequest_v1_t, 1)
#define nvmlTemperature_v1 NVML_VERSION_OF(nvmlTemperature_v1_t, 1)
#define nvmlUUID_v1 NVML_VERSION_OF(nvmlUUID_v1_t, 1)
