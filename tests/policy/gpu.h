/*
 * A GPU for the simulation: streams that run in order, kernels side by side or one by one, processes
 * that take turns in slices of 2 ms, and the truth about when it was busy.
 */
#pragma once

#include "queue.h"

enum { GPU_PROCESSES = 16, GPU_STREAMS = 80, GPU_WINDOWS = 262144 };
#define GPU_WINDOW_NS INT64_C(10000000)
#define GPU_SLICE_NS INT64_C(2000000)
#define GPU_FOREVER_NS INT64_MAX

enum gpu_kind { GPU_KERNEL, GPU_MARK, GPU_PAUSE };

struct gpu_op {
	enum gpu_kind kind;
	int64_t ready_ns; /* not before */
	int64_t left_ns;  /* still to run */
	bool is_spin;     /* it watches the clock: time goes on while others have the turn */
	/* Called when it has ended; NULL: nobody. */
	void (*ended)(void *arg, uint64_t tag);
	void *arg;
	uint64_t tag;
};

struct gpu_stream {
	struct gpu *gpu;
	int process;
	struct gpu_op *ops; /* a ring */
	unsigned first, count, room;
	bool has_begun; /* the first op is under way, or preempted */
	bool is_running;
	bool was_idle;    /* nothing but marks has run in it since it was */
	int64_t since_ns; /* is_running: since then */
};

struct gpu {
	struct queue *queue;
	bool is_serial; /* one kernel at a time; else all of the process whose turn it is */
	struct gpu_stream streams[GPU_STREAMS];
	int stream_count;
	uint32_t strangers;  /* bit n: process n is not the tenant's, and not in the truth below */
	unsigned switches;   /* so far */
	int64_t switch_ns;   /* what it takes to go from one process to another; 0 at first */
	bool has_free_marks; /* a mark needs no turn */
	int64_t lead_ns;     /* in a mark's `ended`: it was made so much earlier */
	int turn;            /* process */
	int64_t turn_end_ns;
	int64_t switch_end_ns; /* until then nothing runs */
	uint64_t plan;         /* the event that counts */
	/* The truth. */
	int busy_count;
	bool is_queue_dry;
	int64_t edge_ns; /* when busy_count became or ceased to be 0 */
	int64_t busy_ns;
	int64_t gap_ns;                  /* of it, gaps between queued kernels */
	int64_t windows_ns[GPU_WINDOWS]; /* busy in each window */
	int64_t gaps_ns[GPU_WINDOWS];    /* of it, gaps */
};

void gpu_init(struct gpu *gpu, struct queue *queue, bool is_serial);
void gpu_free(struct gpu *gpu);

/* A new stream of a process. */
struct gpu_stream *gpu_stream(struct gpu *gpu, int process);

/* Puts an op behind the stream's others. */
void gpu_submit(struct gpu_stream *stream, const struct gpu_op *op);

/* Ends the first op of the stream now: a kernel that was told to. */
void gpu_release(struct gpu_stream *stream);

/* The process is gone and all it had queued. */
void gpu_kill(struct gpu *gpu, int process);

/* Closes the account at this moment. */
void gpu_close(struct gpu *gpu);

/* Busy time in [begin_ns, end_ns), whole windows; with gaps between queued kernels or without. */
int64_t gpu_busy_ns(const struct gpu *gpu, int64_t begin_ns, int64_t end_ns);
int64_t gpu_bare_ns(const struct gpu *gpu, int64_t begin_ns, int64_t end_ns);
