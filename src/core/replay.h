/*
 * The replay: lays the launches of one stream out in time once it is known when the last of them ended.
 *
 * A stream runs in order, so a launch starts when the one before it has ended or when it was submitted,
 * whichever is later (on the clock of core/clockmap.h, which has the latency of an event in it, and a little later). Two things are certain and need no prediction:
 * nothing of it runs after the end, and from the last launch's start to a measured end the stream is
 * busy. For the rest each run of launches takes its predicted time. A queue that never runs dry is so
 * measured by its ends alone; launches with pauses between them stand where they stood, so that what
 * runs on several streams, or in several processes, overlaps as it did.
 */
#pragma once

#include "core/lane.h"

#include <ration/pace.h>

enum { REPLAY_LANES = 4 };

/*
 * A launch that finds its stream idle begins so much later than an event that is recorded then: 1.3
 * us on an H200. Of what lies between its submission and its end no more than a part is taken for
 * that.
 */
#define REPLAY_LEAD_NS INT64_C(1200)
enum { REPLAY_LEAD_PART = 2 };

/* How long after its submission such a launch began, which ended span_ns after it. */
static inline int64_t replay_lead_ns(int64_t span_ns)
{
	int64_t part_ns = span_ns > 0 ? span_ns / REPLAY_LEAD_PART : 0;

	return part_ns < REPLAY_LEAD_NS ? part_ns : REPLAY_LEAD_NS;
}

/* How far each lane of a stream had come at some moment. */
struct replay_point {
	uint64_t cost_ns[REPLAY_LANES];
	int64_t last_ns;   /* submission of the last launch */
	uint32_t launches; /* of all lanes */
	uint32_t waits;    /* of them, such as may wait for kernels elsewhere */
};

struct replay {
	struct lane *lanes; /* REPLAY_LANES of them; the caller has meter.lock */
	struct pace_ring *ring;
	int64_t from_ns; /* the stream's earlier work had ended then */
	bool is_alone;   /* nothing of the tenant but this stream has work on the device */
	bool is_crowded; /* other processes use the device */
	bool is_dry;     /* a METER_START found the stream dry, and this was launched behind it */
	int64_t turn_ns; /* an end at which a turn of theirs was told of the tenant last, 0: none */
};

/* What came of it. */
struct replay_result {
	int64_t busy_ns; /* newly busy */
	int64_t cost_ns; /* its prediction */
	int64_t end_ns;  /* when the stream's work ended, as far as is known */
	bool has_waited; /* for a turn of others, which is not counted */
};

/*
 * Enters what ran up to `point`, `launches` of them, and takes it off the lanes. It had ended at end_ns: exactly then, or
 * by then.
 *
 * *balance_ns is kept for the stream: what was laid out so far beyond its prediction. Where a certain
 * interval turned out longer than predicted, something before it took longer than its mean; then other
 * launches took less, and what is laid out by prediction is shortened by as much. (Not where others
 * have work as well: there it was longer because it had to wait.)
 */
struct replay_result replay_run(const struct replay *replay, const struct replay_point *point,
				bool is_exact, int64_t end_ns, uint32_t launches,
				int64_t *balance_ns);
