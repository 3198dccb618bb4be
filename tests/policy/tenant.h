/*
 * Programs of one tenant in the simulation: what the hooks and the worker would do, with the real
 * meter and pacing, on a simulated GPU. Each process has a GPU clock of its own that drifts.
 */
#pragma once

#include "core/marker.h"

#include "gpu.h"

enum { TENANT_THREADS = 8, TENANT_DEPTH = 1024, TENANT_KINDS = 16 };

/* How long a launch runs. */
enum tenant_length {
	TENANT_FIXED,
	TENANT_MIXED, /* several functions, from a quarter to four times as long */
	TENANT_RARE,  /* one function, of which one in fifty takes five times as long */
	TENANT_TAIL,  /* one function whose time has a heavy tail */
};

/* What every thread of the tenant does over and over. */
struct tenant_program {
	int processes;
	int threads; /* of each process */
	int streams; /* of each thread */
	int depth;   /* launches in flight in a stream; 1: a synchronise after each */
	enum tenant_length length;
	int64_t kernel_ns;
	int64_t launch_ns; /* of a driver call */
	int64_t think_ns;  /* the program's own work before each launch */
	int64_t burst_ns;  /* if not 0: works so long, and then rests */
	int64_t rest_ns;
	bool is_blind;   /* waits for nothing, ever, but the driver's queue of 1024 */
	bool has_events; /* waits for an event of its own behind each launch, not for the stream */
	double late;     /* waits that return a millisecond late: the thread was put off */
	bool is_serial;  /* kernels fill the GPU */
	bool is_spin;    /* kernels end by the clock */
	bool is_linked;  /* its kernels may wait for kernels elsewhere */
	double loss;     /* markers that are lost */
	int first;       /* number of its first process on the GPU */
	struct pace_device
		*devices; /* of the whole tenant, this is the first `devices_used`; NULL: alone */
	unsigned device, device_count;
};

struct tenant;

struct tenant_thread {
	struct tenant *tenant;
	struct tenant_process *process;
	struct meter_thread meter;
	struct gpu_stream *streams[GPU_STREAMS];
	uint64_t submitted[GPU_STREAMS], ended[GPU_STREAMS];
	struct marker_point points[GPU_STREAMS][TENANT_DEPTH];
	int at; /* stream of the next launch */
	int kind;
	int64_t kernel_ns;
	int64_t wait_begin_ns; /* 0: it waits for nothing */
	bool is_waking;
	int64_t burst_end_ns;
	int64_t longest_hold_ns, hold_begin_ns;
	uint64_t launches;
	bool is_stopped;
};

struct tenant_process {
	struct tenant *tenant;
	int index;
	struct meter *meter;
	struct tenant_thread *threads;
	double clock_rate;
	int64_t clock_offset_ns;
	struct gpu_stream *own; /* for probes of the clock */
	int64_t probe_ns;       /* submission of the one under way; 0 none */
	int64_t probe_seen_ns;  /* and when its thread read the time */
	int64_t probe_ran_ns;
	bool is_probing; /* one is under way */
	bool is_dead;
	uint64_t markers, lost;
};

struct sparse;

struct tenant {
	struct queue *queue;
	struct gpu *gpu;
	struct tenant_program program;
	struct pace_terms terms;
	struct pace_device *device;
	struct tenant_process processes[GPU_PROCESSES];
	struct sparse *sparse; /* NULL: not compared */
	int64_t offered_ns;    /* time of all launches so far */
};

/* Starts the program at the queue's time. */
void tenant_init(struct tenant *tenant, struct gpu *gpu, const struct tenant_program *program,
		 uint32_t share_pct);
void tenant_free(struct tenant *tenant);

/* Changes the limit and wakes whoever is held. */
void tenant_limit(struct tenant *tenant, uint32_t share_pct);

/* Kills a process with what it has queued; the slot is reaped reap_ns later. */
void tenant_kill(struct tenant *tenant, int process, int64_t reap_ns);

uint64_t tenant_launches(const struct tenant *tenant);

/* A thread that does nothing by itself: launches that a test makes. */
struct tenant_thread *tenant_thread(struct tenant *tenant, int process, int thread);

/*
 * One launch by that thread into its stream, as the hooks would: 0 and it is submitted, or the reason
 * and the time to ask again.
 */
enum pace_reason tenant_launch(struct tenant_thread *thread, int stream, int kind,
			       int64_t kernel_ns, int64_t *out_until_ns);

/* Reads the markers of the process, as the worker or a held thread does. */
void tenant_read(struct tenant_process *process);
