/*
 * The driver's calls that a move makes, put between drv/real.c and the software GPU: counted, and
 * those from one number to another fail. Of one thread.
 */
#pragma once

#include "drv/real.h"

#include <signal.h>

static struct {
	struct real real;            /* as it was */
	unsigned calls, first, last; /* so far; those that fail, from 1: none with 0 */
	unsigned kill_at;            /* before this one the process ends as by kill -9 */
	CUresult res;                /* how they fail */
	bool is_asked; /* the last call was a question, which is asked until there is an answer */
} failing;

static inline bool failing_hit(bool is_question)
{
	bool is_again = is_question && failing.is_asked;

	failing.is_asked = is_question;
	/* The same question again is no call more; it fails where all that follow do. */
	if (is_again)
		return failing.calls >= failing.first && failing.calls < failing.last;
	failing.calls++;
	if (failing.calls == failing.kill_at)
		raise(SIGKILL);
	return failing.calls >= failing.first && failing.calls <= failing.last;
}

/* failing_<sym>() */
#define FAILING_AS(is_question, sym, params, args)                                     \
	static CUresult failing_##sym params                                           \
	{                                                                              \
		return failing_hit(is_question) ? failing.res : failing.real.sym args; \
	}
#define FAILING(sym, params, args) FAILING_AS(false, sym, params, args)

FAILING(cuMemCreate,
	(CUmemGenericAllocationHandle * h, size_t n, const CUmemAllocationProp *p,
	 unsigned long long f),
	(h, n, p, f))
FAILING(cuMemRelease, (CUmemGenericAllocationHandle h), (h))
FAILING(cuMemMap,
	(CUdeviceptr a, size_t n, size_t o, CUmemGenericAllocationHandle h, unsigned long long f),
	(a, n, o, h, f))
FAILING(cuMemUnmap, (CUdeviceptr a, size_t n), (a, n))
FAILING(cuMemSetAccess, (CUdeviceptr a, size_t n, const CUmemAccessDesc *d, size_t c), (a, n, d, c))
FAILING(cuMemAddressReserve,
	(CUdeviceptr * a, size_t n, size_t l, CUdeviceptr h, unsigned long long f), (a, n, l, h, f))
FAILING(cuMemAddressFree, (CUdeviceptr a, size_t n), (a, n))
FAILING(cuMemcpyAsync, (CUdeviceptr t, CUdeviceptr s, size_t n, CUstream st), (t, s, n, st))
FAILING(cuMemcpyDtoHAsync_v2, (void *t, CUdeviceptr s, size_t n, CUstream st), (t, s, n, st))
FAILING(cuMemcpyHtoDAsync_v2, (CUdeviceptr t, const void *s, size_t n, CUstream st), (t, s, n, st))
FAILING(cuStreamCreate, (CUstream * s, unsigned f), (s, f))
FAILING_AS(true, cuStreamQuery, (CUstream s), (s))
FAILING(cuEventCreate, (CUevent * e, unsigned f), (e, f))
FAILING(cuEventRecord, (CUevent e, CUstream s), (e, s))
FAILING_AS(true, cuEventQuery, (CUevent e), (e))
FAILING(cuCtxRecordEvent, (CUcontext c, CUevent e), (c, e))
FAILING(cuCtxPushCurrent_v2, (CUcontext c), (c))

/* Puts them in; a call that the driver has not stays missing. */
static inline void failing_start(void)
{
	failing.real = real;
#define PUT(sym)      \
	if (real.sym) \
	real.sym = failing_##sym
	PUT(cuMemCreate);
	PUT(cuMemRelease);
	PUT(cuMemMap);
	PUT(cuMemUnmap);
	PUT(cuMemSetAccess);
	PUT(cuMemAddressReserve);
	PUT(cuMemAddressFree);
	PUT(cuMemcpyAsync);
	PUT(cuMemcpyDtoHAsync_v2);
	PUT(cuMemcpyHtoDAsync_v2);
	PUT(cuStreamCreate);
	PUT(cuStreamQuery);
	PUT(cuEventCreate);
	PUT(cuEventRecord);
	PUT(cuEventQuery);
	PUT(cuCtxRecordEvent);
	PUT(cuCtxPushCurrent_v2);
#undef PUT
}

/* Those of the next calls, counted from 1, fail with `res`. */
static inline void failing_from(unsigned first, unsigned last, CUresult res)
{
	failing.calls = 0;
	failing.first = first;
	failing.last = last;
	failing.res = res;
	failing.is_asked = false;
}

static inline void failing_none(void)
{
	failing_from(0, 0, CUDA_SUCCESS);
}
