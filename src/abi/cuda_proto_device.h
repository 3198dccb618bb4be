/*
 * The CUDA driver API as Ration uses it: init, errors, lookup, devices, contexts, green contexts,
 * checkpoint.
 *
 * Only what crosses the ABI is here: names, types, values. tests/lint/check-abi compares them with
 * NVIDIA's headers of several releases.
 */
#pragma once

#include "abi/cuda_struct.h"

/* Start, errors, lookup. */
CUresult cuDriverGetVersion(int *out_version);
CUresult cuGetErrorName(CUresult error, const char **out_text);
CUresult cuGetErrorString(CUresult error, const char **out_text);
CUresult cuGetExportTable(const void **out_table, const CUuuid *table_id);
CUresult cuGetProcAddress(const char *symbol, void **out_fn, int cuda_version, cuuint64_t flags);
CUresult cuGetProcAddress_v2(const char *symbol, void **out_fn, int cuda_version, cuuint64_t flags,
			     CUdriverProcAddressQueryResult *out_status);
CUresult cuInit(unsigned int flags);

/* Devices. */
CUresult cuDeviceComputeCapability(int *out_major, int *out_minor, CUdevice dev);
CUresult cuDeviceGet(CUdevice *out_dev, int ordinal);
CUresult cuDeviceGetAttribute(int *out_value, CUdevice_attribute attr, CUdevice dev);
CUresult cuDeviceGetByPCIBusId(CUdevice *out_dev, const char *pci_bus_id);
CUresult cuDeviceGetCount(int *out_count);
CUresult cuDeviceGetLuid(char *out_luid, unsigned int *out_node_mask, CUdevice dev);
CUresult cuDeviceGetName(char *out_name, int len, CUdevice dev);
CUresult cuDeviceGetPCIBusId(char *out_pci_bus_id, int len, CUdevice dev);
CUresult cuDeviceGetProperties(CUdevprop *out_prop, CUdevice dev);
CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *out_width, CUarray_format format,
					    unsigned channels, CUdevice dev);
CUresult cuDeviceGetUuid(CUuuid *out_uuid, CUdevice dev);
__typeof__(cuDeviceGetUuid) cuDeviceGetUuid_v2;
CUresult cuDeviceTotalMem(unsigned int *out_bytes, CUdevice dev);
CUresult cuDeviceTotalMem_v2(size_t *out_bytes, CUdevice dev);

/* Primary contexts. */
CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *out_flags, int *out_active);
CUresult cuDevicePrimaryCtxRelease(CUdevice dev);
__typeof__(cuDevicePrimaryCtxRelease) cuDevicePrimaryCtxRelease_v2;
CUresult cuDevicePrimaryCtxReset(CUdevice dev);
__typeof__(cuDevicePrimaryCtxReset) cuDevicePrimaryCtxReset_v2;
CUresult cuDevicePrimaryCtxRetain(CUcontext *out_ctx, CUdevice dev);
CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags);
__typeof__(cuDevicePrimaryCtxSetFlags) cuDevicePrimaryCtxSetFlags_v2;

/* Contexts. */
CUresult cuCtxAttach(CUcontext *out_ctx, unsigned int flags);
CUresult cuCtxCreate(CUcontext *out_ctx, unsigned int flags, CUdevice dev);
__typeof__(cuCtxCreate) cuCtxCreate_v2;
CUresult cuCtxCreate_v3(CUcontext *out_ctx, CUexecAffinityParam *params, int count,
			unsigned int flags, CUdevice dev);
CUresult cuCtxCreate_v4(CUcontext *out_ctx, CUctxCreateParams *params, unsigned int flags,
			CUdevice dev);
CUresult cuCtxDestroy(CUcontext ctx);
__typeof__(cuCtxDestroy) cuCtxDestroy_v2;
CUresult cuCtxDetach(CUcontext ctx);
CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *out_version);
CUresult cuCtxGetCacheConfig(CUfunc_cache *out_config);
CUresult cuCtxGetCurrent(CUcontext *out_ctx);
CUresult cuCtxGetDevice(CUdevice *out_dev);
CUresult cuCtxGetDevice_v2(CUdevice *out_dev, CUcontext ctx);
CUresult cuCtxGetExecAffinity(CUexecAffinityParam *out_affinity, CUexecAffinityType type);
CUresult cuCtxGetFlags(unsigned int *out_flags);
CUresult cuCtxGetId(CUcontext ctx, unsigned long long *out_id);
CUresult cuCtxGetLimit(size_t *out_value, CUlimit limit);
CUresult cuCtxGetSharedMemConfig(CUsharedconfig *out_config);
CUresult cuCtxGetStreamPriorityRange(int *out_least_priority, int *out_greatest_priority);
CUresult cuCtxPopCurrent(CUcontext *out_ctx);
__typeof__(cuCtxPopCurrent) cuCtxPopCurrent_v2;
CUresult cuCtxPushCurrent(CUcontext ctx);
__typeof__(cuCtxPushCurrent) cuCtxPushCurrent_v2;
CUresult cuCtxRecordEvent(CUcontext ctx, CUevent event);
CUresult cuCtxResetPersistingL2Cache(void);
CUresult cuCtxSetCacheConfig(CUfunc_cache config);
CUresult cuCtxSetCurrent(CUcontext ctx);
CUresult cuCtxSetFlags(unsigned int flags);
CUresult cuCtxSetLimit(CUlimit limit, size_t value);
CUresult cuCtxSetSharedMemConfig(CUsharedconfig config);
CUresult cuCtxSynchronize(void);
CUresult cuCtxSynchronize_v2(CUcontext ctx);
CUresult cuCtxWaitEvent(CUcontext ctx, CUevent event);
CUresult cuDeviceGetExecAffinitySupport(int *out_value, CUexecAffinityType type, CUdevice dev);

/* Peers. */
CUresult cuCtxDisablePeerAccess(CUcontext peer);
CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags);
CUresult cuDeviceCanAccessPeer(int *out_can, CUdevice dev, CUdevice peer);
CUresult cuDeviceGetHostAtomicCapabilities(unsigned int *out_capabilities,
					   const CUatomicOperation *ops, unsigned int count,
					   CUdevice dev);
CUresult cuDeviceGetP2PAtomicCapabilities(unsigned int *out_capabilities,
					  const CUatomicOperation *ops, unsigned int count,
					  CUdevice src, CUdevice dst);
CUresult cuDeviceGetP2PAttribute(int *out_value, CUdevice_P2PAttribute attr, CUdevice src,
				 CUdevice dst);
CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
				    CUflushGPUDirectRDMAWritesScope scope);

/* Resources of a device and green contexts. */
CUresult cuCtxFromGreenCtx(CUcontext *out_ctx, CUgreenCtx green);
CUresult cuCtxGetDevResource(CUcontext ctx, CUdevResource *out_resource, CUdevResourceType type);
CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *out_desc, CUdevResource *resources,
				   unsigned int count);
CUresult cuDevSmResourceSplit(CUdevResource *out_groups, unsigned int group_count,
			      const CUdevResource *input, CUdevResource *out_rest,
			      unsigned int flags, CU_DEV_SM_RESOURCE_GROUP_PARAMS *group_params);
CUresult cuDevSmResourceSplitByCount(CUdevResource *out_groups, unsigned int *out_group_count,
				     const CUdevResource *input, CUdevResource *out_rest,
				     unsigned int flags, unsigned int min_count);
CUresult cuDeviceGetDevResource(CUdevice dev, CUdevResource *out_resource, CUdevResourceType type);
CUresult cuGreenCtxCreate(CUgreenCtx *out_green, CUdevResourceDesc desc, CUdevice dev,
			  unsigned int flags);
CUresult cuGreenCtxDestroy(CUgreenCtx green);
CUresult cuGreenCtxGetDevResource(CUgreenCtx green, CUdevResource *out_resource,
				  CUdevResourceType type);
CUresult cuGreenCtxGetId(CUgreenCtx green, unsigned long long *out_id);
CUresult cuGreenCtxRecordEvent(CUgreenCtx green, CUevent event);
CUresult cuGreenCtxStreamCreate(CUstream *out_stream, CUgreenCtx green, unsigned int flags,
				int priority);
CUresult cuGreenCtxWaitEvent(CUgreenCtx green, CUevent event);

/* Notifications of the driver. */
CUresult cuDeviceRegisterAsyncNotification(CUdevice dev, CUasyncCallback callback_func, void *data,
					   CUasyncCallbackHandle *out_callback);
CUresult cuDeviceUnregisterAsyncNotification(CUdevice dev, CUasyncCallbackHandle callback);

/* Checkpoint of whole processes. */
CUresult cuCheckpointOperationComplete(CUcheckpointOperationHandle handle);
CUresult cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *args);
CUresult cuCheckpointProcessGetRestoreThreadId(int pid, int *out_tid);
CUresult cuCheckpointProcessGetState(int pid, CUprocessState *out_state);
CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *args);
CUresult cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *args);
CUresult cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *args);
