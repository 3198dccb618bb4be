/*
 * A lane: what one thread launches into one stream. The thread alone writes it, with plain stores and
 * release stores, so that a launch takes no lock and writes no line that another thread writes; who
 * measures reads.
 *
 * What is kept is the sum of the predicted costs and, for each launch that by prediction found the
 * stream idle, when it was submitted and the sum before it. That is enough to lay the work out in time
 * when an end is measured (core/replay.h); a queue that never runs dry leaves nothing but the sum.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { LANE_STARTS = 256 };

/*
 * A launch that comes so shortly before the stream runs dry, by prediction, may find it dry. Of
 * short ones too many would.
 */
#define LANE_NEAR_NS INT64_C(3000)
#define LANE_LONG_NS INT64_C(50000)

struct lane_start {
	int64_t submit_ns; /* when the launch's driver call had returned */
	uint64_t before_ns;
};

struct means_entry;

/* What is known of the waits behind the lane's launches (core/spare.h). */
struct lane_spare {
	/* The last launch was to be measured, is of this kind and has no markers; NULL: none such. */
	struct means_entry *work;
	uint32_t waited;  /* the lane's launches when its thread waited last */
	uint32_t run;     /* launches in a row, up to now, with a wait each */
	int32_t left;     /* may do without markers before one has them again; below 0: must not */
	uint32_t steady;  /* in a row that were to be measured: their kinds are steady */
	uint32_t checked; /* of those without, up to a few */
	int64_t extra_ns; /* from a submission to its wait's return, but for the mean of its kind */
};

struct lane {
	_Alignas(64) uint64_t key; /* of the stream; 0: free. Atomic; meter.lock */
	uint64_t owner;            /* of the thread; 0: none. Atomic; meter.lock */
	uint64_t cost_ns;          /* release: sum of the predictions of what was launched */
	int64_t last_ns;           /* atomic: submission of the last launch */
	uint32_t launches;         /* atomic */
	uint32_t head;             /* release: starts written */
	uint32_t waits;            /* atomic: launches that may wait for kernels elsewhere */
	/* Its thread's alone. */
	int64_t model_end_ns; /* when the stream runs dry, by prediction */
	int64_t due_ns;       /* when the next pair of markers is due */
	union {
		struct {
			bool wants_pair; /* the next launch gets one */
			/* Atomic: it gets a marker that tells when it began. Set under meter.lock. */
			uint8_t wants_start;
		};
		uint16_t wants; /* both in one look */
	};
	struct lane_spare spare;
	/* Atomic, written under meter.lock: an end that was measured, which corrects the model. */
	_Alignas(64) int64_t known_end_ns;
	uint64_t known_cost_ns; /* cost_ns that had ended then */
	uint64_t done_ns;       /* meter.lock: cost_ns up to which the work was measured */
	uint32_t tail;          /* release, meter.lock: starts that are no longer needed */
	uint32_t marked;        /* meter.lock: launches that a marker covers */
	struct lane_start starts[LANE_STARTS];
};

/* Not 0: the next launch gets a marker before it. Its thread. */
static inline uint32_t lane_wants(const struct lane *lane)
{
	return __atomic_load_n(&lane->wants, __ATOMIC_RELAXED);
}

/* True once after it was wanted. Its thread. */
static inline bool lane_wants_start(struct lane *lane)
{
	if (!__atomic_load_n(&lane->wants_start, __ATOMIC_RELAXED))
		return false;
	__atomic_store_n(&lane->wants_start, 0, __ATOMIC_RELAXED);
	return true;
}

/* The stream was idle when a launch came that returned at now_ns. Its thread. */
static inline void lane_begin(struct lane *lane, uint64_t before_ns, int64_t now_ns)
{
	uint32_t head = lane->head;

	/* A full table keeps the sum and forgets the pause. Acquire: what is overwritten was read. */
	if (head - __atomic_load_n(&lane->tail, __ATOMIC_ACQUIRE) >= LANE_STARTS)
		return;
	lane->starts[head % LANE_STARTS] = (struct lane_start){ now_ns, before_ns };
	__atomic_store_n(&lane->head, head + 1, __ATOMIC_RELEASE);
}

/* A launch predicted to take cost_ns returned from the driver at now_ns. Its thread. */
static inline void lane_launched(struct lane *lane, int64_t cost_ns, int64_t now_ns)
{
	int64_t end_ns = lane->model_end_ns;
	uint64_t before_ns = lane->cost_ns;

	/* Dry by prediction, or everything that was launched before is known to have ended. */
	if (now_ns > end_ns - (cost_ns >= LANE_LONG_NS ? LANE_NEAR_NS : 0) ||
	    __atomic_load_n(&lane->known_cost_ns, __ATOMIC_RELAXED) == before_ns) {
		lane_begin(lane, before_ns, now_ns);
		if (now_ns > end_ns)
			end_ns = now_ns;
	}
	lane->model_end_ns = end_ns + cost_ns;
	__atomic_store_n(&lane->last_ns, now_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&lane->launches, lane->launches + 1, __ATOMIC_RELAXED);
	/* Pairs with the acquire in meter_point_take(): who sees the sum sees its start and time. */
	__atomic_store_n(&lane->cost_ns, before_ns + (uint64_t)cost_ns, __ATOMIC_RELEASE);
}
