/*
 * The CUDA driver API as Ration uses it: streams, events, capture, waits on memory.
 *
 * Only what crosses the ABI is here: names, types, values. tests/lint/check-abi compares them with
 * NVIDIA's headers of several releases.
 */
#pragma once

#include "abi/cuda_struct.h"

/* Streams. */
CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void *data,
			     unsigned int flags);
__typeof__(cuStreamAddCallback) cuStreamAddCallback_ptsz;
CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr addr, size_t length,
				unsigned int flags);
__typeof__(cuStreamAttachMemAsync) cuStreamAttachMemAsync_ptsz;
CUresult cuStreamCreate(CUstream *out_stream, unsigned int flags);
CUresult cuStreamCreateWithPriority(CUstream *out_stream, unsigned int flags, int priority);
CUresult cuStreamDestroy(CUstream stream);
__typeof__(cuStreamDestroy) cuStreamDestroy_v2;
CUresult cuStreamGetCtx(CUstream stream, CUcontext *out_ctx);
__typeof__(cuStreamGetCtx) cuStreamGetCtx_ptsz;
CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext *out_ctx, CUgreenCtx *out_green);
__typeof__(cuStreamGetCtx_v2) cuStreamGetCtx_v2_ptsz;
CUresult cuStreamGetDevResource(CUstream stream, CUdevResource *out_resource,
				CUdevResourceType type);
__typeof__(cuStreamGetDevResource) cuStreamGetDevResource_ptsz;
CUresult cuStreamGetDevice(CUstream stream, CUdevice *out_dev);
__typeof__(cuStreamGetDevice) cuStreamGetDevice_ptsz;
CUresult cuStreamGetFlags(CUstream stream, unsigned int *out_flags);
__typeof__(cuStreamGetFlags) cuStreamGetFlags_ptsz;
CUresult cuStreamGetGreenCtx(CUstream stream, CUgreenCtx *out_green);
CUresult cuStreamGetId(CUstream stream, unsigned long long *out_id);
__typeof__(cuStreamGetId) cuStreamGetId_ptsz;
CUresult cuStreamGetPriority(CUstream stream, int *out_priority);
__typeof__(cuStreamGetPriority) cuStreamGetPriority_ptsz;
CUresult cuStreamQuery(CUstream stream);
__typeof__(cuStreamQuery) cuStreamQuery_ptsz;
CUresult cuStreamSynchronize(CUstream stream);
__typeof__(cuStreamSynchronize) cuStreamSynchronize_ptsz;
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags);
__typeof__(cuStreamWaitEvent) cuStreamWaitEvent_ptsz;

/* Attributes of streams. */
CUresult cuStreamCopyAttributes(CUstream dst_stream, CUstream src_stream);
__typeof__(cuStreamCopyAttributes) cuStreamCopyAttributes_ptsz;
CUresult cuStreamGetAttribute(CUstream stream, CUstreamAttrID attr, CUstreamAttrValue *out_value);
__typeof__(cuStreamGetAttribute) cuStreamGetAttribute_ptsz;
CUresult cuStreamSetAttribute(CUstream stream, CUstreamAttrID attr, const CUstreamAttrValue *value);
__typeof__(cuStreamSetAttribute) cuStreamSetAttribute_ptsz;

/* Capture. */
CUresult cuStreamBeginCapture(CUstream stream);
__typeof__(cuStreamBeginCapture) cuStreamBeginCapture_ptsz;
CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode);
__typeof__(cuStreamBeginCapture_v2) cuStreamBeginCapture_v2_ptsz;
CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
				     const CUgraphNode *dependencies, const CUgraphEdgeData *edges,
				     size_t count, CUstreamCaptureMode mode);
__typeof__(cuStreamBeginCaptureToGraph) cuStreamBeginCaptureToGraph_ptsz;
CUresult cuStreamBeginRecaptureToGraph(CUstream stream, CUstreamCaptureMode mode, CUgraph graph,
				       CUgraphRecaptureCallback callback, void *data);
__typeof__(cuStreamBeginRecaptureToGraph) cuStreamBeginRecaptureToGraph_ptsz;
CUresult cuStreamBeginCaptureToCig(CUstream stream, CUstreamCigCaptureParams *params);
__typeof__(cuStreamBeginCaptureToCig) cuStreamBeginCaptureToCig_ptsz;
CUresult cuStreamEndCapture(CUstream stream, CUgraph *out_graph);
__typeof__(cuStreamEndCapture) cuStreamEndCapture_ptsz;
CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *out_status,
				cuuint64_t *out_id);
__typeof__(cuStreamGetCaptureInfo) cuStreamGetCaptureInfo_ptsz;
CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *out_status,
				   cuuint64_t *out_id, CUgraph *out_graph,
				   const CUgraphNode **out_dependencies, size_t *out_count);
__typeof__(cuStreamGetCaptureInfo_v2) cuStreamGetCaptureInfo_v2_ptsz;
CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *out_status,
				   cuuint64_t *out_id, CUgraph *out_graph,
				   const CUgraphNode **out_dependencies,
				   const CUgraphEdgeData **out_edges, size_t *out_count);
__typeof__(cuStreamGetCaptureInfo_v3) cuStreamGetCaptureInfo_v3_ptsz;
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *out_status);
__typeof__(cuStreamIsCapturing) cuStreamIsCapturing_ptsz;
CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *dependencies, size_t count,
					   unsigned int flags);
__typeof__(cuStreamUpdateCaptureDependencies) cuStreamUpdateCaptureDependencies_ptsz;
CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode *dependencies,
					      const CUgraphEdgeData *edges, size_t count,
					      unsigned int flags);
__typeof__(cuStreamUpdateCaptureDependencies_v2) cuStreamUpdateCaptureDependencies_v2_ptsz;
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *inout_mode);

/* Waits on and writes to memory. */
CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *ops,
			    unsigned int flags);
__typeof__(cuStreamBatchMemOp) cuStreamBatchMemOp_ptsz;
__typeof__(cuStreamBatchMemOp) cuStreamBatchMemOp_v2;
__typeof__(cuStreamBatchMemOp) cuStreamBatchMemOp_v2_ptsz;
CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value,
			     unsigned int flags);
__typeof__(cuStreamWaitValue32) cuStreamWaitValue32_ptsz;
__typeof__(cuStreamWaitValue32) cuStreamWaitValue32_v2;
__typeof__(cuStreamWaitValue32) cuStreamWaitValue32_v2_ptsz;
CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value,
			     unsigned int flags);
__typeof__(cuStreamWaitValue64) cuStreamWaitValue64_ptsz;
__typeof__(cuStreamWaitValue64) cuStreamWaitValue64_v2;
__typeof__(cuStreamWaitValue64) cuStreamWaitValue64_v2_ptsz;
CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value,
			      unsigned int flags);
__typeof__(cuStreamWriteValue32) cuStreamWriteValue32_ptsz;
__typeof__(cuStreamWriteValue32) cuStreamWriteValue32_v2;
__typeof__(cuStreamWriteValue32) cuStreamWriteValue32_v2_ptsz;
CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value,
			      unsigned int flags);
__typeof__(cuStreamWriteValue64) cuStreamWriteValue64_ptsz;
__typeof__(cuStreamWriteValue64) cuStreamWriteValue64_v2;
__typeof__(cuStreamWriteValue64) cuStreamWriteValue64_v2_ptsz;

/* Events. */
CUresult cuEventCreate(CUevent *out_event, unsigned int flags);
CUresult cuEventDestroy(CUevent event);
__typeof__(cuEventDestroy) cuEventDestroy_v2;
CUresult cuEventElapsedTime(float *out_ms, CUevent start, CUevent end);
__typeof__(cuEventElapsedTime) cuEventElapsedTime_v2;
CUresult cuEventQuery(CUevent event);
CUresult cuEventRecord(CUevent event, CUstream stream);
__typeof__(cuEventRecord) cuEventRecord_ptsz;
CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags);
__typeof__(cuEventRecordWithFlags) cuEventRecordWithFlags_ptsz;
CUresult cuEventSynchronize(CUevent event);
