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
#include "core/marker.h"
#include "hook/again.h"
#include "hook/first_launch.h"

#include <stdbool.h>
#include <stdint.h>

/* One call under way; on its caller's stack. */
struct work {
	struct work_call call;
	struct dev dev;      /* of the meter, or as below */
	struct meter *meter; /* NULL: it is neither held nor measured */
	struct meter_thread *thread;
	struct lane *lane;
	struct means_entry *entry;
	uint64_t context;
	struct first_launch first;
	bool is_first;      /* a function's, perhaps */
	bool is_collective; /* it may wait for others', on `dev` */
};

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

/* A wait of the calling thread's for a stream. */
struct work_wait {
	struct place *place; /* where the thread has its work there */
	int64_t begin_ns;
};

/*
 * Before the program waits for a stream. False where its end would tell nothing that is not known;
 * else work_wait_over() follows when the driver said that the stream is done.
 */
bool work_wait_begin(CUstream stream, bool is_per_thread, struct work_wait *out);
void work_wait_over(const struct work_wait *wait);

/*
 * The program waited in a call from begin_ns (CLOCK_MONOTONIC) until now, and the driver said that the
 * stream, or with `is_context` all of the calling thread's context, is done. WORK_AT_ONCE: a query that
 * said so without waiting.
 */
#define WORK_AT_ONCE INT64_MAX
void work_waited(CUstream stream, bool is_per_thread, bool is_context, int64_t begin_ns);

/* The driver said that the stream is not done. */
void work_unready(CUstream stream, bool is_per_thread);

/*
 * Before the program records an event into the stream: how far that has come, and in which meter. False
 * where nothing is measured.
 */
bool work_point(CUstream stream, bool is_per_thread, struct meter **out_meter,
		struct marker_point *out_point);

/* The calling thread's lane, where a wait for the event of the point is for all of it; or NULL. */
struct lane *work_lane_at(const struct marker_point *point);

/* What measures the stream; NULL where nothing does. */
const struct meter *work_meter(CUstream stream, bool is_per_thread);

/*
 * Before something goes into the stream that is not the device's work, or waits for what is not: that time is
 * not counted.
 */
void work_fence(CUstream stream, bool is_per_thread);
