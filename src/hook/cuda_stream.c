/* Streams pass the gate where they come and go, begin a capture or touch memory by its address. */
#include "hook/gated.h"

/* Coming and going. */
GATED(cuGreenCtxStreamCreate, CUstream *, CUgreenCtx, unsigned int, int)
GATED(cuStreamCreate, CUstream *, unsigned int)
GATED(cuStreamCreateWithPriority, CUstream *, unsigned int, int)
/* Its work goes on, but nobody can ask for it any more. */
#define DESTROY(sym)                                 \
	CUresult hook_##sym(CUstream stream)         \
	{                                            \
		uint32_t was_in;                     \
		CUresult res;                        \
                                                     \
		if (!ENTER_HAS(sym))                 \
			return enter_missing();      \
		if (metering_is_on())                \
			metering_end_stream(stream); \
		was_in = gate_enter();               \
		res = real.sym(stream);              \
		gate_leave(was_in);                  \
		return res;                          \
	}

DESTROY(cuStreamDestroy)
DESTROY(cuStreamDestroy_v2)

/*
 * Captures begin, and are counted before they do: while there may be one, each stream is asked
 * before something of ours goes into it.
 */
#define CAPTURE(sym, ...)                                \
	CUresult hook_##sym(GATED_PARAMS(__VA_ARGS__))   \
	{                                                \
		uint32_t was_in;                         \
		CUresult res;                            \
                                                         \
		if (!ENTER_HAS(sym))                     \
			return enter_missing();          \
		metering_begin_capture();                \
		was_in = gate_enter();                   \
		res = real.sym(GATED_ARGS(__VA_ARGS__)); \
		gate_leave(was_in);                      \
		if (res != CUDA_SUCCESS)                 \
			metering_end_capture();          \
		return res;                              \
	}

CAPTURE(cuStreamBeginCapture, CUstream)
CAPTURE(cuStreamBeginCapture_ptsz, CUstream)
CAPTURE(cuStreamBeginCapture_v2, CUstream, CUstreamCaptureMode)
CAPTURE(cuStreamBeginCapture_v2_ptsz, CUstream, CUstreamCaptureMode)
CAPTURE(cuStreamBeginCaptureToGraph, CUstream, CUgraph, const CUgraphNode *,
	const CUgraphEdgeData *, size_t, CUstreamCaptureMode)
CAPTURE(cuStreamBeginCaptureToGraph_ptsz, CUstream, CUgraph, const CUgraphNode *,
	const CUgraphEdgeData *, size_t, CUstreamCaptureMode)
CAPTURE(cuStreamBeginRecaptureToGraph, CUstream, CUstreamCaptureMode, CUgraph,
	CUgraphRecaptureCallback, void *)
CAPTURE(cuStreamBeginRecaptureToGraph_ptsz, CUstream, CUstreamCaptureMode, CUgraph,
	CUgraphRecaptureCallback, void *)
CAPTURE(cuStreamBeginCaptureToCig, CUstream, CUstreamCigCaptureParams *)
CAPTURE(cuStreamBeginCaptureToCig_ptsz, CUstream, CUstreamCigCaptureParams *)

/* One that was invalidated ends with an error. */
#define END(sym, ...)                                                                    \
	CUresult hook_##sym(GATED_PARAMS(__VA_ARGS__))                                   \
	{                                                                                \
		CUresult res;                                                            \
                                                                                         \
		if (!ENTER_HAS(sym))                                                     \
			return enter_missing();                                          \
		res = real.sym(GATED_ARGS(__VA_ARGS__));                                 \
		if (res == CUDA_SUCCESS || res == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) \
			metering_end_capture();                                          \
		return res;                                                              \
	}

END(cuStreamEndCapture, CUstream, CUgraph *)
END(cuStreamEndCapture_ptsz, CUstream, CUgraph *)

/* Waits on and writes to memory. */
GATED_FENCE(cuStreamBatchMemOp, true, a, false, CUstream, unsigned int, CUstreamBatchMemOpParams *,
	    unsigned int)
GATED_FENCE(cuStreamBatchMemOp_ptsz, true, a, true, CUstream, unsigned int,
	    CUstreamBatchMemOpParams *, unsigned int)
GATED_FENCE(cuStreamBatchMemOp_v2, true, a, false, CUstream, unsigned int,
	    CUstreamBatchMemOpParams *, unsigned int)
GATED_FENCE(cuStreamBatchMemOp_v2_ptsz, true, a, true, CUstream, unsigned int,
	    CUstreamBatchMemOpParams *, unsigned int)
GATED_FENCE(cuStreamWaitValue32, true, a, false, CUstream, CUdeviceptr, cuuint32_t, unsigned int)
GATED_FENCE(cuStreamWaitValue32_ptsz, true, a, true, CUstream, CUdeviceptr, cuuint32_t,
	    unsigned int)
GATED_FENCE(cuStreamWaitValue32_v2, true, a, false, CUstream, CUdeviceptr, cuuint32_t, unsigned int)
GATED_FENCE(cuStreamWaitValue32_v2_ptsz, true, a, true, CUstream, CUdeviceptr, cuuint32_t,
	    unsigned int)
GATED_FENCE(cuStreamWaitValue64, true, a, false, CUstream, CUdeviceptr, cuuint64_t, unsigned int)
GATED_FENCE(cuStreamWaitValue64_ptsz, true, a, true, CUstream, CUdeviceptr, cuuint64_t,
	    unsigned int)
GATED_FENCE(cuStreamWaitValue64_v2, true, a, false, CUstream, CUdeviceptr, cuuint64_t, unsigned int)
GATED_FENCE(cuStreamWaitValue64_v2_ptsz, true, a, true, CUstream, CUdeviceptr, cuuint64_t,
	    unsigned int)
GATED(cuStreamWriteValue32, CUstream, CUdeviceptr, cuuint32_t, unsigned int)
GATED(cuStreamWriteValue32_ptsz, CUstream, CUdeviceptr, cuuint32_t, unsigned int)
GATED(cuStreamWriteValue32_v2, CUstream, CUdeviceptr, cuuint32_t, unsigned int)
GATED(cuStreamWriteValue32_v2_ptsz, CUstream, CUdeviceptr, cuuint32_t, unsigned int)
GATED(cuStreamWriteValue64, CUstream, CUdeviceptr, cuuint64_t, unsigned int)
GATED(cuStreamWriteValue64_ptsz, CUstream, CUdeviceptr, cuuint64_t, unsigned int)
GATED(cuStreamWriteValue64_v2, CUstream, CUdeviceptr, cuuint64_t, unsigned int)
GATED(cuStreamWriteValue64_v2_ptsz, CUstream, CUdeviceptr, cuuint64_t, unsigned int)
