/* Streams pass the gate where they come and go, begin a capture or touch memory by its address. */
#include "hook/gated.h"

/* Coming and going. */
GATED(cuGreenCtxStreamCreate, CUstream *, CUgreenCtx, unsigned int, int)
GATED(cuStreamCreate, CUstream *, unsigned int)
GATED(cuStreamCreateWithPriority, CUstream *, unsigned int, int)
GATED(cuStreamDestroy, CUstream)
GATED(cuStreamDestroy_v2, CUstream)

/* Captures begin. */
GATED(cuStreamBeginCapture, CUstream)
GATED(cuStreamBeginCapture_ptsz, CUstream)
GATED(cuStreamBeginCapture_v2, CUstream, CUstreamCaptureMode)
GATED(cuStreamBeginCapture_v2_ptsz, CUstream, CUstreamCaptureMode)
GATED(cuStreamBeginCaptureToGraph, CUstream, CUgraph, const CUgraphNode *, const CUgraphEdgeData *,
      size_t, CUstreamCaptureMode)
GATED(cuStreamBeginCaptureToGraph_ptsz, CUstream, CUgraph, const CUgraphNode *,
      const CUgraphEdgeData *, size_t, CUstreamCaptureMode)
GATED(cuStreamBeginRecaptureToGraph, CUstream, CUstreamCaptureMode, CUgraph,
      CUgraphRecaptureCallback, void *)
GATED(cuStreamBeginRecaptureToGraph_ptsz, CUstream, CUstreamCaptureMode, CUgraph,
      CUgraphRecaptureCallback, void *)
GATED(cuStreamBeginCaptureToCig, CUstream, CUstreamCigCaptureParams *)
GATED(cuStreamBeginCaptureToCig_ptsz, CUstream, CUstreamCigCaptureParams *)

/* Waits on and writes to memory. */
GATED(cuStreamBatchMemOp, CUstream, unsigned int, CUstreamBatchMemOpParams *, unsigned int)
GATED(cuStreamBatchMemOp_ptsz, CUstream, unsigned int, CUstreamBatchMemOpParams *, unsigned int)
GATED(cuStreamBatchMemOp_v2, CUstream, unsigned int, CUstreamBatchMemOpParams *, unsigned int)
GATED(cuStreamBatchMemOp_v2_ptsz, CUstream, unsigned int, CUstreamBatchMemOpParams *, unsigned int)
GATED(cuStreamWaitValue32, CUstream, CUdeviceptr, cuuint32_t, unsigned int)
GATED(cuStreamWaitValue32_ptsz, CUstream, CUdeviceptr, cuuint32_t, unsigned int)
GATED(cuStreamWaitValue32_v2, CUstream, CUdeviceptr, cuuint32_t, unsigned int)
GATED(cuStreamWaitValue32_v2_ptsz, CUstream, CUdeviceptr, cuuint32_t, unsigned int)
GATED(cuStreamWaitValue64, CUstream, CUdeviceptr, cuuint64_t, unsigned int)
GATED(cuStreamWaitValue64_ptsz, CUstream, CUdeviceptr, cuuint64_t, unsigned int)
GATED(cuStreamWaitValue64_v2, CUstream, CUdeviceptr, cuuint64_t, unsigned int)
GATED(cuStreamWaitValue64_v2_ptsz, CUstream, CUdeviceptr, cuuint64_t, unsigned int)
GATED(cuStreamWriteValue32, CUstream, CUdeviceptr, cuuint32_t, unsigned int)
GATED(cuStreamWriteValue32_ptsz, CUstream, CUdeviceptr, cuuint32_t, unsigned int)
GATED(cuStreamWriteValue32_v2, CUstream, CUdeviceptr, cuuint32_t, unsigned int)
GATED(cuStreamWriteValue32_v2_ptsz, CUstream, CUdeviceptr, cuuint32_t, unsigned int)
GATED(cuStreamWriteValue64, CUstream, CUdeviceptr, cuuint64_t, unsigned int)
GATED(cuStreamWriteValue64_ptsz, CUstream, CUdeviceptr, cuuint64_t, unsigned int)
GATED(cuStreamWriteValue64_v2, CUstream, CUdeviceptr, cuuint64_t, unsigned int)
GATED(cuStreamWriteValue64_v2_ptsz, CUstream, CUdeviceptr, cuuint64_t, unsigned int)
