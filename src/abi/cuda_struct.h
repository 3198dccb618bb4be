/*
 * The CUDA driver API as Ration uses it: structures of launches, graphs and device resources.
 *
 * Only what crosses the ABI is here: names, types, values. tests/lint/check-abi compares them with
 * NVIDIA's headers of several releases.
 */
#pragma once

#include "abi/cuda_struct_mem.h"

/* Launches, and attributes of launches, streams and kernels. */
typedef void (*CUstreamCallback)(CUstream hStream, CUresult status, void *userData);
typedef void (*CUhostFn)(void *userData);

typedef union {
	CUstreamBatchMemOpType operation;
	struct {
		CUstreamBatchMemOpType operation;
		CUdeviceptr address;
		union {
			cuuint32_t value;
			cuuint64_t value64;
		};
		unsigned int flags;
		CUdeviceptr alias;
	} waitValue;
	struct {
		CUstreamBatchMemOpType operation;
		CUdeviceptr address;
		union {
			cuuint32_t value;
			cuuint64_t value64;
		};
		unsigned int flags;
		CUdeviceptr alias;
	} writeValue;
	struct {
		CUstreamBatchMemOpType operation;
		unsigned int flags;
	} flushRemoteWrites;
	struct {
		CUstreamBatchMemOpType operation;
		unsigned int flags;
	} memoryBarrier;
	struct {
		CUstreamBatchMemOpType operation;
		unsigned int flags;
		CUstreamAtomicReductionOpType reductionOp;
		CUstreamAtomicReductionDataType dataType;
		CUdeviceptr address;
		cuuint64_t value;
		CUdeviceptr alias;
	} atomicReduction;
	cuuint64_t pad[6];
} CUstreamBatchMemOpParams_v1;
typedef CUstreamBatchMemOpParams_v1 CUstreamBatchMemOpParams;
typedef CUlaunchAttributeID CUstreamAttrID;

typedef struct {
	void *base_ptr;
	size_t num_bytes;
	float hitRatio;
	CUaccessProperty hitProp, missProp;
} CUaccessPolicyWindow_v1;
typedef CUaccessPolicyWindow_v1 CUaccessPolicyWindow;

typedef struct {
	unsigned char default_, remote;
} CUlaunchMemSyncDomainMap;

typedef union {
	char pad[64];
	CUaccessPolicyWindow accessPolicyWindow;
	int cooperative;
	CUsynchronizationPolicy syncPolicy;
	struct {
		unsigned int x, y, z;
	} clusterDim;
	CUclusterSchedulingPolicy clusterSchedulingPolicyPreference;
	int programmaticStreamSerializationAllowed;
	struct {
		CUevent event;
		int flags, triggerAtBlockStart;
	} programmaticEvent;
	struct {
		CUevent event;
		int flags;
	} launchCompletionEvent;
	int priority;
	CUlaunchMemSyncDomainMap memSyncDomainMap;
	CUlaunchMemSyncDomain memSyncDomain;
	struct {
		unsigned int x, y, z;
	} preferredClusterDim;
	struct {
		int deviceUpdatable;
		CUgraphDeviceNode devNode;
	} deviceUpdatableKernelNode;
	unsigned int sharedMemCarveout, nvlinkUtilCentricScheduling;
	CUlaunchAttributePortableClusterMode portableClusterSizeMode;
	CUsharedMemoryMode sharedMemoryMode;
} CUlaunchAttributeValue;
typedef CUlaunchAttributeValue CUstreamAttrValue_v1;
typedef CUstreamAttrValue_v1 CUstreamAttrValue;

typedef struct {
	CUlaunchAttributeID id;
	char pad[4];
	CUlaunchAttributeValue value;
} CUlaunchAttribute;

typedef struct {
	unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY;
	unsigned int blockDimZ, sharedMemBytes;
	CUstream hStream;
	CUlaunchAttribute *attrs;
	unsigned int numAttrs;
} CUlaunchConfig;

typedef struct {
	CUfunction function;
	unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY;
	unsigned int blockDimZ, sharedMemBytes;
	CUstream hStream;
	void **kernelParams;
} CUDA_LAUNCH_PARAMS_v1;
typedef CUDA_LAUNCH_PARAMS_v1 CUDA_LAUNCH_PARAMS;
typedef CUlaunchAttributeID CUkernelNodeAttrID;
typedef CUlaunchAttributeValue CUkernelNodeAttrValue_v1;
typedef CUkernelNodeAttrValue_v1 CUkernelNodeAttrValue;
typedef size_t (*CUoccupancyB2DSize)(int blockSize);

/* Resources of a device. */
typedef struct {
	unsigned int smCount, minSmPartitionSize, smCoscheduledAlignment, flags;
	unsigned int localityDomainId;
} CUdevSmResource;

typedef struct {
	CUdevice device;
	unsigned int wqConcurrencyLimit;
	CUdevWorkqueueConfigScope sharingScope;
} CUdevWorkqueueConfigResource;

typedef struct {
	unsigned char reserved[40];
} CUdevWorkqueueResource;

typedef struct CUdevResource_st {
	CUdevResourceType type;
	unsigned char _internal_padding[92];
	union {
		CUdevSmResource sm;
		CUdevWorkqueueConfigResource wqConfig;
		CUdevWorkqueueResource wq;
		unsigned char _oversize[40];
	};
	struct CUdevResource_st *nextResource;
} CUdevResource_v1;
typedef CUdevResource_v1 CUdevResource;

typedef struct {
	unsigned int smCount, coscheduledSmCount, preferredCoscheduledSmCount;
	unsigned int flags, localityDomainId;
	unsigned int reserved[11];
} CU_DEV_SM_RESOURCE_GROUP_PARAMS;

/* Checkpoint. */
typedef struct {
	unsigned int timeoutMs;
	unsigned int reserved0;
	cuuint64_t reserved1[7];
} CUcheckpointLockArgs;

typedef struct {
	CUdeviceptr devPtr;
	size_t size;
	CUstream stream;
} CUcheckpointCustomStoragePerDeviceData;

typedef struct {
	CUcheckpointOperationHandle handle;
	CUcheckpointCustomStoragePerDeviceData *perDeviceData;
	unsigned int deviceCount;
} CUcheckpointCustomStorageInfo;

typedef struct {
	CUcheckpointCustomStorageInfo **customStorageInfo_out;
	char reserved[56];
} CUcheckpointCheckpointArgs;

typedef struct {
	CUuuid oldUuid, newUuid;
} CUcheckpointGpuPair;

typedef struct {
	CUcheckpointGpuPair *gpuPairs;
	unsigned int gpuPairsCount, padding0;
	CUcheckpointCustomStorageInfo **customStorageInfo_out;
	char reserved[40];
} CUcheckpointRestoreArgs;

typedef struct {
	cuuint64_t reserved[8];
} CUcheckpointUnlockArgs;

/* Graphs. */
typedef struct {
	CUfunction func;
	unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY;
	unsigned int blockDimZ, sharedMemBytes;
	void **kernelParams;
	void **extra;
	CUkernel kern;
	CUcontext ctx;
} CUDA_KERNEL_NODE_PARAMS_v3;

typedef struct {
	int flags;
	int reserved;
	CUcontext copyCtx;
	CUDA_MEMCPY3D copyParams;
} CUDA_MEMCPY_NODE_PARAMS;

typedef struct {
	CUdeviceptr dst;
	size_t pitch;
	unsigned int value, elementSize;
	size_t width, height;
	CUcontext ctx;
} CUDA_MEMSET_NODE_PARAMS_v2;

typedef struct {
	CUhostFn fn;
	void *userData;
	unsigned int syncMode;
	union {
		CUcontext ctx;
		CUgreenCtx gCtx;
	};
} CUDA_HOST_NODE_PARAMS_v2;

typedef struct {
	CUgraph graph;
	CUgraphChildGraphNodeOwnership ownership;
} CUDA_CHILD_GRAPH_NODE_PARAMS;

typedef struct {
	CUevent event;
} CUDA_EVENT_WAIT_NODE_PARAMS;

typedef struct {
	CUevent event;
	union {
		CUcontext ctx;
		CUgreenCtx gCtx;
	};
} CUDA_EVENT_RECORD_NODE_PARAMS;

typedef struct {
	CUexternalSemaphore *extSemArray;
	const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *paramsArray;
	unsigned int numExtSems;
	union {
		CUcontext ctx;
		CUgreenCtx gCtx;
	};
} CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2;

typedef struct {
	CUexternalSemaphore *extSemArray;
	const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *paramsArray;
	unsigned int numExtSems;
	union {
		CUcontext ctx;
		CUgreenCtx gCtx;
	};
} CUDA_EXT_SEM_WAIT_NODE_PARAMS_v2;

typedef struct {
	CUmemPoolProps poolProps;
	const CUmemAccessDesc *accessDescs;
	size_t accessDescCount, bytesize;
	CUdeviceptr dptr;
} CUDA_MEM_ALLOC_NODE_PARAMS_v2;

typedef struct {
	CUdeviceptr dptr;
} CUDA_MEM_FREE_NODE_PARAMS;

typedef struct {
	CUcontext ctx;
	unsigned int count;
	CUstreamBatchMemOpParams *paramArray;
	unsigned int flags;
} CUDA_BATCH_MEM_OP_NODE_PARAMS_v2;

typedef struct {
	CUgraphConditionalHandle handle;
	CUgraphConditionalNodeType type;
	unsigned int size;
	CUgraph *phGraph_out;
	CUcontext ctx;
} CUDA_CONDITIONAL_NODE_PARAMS;

typedef struct {
	size_t count;
	CUdeviceptr *dsts;
	CUdeviceptr *srcs;
	size_t *sizes;
	CUmemcpyAttributes *attrs;
	size_t *attrsIdxs;
	size_t numAttrs;
	union {
		CUcontext ctx;
		CUgreenCtx gCtx;
	};
} CUDA_MEMCPY_BATCH_NODE_PARAMS_V1;

typedef struct {
	size_t numOps;
	CUDA_FABRIC_COPY_BATCH_OP *opList;
	unsigned long long flags;
	union {
		CUcontext ctx;
		CUgreenCtx gCtx;
	};
} CUDA_FABRIC_CPY_BATCH_NODE_PARAMS_V1;

typedef struct {
	CUgraphNodeType type;
	int reserved0[3];
	union {
		long long reserved1[29];
		CUDA_KERNEL_NODE_PARAMS_v3 kernel;
		CUDA_MEMCPY_NODE_PARAMS memcpy;
		CUDA_MEMSET_NODE_PARAMS_v2 memset;
		CUDA_HOST_NODE_PARAMS_v2 host;
		CUDA_CHILD_GRAPH_NODE_PARAMS graph;
		CUDA_EVENT_WAIT_NODE_PARAMS eventWait;
		CUDA_EVENT_RECORD_NODE_PARAMS eventRecord;
		CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2 extSemSignal;
		CUDA_EXT_SEM_WAIT_NODE_PARAMS_v2 extSemWait;
		CUDA_MEM_ALLOC_NODE_PARAMS_v2 alloc;
		CUDA_MEM_FREE_NODE_PARAMS free;
		CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 memOp;
		CUDA_CONDITIONAL_NODE_PARAMS conditional;
		CUDA_MEMCPY_BATCH_NODE_PARAMS_V1 memcpyBatch;
		CUDA_FABRIC_CPY_BATCH_NODE_PARAMS_V1 fabricCpyBatch;
		char asBytes[232];
	};
	long long reserved2;
} CUgraphNodeParams;

typedef CUresult (*CUgraphRecaptureCallback)(void *data, CUgraphNode node,
					     const CUgraphNodeParams *originalParams,
					     const CUgraphNodeParams *recaptureParams,
					     CUgraphRecaptureStatus status);

typedef struct {
	unsigned char from_port, to_port, type;
	unsigned char reserved[5];
} CUgraphEdgeData;

typedef struct {
	CUfunction func;
	unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY;
	unsigned int blockDimZ, sharedMemBytes;
	void **kernelParams;
	void **extra;
	CUkernel kern;
	CUcontext ctx;
} CUDA_KERNEL_NODE_PARAMS_v2;
typedef CUDA_KERNEL_NODE_PARAMS_v2 CUDA_KERNEL_NODE_PARAMS;

typedef struct {
	CUdeviceptr dst;
	size_t pitch;
	unsigned int value, elementSize;
	size_t width, height;
} CUDA_MEMSET_NODE_PARAMS_v1;
typedef CUDA_MEMSET_NODE_PARAMS_v1 CUDA_MEMSET_NODE_PARAMS;

typedef struct {
	CUhostFn fn;
	void *userData;
} CUDA_HOST_NODE_PARAMS_v1;
typedef CUDA_HOST_NODE_PARAMS_v1 CUDA_HOST_NODE_PARAMS;

typedef struct {
	CUexternalSemaphore *extSemArray;
	const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *paramsArray;
	unsigned int numExtSems;
} CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v1;
typedef CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v1 CUDA_EXT_SEM_SIGNAL_NODE_PARAMS;

typedef struct {
	CUexternalSemaphore *extSemArray;
	const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *paramsArray;
	unsigned int numExtSems;
} CUDA_EXT_SEM_WAIT_NODE_PARAMS_v1;
typedef CUDA_EXT_SEM_WAIT_NODE_PARAMS_v1 CUDA_EXT_SEM_WAIT_NODE_PARAMS;

typedef struct {
	CUcontext ctx;
	unsigned int count;
	CUstreamBatchMemOpParams *paramArray;
	unsigned int flags;
} CUDA_BATCH_MEM_OP_NODE_PARAMS_v1;
typedef CUDA_BATCH_MEM_OP_NODE_PARAMS_v1 CUDA_BATCH_MEM_OP_NODE_PARAMS;

typedef struct {
	CUmemPoolProps poolProps;
	const CUmemAccessDesc *accessDescs;
	size_t accessDescCount, bytesize;
	CUdeviceptr dptr;
} CUDA_MEM_ALLOC_NODE_PARAMS_v1;
typedef CUDA_MEM_ALLOC_NODE_PARAMS_v1 CUDA_MEM_ALLOC_NODE_PARAMS;

typedef struct {
	cuuint64_t flags;
	CUstream hUploadStream;
	CUgraphNode hErrNode_out;
	CUgraphInstantiateResult result_out;
} CUDA_GRAPH_INSTANTIATE_PARAMS;

typedef struct {
	CUgraphExecUpdateResult result;
	CUgraphNode errorNode, errorFromNode;
} CUgraphExecUpdateResultInfo_v1;
typedef CUgraphExecUpdateResultInfo_v1 CUgraphExecUpdateResultInfo;

typedef struct {
	CUfunction func;
	unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY;
	unsigned int blockDimZ, sharedMemBytes;
	void **kernelParams;
	void **extra;
} CUDA_KERNEL_NODE_PARAMS_v1;
