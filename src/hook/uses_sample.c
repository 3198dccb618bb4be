#include "hook/uses_sample.h"

#include "base/clock.h"
#include "base/process.h"
#include "base/random.h"
#include "base/turn.h"
#include "core/gate.h"
#include "core/link_cost.h"
#include "drv/capture.h"
#include "drv/gpu_cuda.h"
#include "drv/gpu_event.h"
#include "drv/real.h"
#include "drv/relaxed.h"

#include <stdatomic.h>

/* A launch that took longer to make was held, and says nothing. */
#define LAUNCH_MOST_NS (200 * NSEC_PER_USEC)
/* Who ends a stream waits so long for somebody who is at it with an event. */
#define FORGET_NS NSEC_PER_SEC
/* One launch in so many is timed, at random between a half and one and a half times that. */
enum { APART = 16 };
enum { TIMED = 32 };
#define SEED UINT32_C(2463534242)

/* A launch between two events. */
struct timed {
	uint64_t kind, far_bytes;
	uint64_t context;        /* gpu_event_context() */
	uint64_t before, behind; /* events; 0: none */
	CUstream stream;
};

struct uses_sample_state {
	_Atomic int left; /* launches until the next is timed; atomic */
	struct turn turn; /* nothing is waited for in it */
	/* the turn */
	struct timed open; /* its launch is about to be made, or was */
	const void *owner; /* of that: a thread, by what it alone has; NULL: there is none */
	struct timed timed[TIMED];
	unsigned count;
	uint32_t random;
};
PROCESS_STATE(uses_sample_state, state);

__thread int64_t uses_sample_from_ns;

void uses_sample_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
	link_cost_init();
}

static void give(uint64_t event)
{
	if (event)
		gpu_event_give(event);
}

static void drop(struct timed *t)
{
	give(t->before);
	give(t->behind);
	*t = (struct timed){ .kind = 0 };
}

/* An event in the stream; 0: none. Inside the gate, which shuts when a capture begins. */
static uint64_t put_event(uint64_t context, CUstream stream)
{
	uint64_t event = context ? gpu_event_take(context, true) : 0;
	uint32_t was_in;
	bool is_there;

	if (!event)
		return 0;
	was_in = gate_enter();
	is_there = !capture_any() && gpu_event_record(event, stream, false);
	gate_leave(was_in);
	if (!is_there)
		give(event);
	return is_there ? event : 0;
}

/* The key of the thread's context; 0 without one. */
static uint64_t own_context(void)
{
	struct cuda_ord ord;
	const void *ctx;

	return gpu_cuda_current(&ord, &ctx) ? gpu_event_context((CUcontext)(uintptr_t)ctx) : 0;
}

/* The turn is the caller's. True when nothing more will come of it. */
static bool read_timed(const struct timed *t)
{
	int64_t before_ns, behind_ns;
	enum gpu_event_state was = gpu_event_read(t->behind, &behind_ns);

	if (was == GPU_EVENT_DONE)
		was = gpu_event_read(t->before, &before_ns);
	if (was == GPU_EVENT_DONE)
		link_cost_learn(t->kind, behind_ns - before_ns, t->far_bytes);
	return was != GPU_EVENT_RUNNING;
}

/* The turn is the caller's. */
static void read_all(void)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < state.s.count; i++) {
		struct timed *t = &state.s.timed[i];

		if (read_timed(t))
			drop(t);
		else
			state.s.timed[kept++] = *t;
	}
	state.s.count = kept;
}

/* The turn is the caller's: the second event, behind the launch. */
static void close_open(bool is_good)
{
	struct timed *t = &state.s.open;

	if (is_good && state.s.count < TIMED && own_context() == t->context)
		t->behind = put_event(t->context, t->stream);
	if (t->behind) {
		state.s.timed[state.s.count++] = *t;
		*t = (struct timed){ .kind = 0 };
	} else {
		drop(t);
	}
	state.s.owner = NULL;
}

void uses_sample_end(void)
{
	bool is_good = clock_now_ns() - uses_sample_from_ns < LAUNCH_MOST_NS;
	struct relaxed relaxed;

	uses_sample_from_ns = 0;
	if (!turn_take(&state.s.turn, 0))
		return;
	relaxed = relaxed_begin();
	/* Unless its stream ended, or another began to time meanwhile. */
	if (state.s.owner == &uses_sample_from_ns)
		close_open(is_good);
	relaxed_end(relaxed);
	turn_give(&state.s.turn);
}

void uses_sample_forget(CUstream stream)
{
	if (!turn_take(&state.s.turn, FORGET_NS))
		return;
	if (!stream || state.s.open.stream == stream) {
		drop(&state.s.open);
		state.s.owner = NULL;
	}
	turn_give(&state.s.turn);
}

/* The turn is the caller's. Of a thread that never came back, the last is dropped. */
static void open_one(uint64_t kind, uint64_t far_bytes, CUstream stream)
{
	struct timed *t = &state.s.open;

	read_all();
	drop(t);
	state.s.owner = NULL;
	*t = (struct timed){
		.kind = kind, .far_bytes = far_bytes, .context = own_context(), .stream = stream
	};
	t->before = put_event(t->context, stream);
	if (!t->before)
		return;
	state.s.owner = &uses_sample_from_ns;
	uses_sample_from_ns = clock_now_ns();
}

void uses_sample_begin(uint64_t kind, uint64_t far_bytes, CUstream stream)
{
	struct relaxed relaxed;

	if (atomic_fetch_sub_explicit(&state.s.left, 1, memory_order_relaxed) > 0 ||
	    capture_any() || !turn_take(&state.s.turn, 0))
		return;
	relaxed = relaxed_begin();
	open_one(kind, far_bytes, stream);
	if (!state.s.random)
		state.s.random = SEED;
	atomic_store_explicit(&state.s.left,
			      APART / 2 + (int)(random_next(&state.s.random) % APART),
			      memory_order_relaxed);
	relaxed_end(relaxed);
	turn_give(&state.s.turn);
}
