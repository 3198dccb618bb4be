/*
 * The meters of this process, one for each device whose time is limited, and what they need of the
 * driver: markers put into streams and read, and told when streams and contexts end. core/meter.h
 * measures, core/pace.h decides; this brings them together with the driver.
 *
 * Thread safe. No lock is held across a driver call.
 */
#pragma once

#include "abi/cuda.h"
#include "core/device.h"
#include "core/marker.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Whether the gate is watched; of this process. */
extern _Atomic bool metering_on __attribute__((visibility("hidden")));

/*
 * Starts, after share_init(): watches the gate if there is anything to hold. `region` is kept, not owned.
 */
void metering_init(struct region *region);

/* True while launches are held or measured. Cheap. */
static inline bool metering_is_on(void)
{
	return atomic_load_explicit(&metering_on, memory_order_relaxed);
}

/* The meter of a device; NULL where its time was never limited in this process's life. */
struct meter *metering_of(struct dev dev);

/* What launches on this device have to keep to now. */
struct pace_terms metering_terms(struct dev dev, int64_t now_ns);

/*
 * Puts a marker behind what is in the lane's stream, which nothing captures, with an event that is made for
 * it if need be and `may_make` (drv/gpu_event.h). With `is_whole` the event is the context's: it breaks no
 * overlap of kernels and costs the device less, but waits for other streams too.
 */
void metering_mark(struct meter *meter, struct lane *lane, enum meter_kind kind, CUstream stream,
		   uint64_t context, struct means_entry *work, bool may_make, bool is_whole);

/* A context in which the calling thread launches something, perhaps for the first time. */
void metering_add_context(uint64_t context);

/*
 * After something was measured: where it took so much more than predicted that the tenant owes, nobody
 * goes on with what was granted before.
 */
void metering_check_debt(struct meter *meter);

/* Reads what markers have ended. */
void metering_read(struct meter *meter);

/* As that for all meters, if nobody did within the last `age_ns`. */
void metering_read_all(int64_t age_ns);

/* The monitor is told of a thread's first launch at once. */
void metering_launched_first(void);

/*
 * Others wait for what this process launches from now on, or not any more (pace_await()): who is
 * held looks again.
 */
void metering_await(bool is_awaited);

/* The graph ended: its handle may come again as another. */
void metering_forget_graph(CUgraphExec exec);

/* One round of the worker. How long it may sleep, ns. */
int64_t metering_tick(void);

/* Where the worker sleeps: a word of the region that a change of the limits moves and wakes, or NULL. */
const uint32_t *metering_word(void);

/* The driver is about to end a stream, or a context with all of its streams. */
void metering_end_stream(CUstream stream);
void metering_end_context(CUcontext ctx);

/*
 * Before the driver begins a capture in the stream: what is in that is marked, the capture counts
 * (drv/capture.h), and whoever has put an event into a stream meanwhile is done with it. The calling
 * thread is outside the gate.
 */
void metering_begin_capture(CUstream stream);
