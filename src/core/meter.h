/*
 * The meter: from launches and a few markers to busy GPU time. One per process and device.
 *
 * Its caller (the hooks) tells what happened and asks the driver; the meter says when a marker is
 * worth having and what an answer means. A marker is an event of the caller's in a stream; `handle` is
 * whatever the caller knows it by. All times are CLOCK_MONOTONIC ns but gpu_ns, which is the GPU's
 * time of an event in its context, on a scale that the context keeps while it lives.
 *
 *   a launch:  lane = meter_lane(); work = means_find();
 *              if (!meter_admit_fast())
 *                      while (meter_admit() != PACE_GO) sleep as it says, read markers;
 *              if (lane_wants() && meter_wants_mark()) an event, marker_put(as it says);
 *              the driver call;  now = the clock;
 *              if (meter_launched()) an event, marker_put(METER_AFTER)
 *   anywhere:  marker_pending(), and for each marker the driver's answer: marker_ended() or
 *              marker_running(). By the worker, and by a thread that is held, before it asks again.
 *   a wait:    marker_waited() after a synchronise call or a query that said "done"; spare_waited()
 *              before it, where the thread has a lane in what it waited for.
 *
 * Nothing here calls the driver. meter_launched(), meter_lane() and meter_admit_fast() take no lock in
 * the common case; all else takes meter.lock for a few hundred ns. A meter of zeros is ready
 * once `pace` is filled in.
 */
#pragma once

#include "core/clockmap.h"
#include "core/crowd.h"
#include "core/means.h"
#include "core/pace.h"
#include "core/replay.h"

#include <pthread.h>

enum {
	METER_STREAMS = 256,
	METER_CONTEXTS = 256,
	METER_MARKERS = 16, /* under way in one stream */
	METER_THREAD_LANES = 8,
};

enum meter_kind {
	METER_BEFORE, /* directly before a launch */
	METER_AFTER,  /* directly after it */
	METER_TAIL,   /* behind what was launched some time ago */
	METER_RESUME, /* behind work that does not count, whose begin has a METER_TAIL */
	METER_START, /* directly before a launch with nothing unmarked before it, which began then */
};

struct meter_marker {
	uint64_t handle; /* 0: lost */
	enum meter_kind kind;
	int64_t begin_ns, submit_ns; /* of its record call */
	struct means_entry *work;    /* METER_AFTER: what was launched */
	struct replay_point point;
};

struct meter_stream {
	uint64_t key; /* 0: free */
	uint64_t context;
	uint32_t life; /* raised each time the place is given to another stream */
	bool is_end_exact;
	int64_t end_ns;         /* up to here everything was measured */
	uint32_t settled;       /* launches that were measured */
	uint32_t settled_waits; /* of them, such as may wait */
	int64_t balance_ns;     /* core/replay.h */
	bool is_dry;           /* the marker that was read last is a METER_START, and found it so */
	bool has_before;       /* the marker that was read last is a METER_BEFORE */
	int64_t before_gpu_ns; /* and ran then */
	uint32_t before_launches;
	int64_t running_ns; /* up to here work that has not ended is debited */
	int64_t unfinished_ns;
	int64_t unready_ns; /* a query of the program's found it busy then */
	uint64_t first;     /* markers under way: numbers first..next-1 */
	uint64_t next;
	struct meter_marker markers[METER_MARKERS];
	struct lane lanes[REPLAY_LANES];
};

struct meter_context {
	uint64_t key;
	struct clockmap clock;
};

struct meter {
	struct pace pace; /* constant */
	pthread_mutex_t lock;
	uint32_t share_pct; /* atomic: of the terms seen last */
	uint32_t is_tight;  /* atomic: the limit is near, measure more often */
	int64_t held_ns;    /* atomic: when a thread was held last */
	struct crowd crowd;
	int64_t wake_ns; /* lock: from an end to the return of a call that waited for it */
	int64_t event_ns; /* lock: what an event takes the device; it runs that much after the work */
	bool is_linked;   /* atomic: its kernels may wait for kernels elsewhere; never cleared */
	struct means means;
	struct meter_context contexts[METER_CONTEXTS]; /* lock */
	unsigned used;                                 /* lock: streams 0..used-1 have been taken */
	struct meter_stream streams[METER_STREAMS];    /* lock, but for the lanes */
};

/* A thread's part, in its own storage, zero at first. Its thread's alone but for `attention`. */
struct meter_thread {
	int64_t held_from_ns; /* 0: not held */
	int64_t grant_ns;     /* predicted time that it may still submit */
	int64_t cost_ns;      /* of the launch admitted last */
	uint32_t attention;   /* atomic: somebody wants it to ask again */
	uint32_t random;
	bool may_wait; /* the launch that was admitted last by the slow way */
	uint64_t id;   /* not 0 */
	struct lane *lanes[METER_THREAD_LANES];
	struct lane *asked; /* of its last launch that was to be measured; or NULL */
	struct pace_hold hold;
};

/* meter.lock held. What is known of a context; made if wanted, NULL when there is none or no room. */
struct meter_context *meter_context(struct meter *meter, uint64_t key, bool is_wanted);

/* meter.lock held. A stream; made if wanted, NULL when there is none or no room. */
struct meter_stream *meter_stream(struct meter *meter, uint64_t key, uint64_t context,
				  bool is_wanted);

/* The stream that the lane is of, or was. */
static inline struct meter_stream *meter_stream_of(struct meter *meter, const struct lane *lane)
{
	size_t offset = (size_t)((const char *)lane - (const char *)meter->streams);

	return &meter->streams[offset / sizeof(struct meter_stream)];
}

/* The slow side of meter_lane(). */
struct lane *meter_lane_slow(struct meter *meter, struct meter_thread *thread, uint64_t stream,
			     uint64_t context);

/* The calling thread's lane in a stream if it has been asked for lately; else NULL. */
static inline struct lane *meter_lane_known(const struct meter_thread *thread, uint64_t stream)
{
	struct lane *lane = thread->lanes[(stream ^ stream >> 7) % METER_THREAD_LANES];

	if (__builtin_expect(lane && __atomic_load_n(&lane->key, __ATOMIC_RELAXED) == stream &&
				     __atomic_load_n(&lane->owner, __ATOMIC_RELAXED) == thread->id,
			     1))
		return lane;
	return NULL;
}

/*
 * The calling thread's lane in a stream. `stream` names one stream of this device for ever (not the
 * handle, which is reused), and has not both of its top bits; 0 is none. NULL when there is no room
 * (256 streams, 4 threads in one): the launch is not measured then, and meter_unmeasured() is called after it.
 */
static inline struct lane *meter_lane(struct meter *meter, struct meter_thread *thread,
				      uint64_t stream, uint64_t context)
{
	struct lane *lane = meter_lane_known(thread, stream);

	return __builtin_expect(lane != NULL, 1) ? lane :
						   meter_lane_slow(meter, thread, stream, context);
}

/*
 * Takes a launch of this kind from what the thread may submit. False: meter_admit() has to be asked.
 * Before the driver call, for work that neither is captured nor goes without a limit.
 */
static inline bool meter_admit_fast(struct meter_thread *thread, const struct means_entry *work)
{
	int64_t cost_ns = means_cost_ns(work);

	if (__builtin_expect(cost_ns > thread->grant_ns || !means_is_known(work) ||
				     means_may_wait(work) ||
				     __atomic_load_n(&thread->attention, __ATOMIC_RELAXED),
			     0))
		return false;
	thread->grant_ns -= cost_ns;
	thread->cost_ns = cost_ns;
	return true;
}

/*
 * May the launch go? PACE_GO, or why not, and *out_until_ns: sleep until then or until
 * pace_device.change moves; then read the markers and ask again, with nothing launched in between.
 * The lane may be NULL.
 */
enum pace_reason meter_admit(struct meter *meter, struct meter_thread *thread, struct lane *lane,
			     struct means_entry *work, const struct pace_terms *terms,
			     int64_t now_ns, int64_t *out_until_ns);

/* The context of the lane's stream; 0 when it was dropped. */
uint64_t meter_context_of(struct meter *meter, const struct lane *lane);

/*
 * Whether an event of the whole context tells of the lane's stream what one in the stream would: no
 * other stream of the context has work that was not measured; and where other processes use the device,
 * something was launched in this one since its last marker. There a card was seen to give an event of the
 * context behind nothing new the time of the one before it. An event of the stream takes the device 2 us.
 */
bool meter_is_single(struct meter *meter, const struct lane *lane, int64_t now_ns);

/*
 * Directly before the driver call of a launch of this kind, where lane_wants(): whether a marker goes
 * before it, and which.
 */
bool meter_wants_mark(struct meter *meter, struct meter_thread *thread, struct lane *lane,
		      struct means_entry *work, int64_t now_ns, enum meter_kind *out_kind);

/* The launch that was admitted did not take place. */
void meter_cancel(struct meter *meter, struct meter_thread *thread);

/* The launch that was admitted took place, but cannot be measured: it counts as predicted. */
void meter_unmeasured(struct meter *meter, struct meter_thread *thread, int64_t now_ns);

/* The slow side of meter_launched(). */
bool meter_look(struct meter *meter, struct meter_thread *thread, struct lane *lane,
		int64_t now_ns);

/*
 * The driver call of the admitted launch has returned, at now_ns. True: a METER_AFTER is wanted. A
 * caller that must not put a marker there (a successor may overlap) leaves it out.
 */
static inline bool meter_launched(struct meter *meter, struct meter_thread *thread,
				  struct lane *lane, int64_t now_ns)
{
	lane_launched(lane, thread->cost_ns, now_ns);
	if (__builtin_expect(now_ns < lane->due_ns && !lane->wants_pair, 1))
		return false;
	return meter_look(meter, thread, lane, now_ns);
}

/*
 * Whether a wait that ended at now_ns for what is in the lane's stream (any lane of it) tells too
 * little to be entered: the limit is not near, the stream was measured a moment ago, and what was
 * launched since is laid out by the next end as it was launched. A wait costs some 1500
 * instructions. Takes no lock.
 */
bool meter_wait_is_spare(const struct meter *meter, const struct lane *lane, int64_t begin_ns,
			 int64_t now_ns);

/* The context is over, with all its streams; what was not measured counts as predicted. */
void meter_drop(struct meter *meter, uint64_t context, int64_t now_ns);

/*
 * meter.lock held. As that for one stream, whose place is another's then (core/ended.h says when).
 * What its thread still has of it matches no key.
 */
void meter_drop_stream(struct meter *meter, struct meter_stream *stream, int64_t now_ns);

/* The thread ends: its lanes are free for others, what it may still submit is given back. */
void meter_thread_end(struct meter *meter, struct meter_thread *thread);
