/*
 * Fences: when is all work done that this process has given its GPUs until now?
 *
 * A fence is an event in each context. From CUDA 12.5 on it is the context's own, which all its
 * streams pass and which holds none up. Before, it is one in each non-blocking stream and one in
 * the legacy stream, which waits for all others and which later work there waits for. Nothing
 * waits for a context: events are polled.
 *
 * Contexts are told here when they come and go, but for green ones, whose work the primary
 * context's event covers. Where one could not be noted no fence can be had.
 *
 * Thread safe: one turn, held across driver calls that return at once; who does not get it in time
 * is told -EAGAIN. A recorded fence belongs to one thread at a time. No call disturbs a capture.
 */
#pragma once

#include "abi/cuda.h"
#include "core/device.h"

#include <stdbool.h>
#include <stdint.h>

struct gpu_fence_event;

/* All zero: nothing is recorded, and it is done. */
struct gpu_fence {
	struct gpu_fence_event *events; /* those that were not seen done */
};

/*
 * Starts, before there is a context: fork children begin with nothing. Without it what is told here
 * is not kept.
 */
void gpu_fence_init(void);

/* True once fences were asked for in this process: a capture has to begin with the gate shut. */
bool gpu_fence_is_used(void);

/* A context that is there from now on. Known ones may be told again, which costs little. */
void gpu_fence_add_context(CUcontext ctx, struct cuda_ord ord, bool is_primary);

/* The device's primary context, which something else keeps alive: a green one does. */
void gpu_fence_add_primary(struct cuda_ord ord);

/*
 * The driver is asked to end the context: nothing is asked of it any more, and no fence is
 * recorded, until it is said what became of it. An unknown context is no harm.
 */
void gpu_fence_ending(CUcontext ctx);
void gpu_fence_ended(CUcontext ctx, bool is_gone);

/* True where streams have to be told, too: the driver has no events of whole contexts. */
bool gpu_fence_wants_streams(void);

/*
 * A stream that was created in the context, of one that is not known here too; and before it is
 * destroyed, inside the gate.
 */
void gpu_fence_add_stream(CUcontext ctx, CUstream stream, unsigned flags);
void gpu_fence_drop_stream(CUstream stream);

/*
 * Records a fence. The caller is inside the gate or has shut it. 0 with *out_fence; -EAGAIN when
 * there is a capture, or not now; -EBUSY when a context is not known here; else why an event
 * cannot be had.
 */
int gpu_fence_record(struct gpu_fence *out_fence);

/* 0 when the work before it is done (that of a context that failed or ended is), else -EAGAIN. */
int gpu_fence_poll(struct gpu_fence *fence);

/* Forgets what is not done of it. */
void gpu_fence_end(struct gpu_fence *fence);

/*
 * A living context of the device to work in, the primary one if there is one, with a number that no
 * other context of this process has; NULL: none is known. It lives until the caller leaves the
 * gate, which it has shut or is inside of.
 */
CUcontext gpu_fence_context(struct cuda_ord ord, uint64_t *out_serial);
