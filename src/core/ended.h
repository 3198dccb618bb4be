/*
 * Streams that end with work in them. The work goes on, and counts for what it takes and not for
 * what was predicted of it: the stream keeps its place, under a key that no other has, until its
 * last marker was read.
 */
#pragma once

#include "core/meter.h"

/*
 * The stream is about to end: a lane of it with launches that no marker covers, for a METER_TAIL
 * behind them, and the stream's context; NULL when there is none. Where there is no room for that
 * its newest marker goes: *out_handle is not waited for any more; else 0.
 */
struct lane *ended_lane(struct meter *meter, uint64_t stream, uint64_t *out_context,
			uint64_t *out_handle);

/* The stream ends now, and its key may come again. What has no marker counts as predicted. */
void ended_begin(struct meter *meter, uint64_t stream, int64_t now_ns);

/* meter.lock held. A marker of the stream was read; it may have been the last of one that ended. */
void ended_look(struct meter *meter, struct meter_stream *stream, int64_t now_ns);
