/*
 * The program's own events. When it records one, how far the stream had come is kept; when it
 * waits for it or is told that it is done, the work before it has ended. While no launch is
 * measured the calls are handed on.
 */
#include "core/spare.h"
#include "hook/event_point.h"
#include "hook/gated.h"

/* Queries in a polling loop read the markers once in so long. */
#define POLL_NS (50 * NSEC_PER_USEC)

#define RECORD(sym, is_per_thread, ...)                                        \
	CUresult hook_##sym(GATED_PARAMS(__VA_ARGS__))                         \
	{                                                                      \
		struct marker_point point;                                     \
		struct meter *meter = NULL;                                    \
		CUresult res;                                                  \
                                                                               \
		if (!ENTER_HAS(sym))                                           \
			return enter_missing();                                \
		if (!metering_is_on())                                         \
			return real.sym(GATED_ARGS(__VA_ARGS__));              \
		/* Before: a launch of another thread's may come meanwhile. */ \
		if (!work_point(b, is_per_thread, &meter, &point))             \
			meter = NULL;                                          \
		res = real.sym(GATED_ARGS(__VA_ARGS__));                       \
		if (res == CUDA_SUCCESS)                                       \
			event_point_put(a, meter, &point);                     \
		return res;                                                    \
	}

RECORD(cuEventRecord, false, CUevent, CUstream)
RECORD(cuEventRecord_ptsz, true, CUevent, CUstream)
RECORD(cuEventRecordWithFlags, false, CUevent, CUstream, unsigned int)
RECORD(cuEventRecordWithFlags_ptsz, true, CUevent, CUstream, unsigned int)

/* Its handle may come again as another event, which was never recorded. */
#define DESTROY(sym)                                        \
	CUresult hook_##sym(CUevent event)                  \
	{                                                   \
		if (!ENTER_HAS(sym))                        \
			return enter_missing();             \
		if (metering_is_on())                       \
			event_point_put(event, NULL, NULL); \
		return real.sym(event);                     \
	}

DESTROY(cuEventDestroy)
DESTROY(cuEventDestroy_v2)

/* The driver said that the event is done, after a wait that began at begin_ns. */
static void reached(CUevent event, int64_t begin_ns)
{
	int64_t now_ns = clock_now_ns();
	struct marker_point point;
	struct meter *meter;
	struct lane *lane;

	if (!event_point_find(event, &meter, &point))
		return;
	lane = work_lane_at(&point);
	if (lane)
		spare_waited(lane, begin_ns, now_ns);
	if (meter_wait_is_spare(meter, &point.stream->lanes[0], begin_ns, now_ns))
		return;
	metering_read(meter);
	marker_reached(meter, &point, begin_ns < now_ns ? begin_ns : now_ns, now_ns);
	metering_check_debt(meter);
}

CUresult hook_cuEventSynchronize(CUevent event)
{
	int64_t begin_ns;
	CUresult res;

	if (!ENTER_HAS(cuEventSynchronize))
		return enter_missing();
	if (!metering_is_on())
		return real.cuEventSynchronize(event);
	begin_ns = clock_now_ns();
	res = real.cuEventSynchronize(event);
	if (res == CUDA_SUCCESS)
		reached(event, begin_ns);
	metering_read_all(POLL_NS);
	return res;
}

CUresult hook_cuEventQuery(CUevent event)
{
	struct marker_point point;
	struct meter *meter;
	CUresult res;

	if (!ENTER_HAS(cuEventQuery))
		return enter_missing();
	res = real.cuEventQuery(event);
	if (!metering_is_on())
		return res;
	if (res == CUDA_SUCCESS)
		reached(event, WORK_AT_ONCE);
	else if (res == CUDA_ERROR_NOT_READY && event_point_find(event, &meter, &point))
		marker_point_unready(meter, &point, clock_now_ns());
	metering_read_all(POLL_NS);
	return res;
}
