/*
 * Streams: queues of work, each executed in order by a worker thread of its own.
 *
 * The legacy stream is a barrier: its work runs after all earlier work of the context's blocking
 * streams, and they run their later work after it. The driver's lock protects everything here.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi/cuda.h"
#include "cuda_turn.h"

struct cuda_capture;
struct cuda_work;

/* STREAM_GREEN is what the handle 0 means in a green context. */
enum stream_kind { STREAM_LEGACY, STREAM_PER_THREAD, STREAM_CREATED, STREAM_GREEN };

/* Which stream the handle 0 means: the form of the call that was given it. */
enum stream_default { DEFAULT_LEGACY, DEFAULT_PER_THREAD };

struct CUstream_st {
	/* constant after creation */
	struct CUctx_st *ctx;
	uint64_t id;
	enum stream_kind kind;
	unsigned flags;
	int priority;
	struct CUgreenCtx_st *green; /* constant once it is known to anybody; NULL: of none */
	/* the driver's lock */
	struct cuda_work *head, *tail;
	int queued; /* pieces of work from head to tail */
	bool has_worker, is_idle, is_closing;
	int references; /* waits that look at it */
	pthread_cond_t wake;
	struct cuda_capture *capture;
	CUstreamAttrValue window, policy;
	struct CUstream_st *next;
	/* the worker's own */
	struct cuda_turn turn;
};

/* A new stream of `ctx`, on its list. NULL when host memory is out. */
struct CUstream_st *cuda_stream_new(struct CUctx_st *ctx, unsigned flags, int priority,
				    enum stream_kind kind);

/* The nearest priority that the device has. */
int cuda_stream_priority(int priority);

/* The handle dies now; the structure when its work is done and nobody looks at it. */
void cuda_stream_delete(struct CUstream_st *stream);

/* The stream that a handle means to the calling thread; its context need not be current when it is
 * a handle of its own. */
CUresult cuda_stream_find(CUstream handle, enum stream_default form,
			  struct CUstream_st **out_stream);

/* Queues work; the stream owns it from then on, also on failure. Waits, with the lock dropped, while
 * the stream holds as much as a device's queue does. */
CUresult cuda_stream_submit(struct CUstream_st *stream, struct cuda_work *work);

/* Queues work on a stream that does not capture, however much is queued. */
CUresult cuda_stream_enqueue(struct CUstream_st *stream, struct cuda_work *work);

/* Waits until all that is now in the stream has run; for the legacy stream, also in the blocking
 * ones. Drops the lock meanwhile. */
void cuda_stream_wait(struct CUstream_st *stream);

/* The same, and answers the error of the stream's context. */
CUresult cuda_stream_finish(struct CUstream_st *stream);

/* Waits for all that is now in any stream of the context. Drops the lock meanwhile. */
void cuda_stream_drain(struct CUctx_st *ctx);

/* True when cuda_stream_wait() would not wait. */
bool cuda_stream_is_done(const struct CUstream_st *stream);

/* True when nothing is queued or running in it. */
bool cuda_stream_is_empty(const struct CUstream_st *stream);

/* Deletes all streams of a context that ends. */
void cuda_stream_delete_all(struct CUctx_st *ctx);

/* True when the legacy stream and this one wait for each other. */
bool cuda_stream_is_blocking(const struct CUstream_st *stream);

/* The code for a call that is unsafe while something captures, or CUDA_SUCCESS. A refused call
 * invalidates the captures it would have disturbed. */
CUresult cuda_stream_check_unsafe(struct CUctx_st *ctx);
