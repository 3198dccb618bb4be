/*
 * Waits of the program's: where they return, work has ended, and that costs the meters nothing. While no
 * launch is measured the calls are handed on.
 */
#include "hook/gated.h"

/* Queries in a polling loop read the markers once in so long. */
#define POLL_NS (50 * NSEC_PER_USEC)

#define WAIT(sym, is_per_thread)                                                         \
	CUresult hook_##sym(CUstream stream)                                             \
	{                                                                                \
		struct work_wait wait;                                                   \
		CUresult res;                                                            \
                                                                                         \
		if (!ENTER_HAS(sym))                                                     \
			return enter_missing();                                          \
		if (!metering_is_on() || !work_wait_begin(stream, is_per_thread, &wait)) \
			return real.sym(stream);                                         \
		res = real.sym(stream);                                                  \
		if (res == CUDA_SUCCESS)                                                 \
			work_wait_over(&wait);                                           \
		return res;                                                              \
	}

/* A question whether a stream is done. */
#define QUERY(sym, is_per_thread)                                                \
	CUresult hook_##sym(CUstream stream)                                     \
	{                                                                        \
		CUresult res;                                                    \
                                                                                 \
		if (!ENTER_HAS(sym))                                             \
			return enter_missing();                                  \
		res = real.sym(stream);                                          \
		if (!metering_is_on())                                           \
			return res;                                              \
		if (res == CUDA_SUCCESS)                                         \
			work_waited(stream, is_per_thread, false, WORK_AT_ONCE); \
		else if (res == CUDA_ERROR_NOT_READY)                            \
			work_unready(stream, is_per_thread);                     \
		metering_read_all(POLL_NS);                                      \
		return res;                                                      \
	}

WAIT(cuStreamSynchronize, false)
WAIT(cuStreamSynchronize_ptsz, true)
QUERY(cuStreamQuery, false)
QUERY(cuStreamQuery_ptsz, true)

CUresult hook_cuCtxSynchronize(void)
{
	int64_t begin_ns = metering_is_on() ? clock_now_ns() : 0;
	CUresult res;

	if (!ENTER_HAS(cuCtxSynchronize))
		return enter_missing();
	res = real.cuCtxSynchronize();
	if (begin_ns && res == CUDA_SUCCESS)
		work_waited(NULL, false, true, begin_ns);
	return res;
}

/* Of another context: its markers say what has ended. */
CUresult hook_cuCtxSynchronize_v2(CUcontext ctx)
{
	CUresult res;

	if (!ENTER_HAS(cuCtxSynchronize_v2))
		return enter_missing();
	res = real.cuCtxSynchronize_v2(ctx);
	if (metering_is_on())
		metering_read_all(0);
	return res;
}
