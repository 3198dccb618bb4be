/*
 * Work for the GPU on its way: held while the tenant has used its share of the device's time, and
 * measured.
 *
 * A launch comes here only while the gate is watched (core/gate.h): there is a limit, the node's monitor
 * holds the tenant, or some function was not launched yet. work_begin() may sleep, outside the gate;
 * between it and work_end() lies the driver call. core/meter.h is what measures, core/pace.h what decides.
 */
#pragma once

#include "abi/cuda.h"
#include "hook/first_launch.h"

#include <stdbool.h>
#include <stdint.h>

/* What a call gives to the GPU. */
struct work_call {
	CUstream stream;
	bool is_per_thread;  /* a NULL stream is the calling thread's */
	uint64_t kind;       /* what is launched, so that its time can be told in advance; not 0 */
	CUfunction function; /* a kernel's; else NULL */
};

/* One call under way; on its caller's stack. */
struct work {
	struct work_call call;
	struct meter *meter; /* NULL: it is neither held nor measured */
	struct meter_thread *thread;
	struct lane *lane;
	struct means_entry *entry;
	uint64_t context;
	struct first_launch first;
	bool is_first; /* a function's, perhaps */
};

/* A kernel of so many blocks; a graph; a fill or a copy within a device of so many bytes. */
struct work_call work_kernel(CUstream stream, bool is_per_thread, CUfunction function,
			     uint64_t blocks);
struct work_call work_config(const CUlaunchConfig *config, bool is_per_thread, CUfunction function);
struct work_call work_launches(const CUDA_LAUNCH_PARAMS *launches, unsigned int count);
struct work_call work_graph(CUstream stream, bool is_per_thread, CUgraphExec exec);
struct work_call work_bytes(CUstream stream, bool is_per_thread, uint64_t bytes);

/*
 * Before the driver call: CUDA_SUCCESS when the work may go, and work_end() follows. Else it may not, as
 * its local memory would pass the limit.
 */
CUresult work_begin(struct work *w, struct work_call call);

/* Between them: device memory that the driver will take for it at least, as far as is known. */
static inline uint64_t work_lacks_bytes(const struct work *w)
{
	return w->is_first && w->first.growth.is_growing ? w->first.growth.bytes : 0;
}

/* After it. */
void work_end(struct work *w, CUresult res);

/* True if the stream is captured, or perhaps. */
bool work_is_captured(CUstream stream, bool is_per_thread);

/* Has every thread ask again before its next launch: the limits changed. */
void work_call_attention(void);

/* Frees what threads have left that ended. */
void work_end_threads(void);

/*
 * The program waited in a call from begin_ns (CLOCK_MONOTONIC) until now, and the driver said that the
 * stream, or with `is_context` all of the calling thread's context, is done. WORK_AT_ONCE: a query that
 * said so without waiting.
 */
#define WORK_AT_ONCE INT64_MAX
void work_waited(CUstream stream, bool is_per_thread, bool is_context, int64_t begin_ns);
