#include "core/meter.h"

#include "base/clock.h"
#include "base/random.h"
#include "core/marker.h"
#include "core/spare.h"

/* Pairs of markers are this far apart on average; where the limit is far away, a millisecond. */
#define PAIR_TIGHT_NS (500 * NSEC_PER_USEC)
#define PAIR_LOOSE_NS NSEC_PER_MSEC
/* Where the limit is not near a wait so soon after an end is left out, and that is no longer. */
#define WAIT_APART_NS NSEC_PER_MSEC
#define WAIT_SHORT_NS (200 * NSEC_PER_USEC)
/* One unmeasured launch of an unknown kind stands in the way of the next for so long. */
#define ALONE_NS (20 * NSEC_PER_MSEC)
#define ALONE_LOOK_NS (50 * NSEC_PER_USEC)

struct meter_context *meter_context(struct meter *meter, uint64_t key, bool is_wanted)
{
	struct meter_context *free_one = NULL;

	for (unsigned i = 0; i < METER_CONTEXTS; i++) {
		struct meter_context *context = &meter->contexts[i];

		if (context->key == key)
			return context;
		if (context->key == 0 && !free_one)
			free_one = context;
	}
	if (!is_wanted || !free_one)
		return NULL;
	*free_one = (struct meter_context){ .key = key };
	return free_one;
}

struct meter_stream *meter_stream(struct meter *meter, uint64_t key, uint64_t context,
				  bool is_wanted)
{
	struct meter_stream *free_one = NULL;

	for (unsigned i = 0; i < meter->used; i++) {
		struct meter_stream *stream = &meter->streams[i];

		if (stream->key == key)
			return stream;
		if (stream->key == 0 && !free_one)
			free_one = stream;
	}
	if (!is_wanted)
		return NULL;
	if (!free_one && meter->used < METER_STREAMS)
		free_one = &meter->streams[meter->used];
	if (!free_one || !meter_context(meter, context, true))
		return NULL;
	if (free_one == &meter->streams[meter->used])
		meter->used++;
	free_one->key = key;
	free_one->context = context;
	return free_one;
}

/* lock held: a lane of the stream for the thread. NULL when others have all of them. */
static struct lane *find_lane(struct meter_stream *stream, uint64_t id)
{
	struct lane *free_one = NULL;

	for (unsigned i = 0; i < REPLAY_LANES; i++) {
		struct lane *lane = &stream->lanes[i];

		if (lane->owner == id)
			return lane;
		if (lane->owner == 0 && !free_one)
			free_one = lane;
	}
	if (free_one) {
		free_one->spare = (struct lane_spare){ 0 };
		__atomic_store_n(&free_one->owner, id, __ATOMIC_RELAXED);
		__atomic_store_n(&free_one->key, stream->key, __ATOMIC_RELEASE);
	}
	return free_one;
}

struct lane *meter_lane_slow(struct meter *meter, struct meter_thread *thread, uint64_t stream,
			     uint64_t context)
{
	struct meter_stream *found;
	struct lane *lane = NULL;

	pthread_mutex_lock(&meter->lock);
	found = meter_stream(meter, stream, context, true);
	if (found)
		lane = find_lane(found, thread->id);
	pthread_mutex_unlock(&meter->lock);
	if (lane)
		thread->lanes[(stream ^ stream >> 7) % METER_THREAD_LANES] = lane;
	return lane;
}

uint64_t meter_context_of(struct meter *meter, const struct lane *lane)
{
	const struct meter_stream *stream;
	uint64_t context;

	pthread_mutex_lock(&meter->lock);
	stream = meter_stream_of(meter, lane);
	context = stream->key ? stream->context : 0;
	pthread_mutex_unlock(&meter->lock);
	return context;
}

/* lock held. */
static bool has_work(const struct meter_stream *stream)
{
	for (unsigned i = 0; i < REPLAY_LANES; i++)
		if (__atomic_load_n(&stream->lanes[i].cost_ns, __ATOMIC_RELAXED) !=
		    stream->lanes[i].done_ns)
			return true;
	return false;
}

/* lock held: something was launched behind the last marker. */
static bool is_new(const struct meter_stream *stream)
{
	for (unsigned i = 0; i < REPLAY_LANES; i++)
		if (__atomic_load_n(&stream->lanes[i].launches, __ATOMIC_RELAXED) !=
		    stream->lanes[i].marked)
			return true;
	return false;
}

bool meter_is_single(struct meter *meter, const struct lane *lane, int64_t now_ns)
{
	const struct meter_stream *own;
	bool is_single;

	pthread_mutex_lock(&meter->lock);
	own = meter_stream_of(meter, lane);
	is_single = is_new(own) || !crowd_is_there(&meter->crowd, now_ns);
	for (unsigned i = 0; i < meter->used && is_single; i++) {
		const struct meter_stream *other = &meter->streams[i];

		is_single = other == own || !other->key || other->context != own->context ||
			    !has_work(other);
	}
	pthread_mutex_unlock(&meter->lock);
	return is_single;
}

static uint32_t next_random(struct meter_thread *thread)
{
	if (!thread->random)
		thread->random = (uint32_t)thread->id * 2654435761u | 1;
	return random_next(&thread->random);
}

/* What the thread did not submit goes back before it asks for more. */
static void give_back(struct meter *meter, struct meter_thread *thread)
{
	int64_t rest_ns = thread->grant_ns;

	thread->grant_ns = 0;
	__atomic_store_n(&thread->attention, 0, __ATOMIC_RELAXED);
	pace_settle(&meter->pace, rest_ns);
}

/* An unknown kind goes alone until it was measured, or nothing came of that. */
static bool has_to_wait_for_sample(struct means_entry *work, const struct pace_terms *terms,
				   int64_t now_ns)
{
	int64_t pending_ns = __atomic_load_n(&work->pending_ns, __ATOMIC_RELAXED);

	return terms->share_pct < PACE_NO_LIMIT_PCT && pending_ns != 0 && pending_ns <= now_ns &&
	       now_ns - pending_ns < ALONE_NS;
}

enum pace_reason meter_admit(struct meter *meter, struct meter_thread *thread, struct lane *lane,
			     struct means_entry *work, const struct pace_terms *terms,
			     int64_t now_ns, int64_t *out_until_ns)
{
	struct pace_answer answer;
	int64_t cost_ns = means_cost_ns(work);
	bool is_known = means_is_known(work);

	give_back(meter, thread);
	__atomic_store_n(&meter->share_pct, terms->share_pct, __ATOMIC_RELAXED);
	if (!is_known && !terms->is_blocked && !pace_is_awaited(&meter->pace) &&
	    has_to_wait_for_sample(work, terms, now_ns)) {
		*out_until_ns = now_ns + ALONE_LOOK_NS;
		if (thread->held_from_ns == 0)
			thread->held_from_ns = now_ns;
		return PACE_INFLIGHT;
	}
	thread->hold.is_linked = __atomic_load_n(&meter->is_linked, __ATOMIC_RELAXED);
	thread->hold.is_crowded = crowd_is_there(&meter->crowd, now_ns);
	pace_ask(&meter->pace, terms, &thread->hold, cost_ns, now_ns, &answer);
	*out_until_ns = answer.until_ns;
	if (answer.reason != PACE_GO) {
		__atomic_store_n(&meter->held_ns, now_ns, __ATOMIC_RELAXED);
		if (thread->held_from_ns == 0)
			thread->held_from_ns = now_ns;
		return answer.reason;
	}
	if (answer.has_others)
		crowd_see(&meter->crowd, now_ns);
	if (thread->held_from_ns)
		pace_held(&meter->pace, now_ns - thread->held_from_ns);
	thread->held_from_ns = 0;
	thread->hold = (struct pace_hold){ .reason = PACE_GO };
	__atomic_store_n(&meter->is_tight,
			 terms->share_pct < PACE_NO_LIMIT_PCT && answer.grant_ns < PACE_GRANT_NS,
			 __ATOMIC_RELAXED);
	if (!is_known)
		__atomic_store_n(&work->pending_ns, now_ns, __ATOMIC_RELAXED);
	if (lane && (!is_known || means_may_wait(work)))
		lane->wants_pair = true;
	thread->may_wait = means_may_wait(work);
	thread->grant_ns = answer.grant_ns - cost_ns;
	thread->cost_ns = cost_ns;
	return PACE_GO;
}

void meter_unmeasured(struct meter *meter, struct meter_thread *thread, int64_t now_ns)
{
	pace_debit(&meter->pace, __atomic_load_n(&meter->share_pct, __ATOMIC_RELAXED),
		   thread->cost_ns, now_ns);
	pace_settle(&meter->pace, thread->cost_ns);
	thread->cost_ns = 0;
}

void meter_cancel(struct meter *meter, struct meter_thread *thread)
{
	pace_settle(&meter->pace, thread->cost_ns);
	thread->cost_ns = 0;
}

bool meter_wants_mark(struct meter *meter, struct meter_thread *thread, struct lane *lane,
		      struct means_entry *work, int64_t now_ns, enum meter_kind *out_kind)
{
	thread->asked = lane;
	lane->spare.work = NULL;
	if (lane_wants_start(lane)) {
		*out_kind = METER_START;
		return true;
	}
	if (!lane->wants_pair || spare_begin(meter, lane, work, now_ns))
		return false;
	*out_kind = METER_BEFORE;
	return true;
}

/*
 * The slow side of meter_launched(): a pair of markers ends here, or the next launch gets one. The
 * lane's model is put right by the last measured end.
 */
bool meter_look(struct meter *meter, struct meter_thread *thread, struct lane *lane, int64_t now_ns)
{
	bool is_after = lane->wants_pair;
	uint64_t cost_ns = lane->cost_ns;
	uint64_t known_ns = __atomic_load_n(&lane->known_cost_ns, __ATOMIC_RELAXED);
	int64_t end_ns = __atomic_load_n(&lane->known_end_ns, __ATOMIC_RELAXED);

	lane->wants_pair = false;
	/* The launch of a pair may be one that waits; it was admitted by the slow way. */
	if (is_after && thread->may_wait)
		__atomic_store_n(&lane->waits, lane->waits + 1, __ATOMIC_RELAXED);
	if (now_ns >= lane->due_ns) {
		int64_t span_ns = __atomic_load_n(&meter->is_tight, __ATOMIC_RELAXED) ?
					  PAIR_TIGHT_NS :
					  PAIR_LOOSE_NS;

		if (!is_after)
			lane->wants_pair = true;
		lane->due_ns = now_ns + span_ns / 2 +
			       (int64_t)((uint64_t)span_ns * next_random(thread) >> 32);
	}
	if (known_ns != 0 && known_ns <= cost_ns)
		lane->model_end_ns = clock_most_ns(end_ns + (int64_t)(cost_ns - known_ns),
						   now_ns + thread->cost_ns);
	return is_after && !lane->spare.work;
}

bool meter_wait_is_spare(const struct meter *meter, const struct lane *lane, int64_t begin_ns,
			 int64_t now_ns)
{
	int64_t end_ns = __atomic_load_n(&lane->known_end_ns, __ATOMIC_RELAXED);

	return now_ns - end_ns < WAIT_APART_NS &&
	       now_ns - clock_least_ns(begin_ns, now_ns) < WAIT_SHORT_NS &&
	       !__atomic_load_n(&meter->is_tight, __ATOMIC_RELAXED) &&
	       !crowd_is_there(&meter->crowd, now_ns);
}

void meter_drop_stream(struct meter *meter, struct meter_stream *stream, int64_t now_ns)
{
	marker_settle_all(meter, stream, now_ns);
	for (unsigned i = 0; i < REPLAY_LANES; i++) {
		__atomic_store_n(&stream->lanes[i].key, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&stream->lanes[i].owner, 0, __ATOMIC_RELAXED);
	}
	stream->key = 0;
	stream->context = 0;
	stream->life++;
}

void meter_drop(struct meter *meter, uint64_t context, int64_t now_ns)
{
	struct meter_context *gone;

	pthread_mutex_lock(&meter->lock);
	for (unsigned i = 0; i < meter->used; i++) {
		struct meter_stream *at = &meter->streams[i];

		if (at->key && at->context == context)
			meter_drop_stream(meter, at, now_ns);
	}
	gone = meter_context(meter, context, false);
	if (gone)
		gone->key = 0;
	pthread_mutex_unlock(&meter->lock);
}

void meter_thread_end(struct meter *meter, struct meter_thread *thread)
{
	give_back(meter, thread);
	pthread_mutex_lock(&meter->lock);
	for (unsigned i = 0; i < meter->used; i++)
		for (unsigned j = 0; meter->streams[i].key && j < REPLAY_LANES; j++) {
			struct lane *lane = &meter->streams[i].lanes[j];

			if (lane->owner != thread->id)
				continue;
			__atomic_store_n(&lane->key, 0, __ATOMIC_RELAXED);
			__atomic_store_n(&lane->owner, 0, __ATOMIC_RELAXED);
		}
	pthread_mutex_unlock(&meter->lock);
}
