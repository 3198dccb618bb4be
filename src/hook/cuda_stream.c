/* Streams pass the gate where they come and go, begin a capture or touch memory by its address. */
#include "drv/capture.h"
#include "drv/gpu_fence.h"
#include "hook/gated.h"

/* Coming and going. */
static void created(CUresult res, const CUstream *out_stream, unsigned flags)
{
	CUcontext ctx = NULL;

	if (res != CUDA_SUCCESS || !gpu_fence_wants_streams())
		return;
	if (real.cuCtxGetCurrent)
		real.cuCtxGetCurrent(&ctx);
	gpu_fence_add_stream(ctx, *out_stream, flags);
}

#define CREATE(sym, flags, ...)                          \
	CUresult hook_##sym(GATED_PARAMS(__VA_ARGS__))   \
	{                                                \
		uint32_t was_in;                         \
		CUresult res;                            \
                                                         \
		if (!ENTER_HAS(sym))                     \
			return enter_missing();          \
		was_in = gate_enter();                   \
		res = real.sym(GATED_ARGS(__VA_ARGS__)); \
		created(res, a, flags);                  \
		gate_leave(was_in);                      \
		return res;                              \
	}

CREATE(cuGreenCtxStreamCreate, c, CUstream *, CUgreenCtx, unsigned int, int)
CREATE(cuStreamCreate, b, CUstream *, unsigned int)
CREATE(cuStreamCreateWithPriority, b, CUstream *, unsigned int, int)

/* Its work goes on, and is measured (core/ended.h), but nobody can ask for it any more. */
#define DESTROY(sym)                                               \
	CUresult hook_##sym(CUstream stream)                       \
	{                                                          \
		uint32_t was_in;                                   \
		CUresult res;                                      \
                                                                   \
		if (!ENTER_HAS(sym))                               \
			return enter_missing();                    \
		if (metering_is_on())                              \
			metering_end_stream(stream);               \
		was_in = gate_enter();                             \
		gpu_fence_drop_stream(stream);                     \
		res = real.sym(stream);                            \
		if (res == CUDA_SUCCESS && capture_forget(stream)) \
			capture_end();                             \
		gate_leave(was_in);                                \
		return res;                                        \
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
		metering_begin_capture(a);               \
		was_in = gate_enter();                   \
		res = real.sym(GATED_ARGS(__VA_ARGS__)); \
		if (res == CUDA_SUCCESS)                 \
			capture_note(a);                 \
		else                                     \
			capture_end();                   \
		gate_leave(was_in);                      \
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

/*
 * One that was invalidated, or not joined by all that was captured in it, ends with an error: the
 * stream says whether it has.
 */
#define END(sym, is_per_thread)                                                   \
	CUresult hook_##sym(CUstream stream, CUgraph *out_graph)                  \
	{                                                                         \
		bool was_captured;                                                \
		CUresult res;                                                     \
                                                                                  \
		if (!ENTER_HAS(sym))                                              \
			return enter_missing();                                   \
		was_captured = work_is_captured(stream, is_per_thread);           \
		res = real.sym(stream, out_graph);                                \
		if (res == CUDA_SUCCESS ||                                        \
		    (was_captured && !work_is_captured(stream, is_per_thread))) { \
			capture_forget(stream);                                   \
			capture_end();                                            \
		}                                                                 \
		return res;                                                       \
	}

END(cuStreamEndCapture, false)
END(cuStreamEndCapture_ptsz, true)

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
