#include "core/ended.h"

#include "core/marker.h"

/* Two bits that no key of the caller's has together: there is no handle behind it. */
#define ENDED_KEY (UINT64_C(3) << 62)

/* lock held: the newest marker of a stream that has all it may have; what it was put with, or 0. */
static uint64_t take_newest(struct meter_stream *stream)
{
	struct meter_marker *newest = &stream->markers[(stream->next - 1) % METER_MARKERS];

	if (stream->next - stream->first < METER_MARKERS)
		return 0;
	if (newest->work)
		__atomic_store_n(&newest->work->pending_ns, 0, __ATOMIC_RELAXED);
	stream->next--;
	return newest->handle;
}

struct lane *ended_lane(struct meter *meter, uint64_t stream, uint64_t *out_context,
			uint64_t *out_handle)
{
	struct meter_stream *at;
	struct lane *lane = NULL;

	*out_handle = 0;
	pthread_mutex_lock(&meter->lock);
	at = meter_stream(meter, stream, 0, false);
	if (at)
		lane = marker_unmarked(at, 0, INT64_MAX);
	if (lane) {
		*out_context = at->context;
		*out_handle = take_newest(at);
	}
	pthread_mutex_unlock(&meter->lock);
	return lane;
}

void ended_begin(struct meter *meter, uint64_t stream, int64_t now_ns)
{
	struct meter_stream *at;

	pthread_mutex_lock(&meter->lock);
	at = meter_stream(meter, stream, 0, false);
	if (at && at->first == at->next) {
		meter_drop_stream(meter, at, now_ns);
	} else if (at) {
		at->key = ENDED_KEY | (uint64_t)(at - meter->streams);
		for (unsigned i = 0; i < REPLAY_LANES; i++) {
			__atomic_store_n(&at->lanes[i].key, at->key, __ATOMIC_RELAXED);
			__atomic_store_n(&at->lanes[i].owner, 0, __ATOMIC_RELAXED);
		}
	}
	pthread_mutex_unlock(&meter->lock);
}

void ended_look(struct meter *meter, struct meter_stream *stream, int64_t now_ns)
{
	if (stream->first == stream->next && (stream->key & ENDED_KEY) == ENDED_KEY)
		meter_drop_stream(meter, stream, now_ns);
}
