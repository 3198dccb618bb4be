/*
 * Markers and other ends: what tells the meter when work was over. core/meter.h says how they are used.
 * All of these take meter.lock for a few hundred ns; none calls the driver.
 */
#pragma once

#include "core/meter.h"

/* A marker to ask the driver about. */
struct marker_query {
	uint64_t handle;
	uint64_t stream; /* opaque */
	uint64_t number;
};

/*
 * A marker was put into the lane's stream, whose record call lasted from begin_ns to now_ns. `work` for
 * METER_AFTER. Returns its number, or 0 when there is no room: the caller drops the event, the next
 * marker does its work.
 */
uint64_t marker_put(struct meter *meter, struct lane *lane, enum meter_kind kind, uint64_t handle,
		    struct means_entry *work, int64_t begin_ns, int64_t now_ns);

/*
 * Streams with launches that no marker covers, the last of them not after before_ns: of all threads, or
 * those that `thread` itself launched. Fills up to `max` lanes and returns how many. A thread marks
 * its own before it is held, while they still run; the worker marks what is older than 200 us and may
 * be marked by a stranger.
 */
unsigned marker_tails(struct meter *meter, const struct meter_thread *thread, int64_t before_ns,
		      struct lane **out_lanes, unsigned max);

/* The oldest marker of each stream that has one; at most `max`. Returns how many. */
unsigned marker_pending(struct meter *meter, struct marker_query *out_queries, unsigned max);

/*
 * The driver's answer about the oldest marker of its stream: it ran at gpu_ns and was seen done at
 * seen_ns. True when it was still waited for; the caller may use its event again.
 */
bool marker_ended(struct meter *meter, const struct marker_query *query, int64_t gpu_ns,
		  int64_t seen_ns);

/* It has not run yet, at now_ns. */
void marker_running(struct meter *meter, const struct marker_query *query, int64_t now_ns);

/* It cannot be read. Its work is counted with the next. True when it was still waited for. */
bool marker_lost(struct meter *meter, const struct marker_query *query);

/*
 * An event in a stream of the caller's own in this context, with nothing else in it: its record call
 * lasted from begin_ns to submit_ns, it ran at gpu_ns. It tells where the context's clock stands, which the
 * program's streams do not tell while they never run dry. The worker probes each
 * context about once a millisecond while something is launched in it.
 */
void marker_probe(struct meter *meter, uint64_t context, int64_t begin_ns, int64_t submit_ns,
		  int64_t gpu_ns);

/*
 * Two events one directly behind the other, with nothing between them, ran so far apart: the least that was
 * seen is what a marker comes later than the end of the work before it.
 */
void marker_event_cost(struct meter *meter, int64_t ns);

/* How far a stream had come when the program recorded an event of its own in it. */
struct marker_point {
	struct meter_stream *stream;
	uint32_t life;
	struct replay_point point;
};

/*
 * Before the program's own record call: the caller keeps the point with the event. False for a stream in
 * which nothing was launched.
 */
bool marker_point(struct meter *meter, uint64_t stream, uint64_t context,
		  struct marker_point *out_point);

/*
 * The program waited for that event from begin_ns to now_ns and the driver said that it is done; a
 * query that said so at once has begin_ns == now_ns. The caller reads the stream's markers first.
 */
void marker_reached(struct meter *meter, const struct marker_point *point, int64_t begin_ns,
		    int64_t now_ns);

/*
 * The program waited for a stream (0: all streams of the context) from begin_ns to now_ns and the
 * driver said that it is done; a query that said so at once has begin_ns == now_ns. Only launches that
 * had returned before begin_ns are taken as ended.
 */
void marker_waited(struct meter *meter, uint64_t stream, uint64_t context, int64_t begin_ns,
		   int64_t now_ns);

/*
 * How long after one probe of a context the next is due. Where other processes use the device, seldom: it
 * turns to this one for each, and a tenth of a millisecond is lost each way.
 */
int64_t marker_probe_apart_ns(const struct meter *meter, int64_t now_ns);

/* A query of the program's said that the stream is not done; that the event of the point is not. */
void marker_unready(struct meter *meter, uint64_t stream, uint64_t context, int64_t now_ns);
void marker_point_unready(struct meter *meter, const struct marker_point *point, int64_t now_ns);

/*
 * Something comes into the stream that is not the device's work, or waits for what is not: what is launched
 * behind it gets a METER_START. A lane is returned whose launches no marker covers, for a METER_TAIL before
 * it; NULL when there is none.
 */
struct lane *marker_fence(struct meter *meter, uint64_t stream, uint64_t context);

/*
 * meter.lock held. A lane of the stream with launches that no marker covers, the last of them not
 * after before_ns; only the thread's own unless id is 0. NULL when there is none.
 */
struct lane *marker_unmarked(struct meter_stream *stream, uint64_t id, int64_t before_ns);

/* meter.lock held. The stream ends now: all of it is laid out as predicted, its markers are dropped. */
void marker_settle_all(struct meter *meter, struct meter_stream *stream, int64_t now_ns);
