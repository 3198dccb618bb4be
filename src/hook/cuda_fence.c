/*
 * What a stream waits for that is not work of its device: functions of the host, semaphores of
 * others, events that were recorded elsewhere. The wait is not counted as the device's time. None
 * of these touches device memory, so they do not pass the gate; those that do, and copies, are
 * with their families.
 */
#include "hook/event_point.h"
#include "hook/gated.h"

#define FENCE(sym, stream, is_per_thread, ...)             \
	CUresult hook_##sym(GATED_PARAMS(__VA_ARGS__))     \
	{                                                  \
		if (!ENTER_HAS(sym))                       \
			return enter_missing();            \
		if (metering_is_on())                      \
			work_fence(stream, is_per_thread); \
		return real.sym(GATED_ARGS(__VA_ARGS__));  \
	}

FENCE(cuLaunchHostFunc, a, false, CUstream, CUhostFn, void *)
FENCE(cuLaunchHostFunc_ptsz, a, true, CUstream, CUhostFn, void *)
FENCE(cuLaunchHostFunc_v2, a, false, CUstream, CUhostFn, void *, unsigned int)
FENCE(cuLaunchHostFunc_v2_ptsz, a, true, CUstream, CUhostFn, void *, unsigned int)
FENCE(cuStreamAddCallback, a, false, CUstream, CUstreamCallback, void *, unsigned int)
FENCE(cuStreamAddCallback_ptsz, a, true, CUstream, CUstreamCallback, void *, unsigned int)
FENCE(cuWaitExternalSemaphoresAsync, d, false, const CUexternalSemaphore *,
      const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *, unsigned int, CUstream)
FENCE(cuWaitExternalSemaphoresAsync_ptsz, d, true, const CUexternalSemaphore *,
      const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *, unsigned int, CUstream)

/* Unless what is waited for is measured by the same meter. */
static void fence_event(CUstream stream, bool is_per_thread, CUevent event)
{
	struct marker_point point;
	struct meter *meter;

	if (!event_point_find(event, &meter, &point) || meter != work_meter(stream, is_per_thread))
		work_fence(stream, is_per_thread);
}

#define WAIT_EVENT(sym, is_per_thread)                                          \
	CUresult hook_##sym(CUstream stream, CUevent event, unsigned int flags) \
	{                                                                       \
		if (!ENTER_HAS(sym))                                            \
			return enter_missing();                                 \
		if (metering_is_on())                                           \
			fence_event(stream, is_per_thread, event);              \
		return real.sym(stream, event, flags);                          \
	}

WAIT_EVENT(cuStreamWaitEvent, false)
WAIT_EVENT(cuStreamWaitEvent_ptsz, true)
