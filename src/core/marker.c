#include "core/marker.h"

#include "base/clock.h"
#include "core/ended.h"
#include "core/late.h"
#include "shm/busy_ring.h"

/* What an event takes at most; more than this is not the event's alone. */
#define EVENT_MOST_NS (5 * NSEC_PER_USEC)
/* A marker that ran no later than this after it could have found its stream idle. */
#define IDLE_SLACK_NS INT64_C(1500)
/* Put so long after the launch, the thread was put off in between. */
#define LATE_AFTER_NS (20 * NSEC_PER_USEC)
/* A wait that returned later than that after the end says nothing of how late it usually is. */
#define WAKE_MOST_NS (50 * NSEC_PER_USEC)
/* Work that runs longer is debited while it runs, this much at a time. */
#define TICK_NS (10 * NSEC_PER_MSEC)
/* A call that waited longer than this returned because the work ended. */
#define WAITED_NS (2 * NSEC_PER_USEC)
/* A query that said "not yet" so shortly before tells when the work ended. */
#define POLLED_NS (20 * NSEC_PER_USEC)
/* What ends so soon after a launch was let through may have waited for that. */
#define LET_SPAN_NS (5 * NSEC_PER_MSEC)
/* Events read in steps of half a microsecond: a launch takes that at least. */
#define SAMPLE_LEAST_NS INT64_C(500)
/* So long after a launch was held launches get their markers, where other processes were seen. */
#define HELD_NS (100 * NSEC_PER_MSEC)
/* A start that runs so long after it was put waited for more than another process's turn or two. */
#define WAITED_START_NS (5 * NSEC_PER_MSEC)
/* A clock that is off by more than that is no longer, or not yet, of use. */
#define CLOCK_SLACK_NS (50 * NSEC_PER_USEC)
/*
 * Behind a METER_START that found its stream idle the launch begins so long after it: 0.5 to 6
 * us, mostly 4.3, on an H200. Behind other work it begins 1 to 2 us later, which is the launch's own.
 */
#define START_LEAD_NS INT64_C(2000)
/* One that runs so soon after it was put did not wait for anything in its stream. */
#define START_DRY_NS (20 * NSEC_PER_USEC)
/*
 * Between two probes of a tenant where other processes use the device; and of one of its
 * processes.
 */
#define CROWDED_PROBE_NS (20 * NSEC_PER_MSEC)
#define CROWDED_PROBE_MOST_NS (200 * NSEC_PER_MSEC)
enum { WAKE_WEIGHT = 8 };

static uint32_t share_pct(const struct meter *meter)
{
	return __atomic_load_n(&meter->share_pct, __ATOMIC_RELAXED);
}

static bool is_within(const int64_t *moment_ns, int64_t span_ns, int64_t now_ns)
{
	int64_t was_ns = __atomic_load_n(moment_ns, __ATOMIC_RELAXED);

	return was_ns > 0 && now_ns - was_ns < span_ns;
}

int64_t marker_probe_apart_ns(const struct meter *meter, int64_t now_ns)
{
	if (!crowd_is_there(&meter->crowd, now_ns))
		return 0;
	/* Held launches have a METER_START, which is a probe too. */
	if (!is_within(&meter->held_ns, HELD_NS, now_ns))
		return CROWDED_PROBE_NS;
	return clock_least_ns(clock_most_ns(pace_processes(&meter->pace), 1) * CROWDED_PROBE_NS,
			      CROWDED_PROBE_MOST_NS);
}

/* The next launch of each thread in the stream gets a METER_START. lock held. */
static void ask_start(struct meter_stream *stream)
{
	for (unsigned i = 0; i < REPLAY_LANES; i++)
		__atomic_store_n(&stream->lanes[i].wants_start, 1, __ATOMIC_RELAXED);
}

/*
 * What is in the stream has its end. Where launches are held and other processes use the device,
 * the next gets a marker before it: the device runs one process at a time and takes a tenth of a
 * millisecond to go to another, and what a launch waits for that is not its time. lock held.
 */
static void want_start(struct meter *meter, struct meter_stream *stream, int64_t now_ns)
{
	if (is_within(&meter->held_ns, HELD_NS, now_ns) && crowd_is_there(&meter->crowd, now_ns))
		ask_start(stream);
}

/* How far the lanes have come. lock held. */
static void take_point(struct meter_stream *stream, struct replay_point *out)
{
	out->last_ns = 0;
	out->launches = 0;
	out->waits = 0;
	for (unsigned i = 0; i < REPLAY_LANES; i++) {
		struct lane *lane = &stream->lanes[i];

		/* Acquire: the starts and the time of what the sum covers. */
		out->cost_ns[i] = __atomic_load_n(&lane->cost_ns, __ATOMIC_ACQUIRE);
		out->last_ns = clock_most_ns(out->last_ns,
					     __atomic_load_n(&lane->last_ns, __ATOMIC_RELAXED));
		out->waits += __atomic_load_n(&lane->waits, __ATOMIC_RELAXED);
		out->launches += __atomic_load_n(&lane->launches, __ATOMIC_RELAXED);
	}
}

static bool has_unmeasured(const struct meter_stream *stream, const struct replay_point *point)
{
	for (unsigned i = 0; i < REPLAY_LANES; i++)
		if (point->cost_ns[i] > stream->lanes[i].done_ns)
			return true;
	return false;
}

uint64_t marker_put(struct meter *meter, struct lane *lane, enum meter_kind kind, uint64_t handle,
		    struct means_entry *work, int64_t begin_ns, int64_t now_ns)
{
	struct meter_stream *stream = meter_stream_of(meter, lane);
	struct meter_marker *marker;
	uint64_t number = 0;

	pthread_mutex_lock(&meter->lock);
	/* A stream that was dropped meanwhile has no lanes any more. */
	if (handle && stream->key && stream->key == lane->key &&
	    stream->next - stream->first < METER_MARKERS) {
		marker = &stream->markers[stream->next % METER_MARKERS];
		*marker = (struct meter_marker){ .handle = handle, .kind = kind, .work = work };
		marker->begin_ns = begin_ns;
		marker->submit_ns = now_ns;
		take_point(stream, &marker->point);
		for (unsigned i = 0; i < REPLAY_LANES; i++)
			stream->lanes[i].marked = __atomic_load_n(&stream->lanes[i].launches,
								  __ATOMIC_RELAXED);
		number = ++stream->next;
		if (kind == METER_TAIL || kind == METER_AFTER)
			want_start(meter, stream, now_ns);
	}
	pthread_mutex_unlock(&meter->lock);
	return number;
}

static bool is_unmarked(const struct lane *lane)
{
	return __atomic_load_n(&lane->launches, __ATOMIC_ACQUIRE) != lane->marked &&
	       __atomic_load_n(&lane->cost_ns, __ATOMIC_ACQUIRE) > lane->done_ns;
}

struct lane *marker_unmarked(struct meter_stream *stream, uint64_t id, int64_t before_ns)
{
	for (unsigned i = 0; stream->key && i < REPLAY_LANES; i++) {
		struct lane *lane = &stream->lanes[i];

		if (is_unmarked(lane) && (id == 0 || lane->owner == id) &&
		    __atomic_load_n(&lane->last_ns, __ATOMIC_RELAXED) <= before_ns)
			return lane;
	}
	return NULL;
}

unsigned marker_tails(struct meter *meter, const struct meter_thread *thread, int64_t before_ns,
		      struct lane **out_lanes, unsigned max)
{
	uint64_t id = thread ? thread->id : 0;
	unsigned n = 0;

	pthread_mutex_lock(&meter->lock);
	for (unsigned i = 0; i < meter->used && n < max; i++) {
		struct lane *lane = marker_unmarked(&meter->streams[i], id, before_ns);

		if (lane)
			out_lanes[n++] = lane;
	}
	pthread_mutex_unlock(&meter->lock);
	return n;
}

unsigned marker_pending(struct meter *meter, struct marker_query *out_queries, unsigned max)
{
	unsigned n = 0;

	pthread_mutex_lock(&meter->lock);
	for (unsigned i = 0; i < meter->used && n < max; i++) {
		struct meter_stream *stream = &meter->streams[i];

		if (!stream->key || stream->first == stream->next)
			continue;
		out_queries[n].handle = stream->markers[stream->first % METER_MARKERS].handle;
		out_queries[n].stream = i;
		out_queries[n++].number = stream->first + 1;
	}
	pthread_mutex_unlock(&meter->lock);
	return n;
}

/* The oldest marker of the stream if that is what was asked about. lock held. */
static struct meter_marker *find_marker(struct meter *meter, const struct marker_query *query,
					struct meter_stream **out_stream)
{
	struct meter_stream *stream = &meter->streams[query->stream % METER_STREAMS];

	if (stream->first == stream->next || stream->first + 1 != query->number)
		return NULL;
	*out_stream = stream;
	return &stream->markers[stream->first % METER_MARKERS];
}

/* Nothing of the tenant but this stream has work that was not measured. lock held. */
static bool is_alone(struct meter *meter, const struct meter_stream *stream, int64_t now_ns)
{
	if (!pace_is_alone(&meter->pace)) {
		crowd_see(&meter->crowd, now_ns);
		return false;
	}
	for (unsigned i = 0; i < meter->used; i++) {
		const struct meter_stream *other = &meter->streams[i];

		for (unsigned j = 0; other != stream && j < REPLAY_LANES; j++)
			if (__atomic_load_n(&other->lanes[j].cost_ns, __ATOMIC_RELAXED) !=
			    other->lanes[j].done_ns)
				return false;
	}
	return true;
}

/* When the tenant was last let off a turn of others, in any stream of any process; 0: never. */
static int64_t lost_ns(const struct meter *meter)
{
	return (int64_t)__atomic_load_n(&meter->pace.device->lost_ns, __ATOMIC_RELAXED);
}

/*
 * Everything up to `point` had ended at end_ns: lays it out, debits what is newly busy, and then
 * takes off what was predicted for it; in that order, so that the bucket keeps what it was filled
 * with meanwhile. lock held.
 */
static void settle(struct meter *meter, struct meter_stream *stream,
		   const struct replay_point *point, bool is_exact, int64_t end_ns, int64_t now_ns)
{
	struct replay replay = { .lanes = stream->lanes,
				 .ring = &meter->pace.device->ring,
				 .from_ns = stream->end_ns,
				 .is_alone = is_alone(meter, stream, now_ns),
				 .is_crowded = crowd_is_there(&meter->crowd, now_ns),
				 .is_dry = stream->is_dry,
				 .turn_ns = lost_ns(meter) };
	struct replay_result done;
	int64_t forgiven_ns;

	done = replay_run(&replay, point, is_exact, end_ns, point->launches - stream->settled,
			  &stream->balance_ns);
	stream->settled = point->launches;
	stream->end_ns = done.end_ns;
	if (done.has_waited)
		__atomic_store_n(&meter->pace.device->lost_ns, (uint64_t)end_ns, __ATOMIC_RELAXED);
	if (done.cost_ns > 0)
		stream->is_dry = false;
	/* What others made busy meanwhile says nothing of streams side by side. */
	if (done.cost_ns > 0 && pace_is_alone(&meter->pace))
		pace_overlap(&meter->pace, done.busy_ns + stream->unfinished_ns, done.cost_ns);
	pace_debit(&meter->pace, share_pct(meter), done.busy_ns, now_ns);
	/* Behind the debit: late before it would seem to be more than there is to pay. */
	forgiven_ns = late_settle(&meter->pace, done.busy_ns + stream->unfinished_ns, done.cost_ns,
				  point->waits != stream->settled_waits);
	pace_forgive(&meter->pace, share_pct(meter), forgiven_ns, now_ns);
	stream->settled_waits = point->waits;
	pace_settle(&meter->pace, done.cost_ns);
	pace_unfinished(&meter->pace, -stream->unfinished_ns);
	stream->unfinished_ns = 0;
	stream->running_ns = 0;
	for (unsigned i = 0; i < REPLAY_LANES; i++) {
		struct lane *lane = &stream->lanes[i];

		__atomic_store_n(&lane->known_cost_ns, lane->done_ns, __ATOMIC_RELAXED);
		__atomic_store_n(&lane->known_end_ns, stream->end_ns, __ATOMIC_RELAXED);
	}
	if (done.cost_ns > 0)
		pace_progress(&meter->pace, now_ns);
}

void marker_probe(struct meter *meter, uint64_t context, int64_t begin_ns, int64_t submit_ns,
		  int64_t gpu_ns)
{
	struct meter_context *at;

	pthread_mutex_lock(&meter->lock);
	at = meter_context(meter, context, false);
	if (at) {
		clockmap_probe(&at->clock, gpu_ns, begin_ns, submit_ns);
		crowd_probe(&meter->crowd, clockmap_cpu_ns(&at->clock, gpu_ns) - submit_ns,
			    submit_ns);
	}
	pthread_mutex_unlock(&meter->lock);
}

void marker_event_cost(struct meter *meter, int64_t ns)
{
	pthread_mutex_lock(&meter->lock);
	if (ns > 0 && ns <= EVENT_MOST_NS && (meter->event_ns == 0 || ns < meter->event_ns))
		meter->event_ns = ns;
	pthread_mutex_unlock(&meter->lock);
}

/* The launch between this marker and the METER_BEFORE before it took so long. lock held. */
static void learn_launch(struct meter *meter, struct meter_stream *stream,
			 const struct meter_marker *marker, const struct clockmap *clock,
			 bool is_exact, int64_t at_ns, int64_t now_ns)
{
	int64_t submit_ns = marker->point.last_ns, before_ns, start_ns, ns;

	if (!marker->work)
		return;
	if (!stream->has_before || marker->point.launches != stream->before_launches + 1) {
		__atomic_store_n(&marker->work->pending_ns, 0, __ATOMIC_RELAXED);
		return;
	}
	/* By the clock as it is known now: both ends of the launch by the same. */
	before_ns = clockmap_cpu_ns(clock, stream->before_gpu_ns);
	start_ns = submit_ns;
	if (pace_is_alone(&meter->pace))
		start_ns += replay_lead_ns(at_ns - submit_ns);
	start_ns = clock_most_ns(start_ns, before_ns);
	/* It ended before it was launched: the clock is not known yet. */
	if (at_ns < submit_ns - CLOCK_SLACK_NS) {
		__atomic_store_n(&marker->work->pending_ns, 0, __ATOMIC_RELAXED);
		return;
	}
	if (pace_has_let(&meter->pace, start_ns) &&
	    pace_has_let(&meter->pace, clock_least_ns(at_ns, now_ns) - LET_SPAN_NS)) {
		__atomic_store_n(&marker->work->pending_ns, 0, __ATOMIC_RELAXED);
		return;
	}
	ns = clock_most_ns(at_ns - start_ns, SAMPLE_LEAST_NS);
	if (is_exact)
		means_learn(marker->work, ns);
	else
		means_learn_bound(marker->work, ns);
}

/*
 * Whether all had ended just when the marker ran: one that came late and ran at once says only that
 * it had by then. A METER_AFTER comes with its launch, unless the thread was put off.
 */
static bool is_end_exact(const struct meter_marker *marker, int64_t at_ns)
{
	if (marker->kind == METER_START)
		return false;
	return at_ns > marker->submit_ns + IDLE_SLACK_NS ||
	       (marker->kind == METER_AFTER &&
		marker->submit_ns - marker->point.last_ns <= LATE_AFTER_NS);
}

/*
 * A METER_START that ran when it was put: the launch behind it comes so much later that the device may
 * have turned to others meanwhile, whatever was predicted of what lay before.
 */
static bool is_start_dry(const struct meter_marker *marker, int64_t at_ns)
{
	return marker->kind == METER_START && at_ns - marker->submit_ns < START_DRY_NS;
}

/* lock held. */
static void read_marker(struct meter *meter, struct meter_stream *stream,
			const struct meter_marker *marker, const struct clockmap *clock,
			int64_t gpu_ns, int64_t seen_ns)
{
	int64_t at_ns = clock_least_ns(clockmap_cpu_ns(clock, gpu_ns) - meter->event_ns, seen_ns);
	bool is_exact = is_end_exact(marker, at_ns);
	bool was_idle = !has_unmeasured(stream, &marker->point) &&
			stream->end_ns < at_ns - IDLE_SLACK_NS;

	settle(meter, stream, &marker->point, is_exact, at_ns, seen_ns);
	stream->is_end_exact = is_exact;
	stream->is_dry = is_start_dry(marker, at_ns);
	if (marker->kind == METER_AFTER)
		learn_launch(meter, stream, marker, clock, is_exact, at_ns, seen_ns);
	stream->has_before = marker->kind == METER_BEFORE || marker->kind == METER_START;
	stream->before_gpu_ns = gpu_ns;
	stream->before_launches = marker->point.launches;
	if (marker->kind == METER_RESUME)
		stream->end_ns = clock_most_ns(stream->end_ns, at_ns);
	if (marker->kind == METER_START)
		stream->end_ns = clock_most_ns(stream->end_ns,
					       at_ns + (was_idle ? START_LEAD_NS : 0));
}

/*
 * It was put into a stream whose work had ended, as a probe is, and waited for nothing else: the
 * first of a clock has to be a real one, and what the stream waits for that is no work may take
 * seconds. lock held.
 */
static bool is_probe(const struct meter_stream *stream, const struct meter_marker *marker,
		     const struct clockmap *clock, int64_t gpu_ns)
{
	return marker->kind == METER_START && clock->is_probed &&
	       !has_unmeasured(stream, &marker->point) && stream->end_ns < marker->submit_ns &&
	       clockmap_cpu_ns(clock, gpu_ns) - marker->submit_ns < WAITED_START_NS;
}

bool marker_ended(struct meter *meter, const struct marker_query *query, int64_t gpu_ns,
		  int64_t seen_ns)
{
	struct meter_marker *marker;
	struct meter_context *context;
	struct meter_stream *stream;
	bool is_known;

	pthread_mutex_lock(&meter->lock);
	marker = find_marker(meter, query, &stream);
	is_known = marker != NULL;
	if (marker) {
		context = meter_context(meter, stream->context, false);
		if (context) {
			clockmap_bound(&context->clock, gpu_ns, marker->submit_ns, seen_ns);
			if (is_probe(stream, marker, &context->clock, gpu_ns))
				clockmap_probe(&context->clock, gpu_ns, marker->begin_ns,
					       marker->submit_ns);
			read_marker(meter, stream, marker, &context->clock, gpu_ns, seen_ns);
		}
		stream->first++;
		ended_look(meter, stream, seen_ns);
	}
	pthread_mutex_unlock(&meter->lock);
	return is_known;
}

/*
 * A launch that the marker covers has not ended. If it could start (what came before it was
 * measured) and runs long, it is debited up to now.
 */
void marker_running(struct meter *meter, const struct marker_query *query, int64_t now_ns)
{
	struct meter_marker *marker;
	struct meter_stream *stream;
	int64_t from_ns, busy_ns;

	pthread_mutex_lock(&meter->lock);
	marker = find_marker(meter, query, &stream);
	/* What may wait is debited when it has ended: who dies waiting leaves no debt for that. */
	if (marker && marker->kind != METER_RESUME && has_unmeasured(stream, &marker->point) &&
	    marker->point.waits == stream->settled_waits) {
		from_ns = clock_most_ns(stream->end_ns, marker->point.last_ns);
		from_ns = clock_most_ns(from_ns, stream->running_ns);
		if (now_ns - from_ns >= TICK_NS) {
			busy_ns = busy_ring_set(&meter->pace.device->ring, from_ns, now_ns);
			pace_unfinished(&meter->pace, busy_ns);
			pace_debit(&meter->pace, share_pct(meter), busy_ns, now_ns);
			stream->unfinished_ns += busy_ns;
			stream->running_ns = now_ns;
		}
	}
	pthread_mutex_unlock(&meter->lock);
}

bool marker_lost(struct meter *meter, const struct marker_query *query)
{
	struct meter_marker *marker;
	struct meter_stream *stream;
	bool is_known;

	pthread_mutex_lock(&meter->lock);
	marker = find_marker(meter, query, &stream);
	is_known = marker != NULL;
	if (marker) {
		if (marker->work)
			__atomic_store_n(&marker->work->pending_ns, 0, __ATOMIC_RELAXED);
		stream->has_before = false;
		/* If it was the last, its launches count as unmarked again. */
		if (stream->first + 1 == stream->next)
			for (unsigned i = 0; i < REPLAY_LANES; i++)
				stream->lanes[i].marked--;
		stream->first++;
		ended_look(meter, stream, clock_now_ns());
	}
	pthread_mutex_unlock(&meter->lock);
	return is_known;
}

/* A wait of the program's that ended at now_ns: the exact end, or a bound of it. lock held. */
static void reach(struct meter *meter, struct meter_stream *stream, struct replay_point *point,
		  int64_t begin_ns, int64_t now_ns)
{
	bool has_waited = now_ns - begin_ns > WAITED_NS;
	bool is_polled = stream->unready_ns > 0 && now_ns - stream->unready_ns < POLLED_NS;

	if (has_unmeasured(stream, point)) {
		settle(meter, stream, point, has_waited || is_polled,
		       has_waited ? now_ns - meter->wake_ns : now_ns, now_ns);
		stream->is_end_exact = false;
		want_start(meter, stream, now_ns);
	} else if (has_waited && stream->is_end_exact && stream->end_ns > begin_ns) {
		int64_t wake_ns = clock_least_ns(now_ns - stream->end_ns, WAKE_MOST_NS);

		meter->wake_ns += (clock_most_ns(wake_ns, 0) - meter->wake_ns) / WAKE_WEIGHT;
	}
	stream->unready_ns = 0;
}

bool marker_point(struct meter *meter, uint64_t stream, uint64_t context,
		  struct marker_point *out_point)
{
	struct meter_stream *at;

	pthread_mutex_lock(&meter->lock);
	at = meter_stream(meter, stream, context, false);
	if (at) {
		out_point->stream = at;
		out_point->life = at->life;
		take_point(at, &out_point->point);
	}
	pthread_mutex_unlock(&meter->lock);
	return at != NULL;
}

struct lane *marker_fence(struct meter *meter, uint64_t stream, uint64_t context)
{
	struct lane *lane = NULL;
	struct meter_stream *at;

	pthread_mutex_lock(&meter->lock);
	at = meter_stream(meter, stream, context, true);
	if (at) {
		ask_start(at);
		lane = marker_unmarked(at, 0, INT64_MAX);
	}
	pthread_mutex_unlock(&meter->lock);
	return lane;
}

void marker_reached(struct meter *meter, const struct marker_point *point, int64_t begin_ns,
		    int64_t now_ns)
{
	struct replay_point reached = point->point;

	pthread_mutex_lock(&meter->lock);
	if (point->stream->life == point->life)
		reach(meter, point->stream, &reached, begin_ns, now_ns);
	pthread_mutex_unlock(&meter->lock);
}

void marker_waited(struct meter *meter, uint64_t stream, uint64_t context, int64_t begin_ns,
		   int64_t now_ns)
{
	struct replay_point point;

	pthread_mutex_lock(&meter->lock);
	for (unsigned i = 0; i < meter->used; i++) {
		struct meter_stream *at = &meter->streams[i];

		if (!at->key || at->context != context || (stream && at->key != stream))
			continue;
		take_point(at, &point);
		/*
		 * A launch that came while it waited may still run; all of them stay to the next
		 * end.
		 */
		if (point.last_ns <= begin_ns)
			reach(meter, at, &point, begin_ns, now_ns);
	}
	pthread_mutex_unlock(&meter->lock);
}

void marker_unready(struct meter *meter, uint64_t stream, uint64_t context, int64_t now_ns)
{
	struct meter_stream *at;

	pthread_mutex_lock(&meter->lock);
	at = meter_stream(meter, stream, context, false);
	if (at)
		at->unready_ns = now_ns;
	pthread_mutex_unlock(&meter->lock);
}

void marker_point_unready(struct meter *meter, const struct marker_point *point, int64_t now_ns)
{
	pthread_mutex_lock(&meter->lock);
	if (point->stream->life == point->life)
		point->stream->unready_ns = now_ns;
	pthread_mutex_unlock(&meter->lock);
}

void marker_settle_all(struct meter *meter, struct meter_stream *stream, int64_t now_ns)
{
	struct replay_point point;

	take_point(stream, &point);
	settle(meter, stream, &point, false, now_ns, now_ns);
	for (; stream->first != stream->next; stream->first++) {
		struct means_entry *work = stream->markers[stream->first % METER_MARKERS].work;

		if (work)
			__atomic_store_n(&work->pending_ns, 0, __ATOMIC_RELAXED);
	}
	stream->has_before = false;
	stream->is_dry = false;
}
