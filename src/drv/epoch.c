#include "drv/epoch.h"

#include "base/clock.h"
#include "base/process.h"
#include "base/turn.h"
#include "core/gate.h"
#include "drv/gpu_fence.h"

#include <errno.h>
#include <stdatomic.h>

enum { UNDER_WAY = 4 };
/* Set in what is known of a quiet gate, so that it is never 0. */
#define QUIET (UINT64_C(1) << 63)
#define TURN_WAIT_NS (10 * NSEC_PER_MSEC)
#define NAP_NS (50 * NSEC_PER_USEC)

/* With more threads than these to look at a fence is cheaper. */
enum { FEW_CELLS = 16 };

/* An epoch that is over and whose fence was not seen done. */
struct ended {
	uint64_t number;
	uint64_t quiet; /* what look_round() said before the fence was recorded */
	struct gpu_fence fence;
};

struct epoch_state {
	_Atomic uint64_t last;  /* that is over; the open one is the next */
	_Atomic uint64_t done;  /* up to which all is done */
	_Atomic uint64_t asked; /* the highest that anything was freed in */
	_Atomic uint64_t idle;  /* what look_round() said before all that is done was submitted */
	struct turn turn;       /* of who asks the driver */
	/* the turn */
	struct ended ended[UNDER_WAY]; /* by number */
	unsigned count;
};
PROCESS_STATE(epoch_state, state);

void epoch_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

/* Nobody is inside the gate, who may be giving the device work: what tells it later; else 0. */
static uint64_t look_round(void)
{
	uint64_t passes;

	return gate_cells() <= FEW_CELLS && gate_is_quiet(&passes) ? passes | QUIET : 0;
}

bool epoch_is_idle(void)
{
	uint64_t idle = atomic_load_explicit(&state.s.idle, memory_order_acquire);

	return idle && gate_cells() <= FEW_CELLS && idle == (gate_passes() | QUIET);
}

uint64_t epoch_open(void)
{
	uint64_t epoch, asked;

	/* What the thread has submitted is submitted for all before it reads the number. */
	atomic_thread_fence(memory_order_seq_cst);
	epoch = atomic_load(&state.s.last) + 1;
	asked = atomic_load(&state.s.asked);
	while (asked < epoch && !atomic_compare_exchange_weak(&state.s.asked, &asked, epoch))
		;
	return epoch;
}

/* The turn: forgets the first ones that are done. */
static void poll(void)
{
	unsigned over = 0;

	while (over < state.s.count && gpu_fence_poll(&state.s.ended[over].fence) == 0) {
		atomic_store(&state.s.done, state.s.ended[over].number);
		atomic_store(&state.s.idle, state.s.ended[over].quiet);
		over++;
	}
	state.s.count -= over;
	for (unsigned i = 0; over && i < state.s.count; i++)
		state.s.ended[i] = state.s.ended[i + over];
}

/*
 * The turn: ends the open epoch. First the number, then the fence: who read the number before had
 * submitted what it waits for before the fence is recorded.
 */
static void end_open(uint64_t quiet)
{
	struct ended *e = &state.s.ended[state.s.count];
	uint64_t number = atomic_fetch_add(&state.s.last, 1) + 1;
	int rc = gpu_fence_record(&e->fence);

	/* Without one what waits for it waits for the next. */
	if (rc < 0)
		return;
	e->number = number;
	e->quiet = quiet;
	state.s.count++;
}

static bool is_all_done(void)
{
	return atomic_load(&state.s.asked) <= atomic_load(&state.s.done);
}

/* Inside the gate: asks the driver. `quiet` is what look_round() said outside of it. */
static void ask(uint64_t quiet)
{
	if (!turn_take(&state.s.turn, TURN_WAIT_NS))
		return;
	poll();
	if (state.s.count < UNDER_WAY &&
	    (!state.s.count ||
	     state.s.ended[state.s.count - 1].number < atomic_load(&state.s.asked))) {
		end_open(quiet);
		poll();
	}
	turn_give(&state.s.turn);
}

uint64_t epoch_done(void)
{
	uint64_t quiet;

	if (!is_all_done()) {
		quiet = look_round();
		GATE_ASK((ask(quiet), 0));
	}
	return atomic_load(&state.s.done);
}

bool epoch_is_done(uint64_t epoch)
{
	uint64_t quiet = 0;
	uint32_t was_in;
	bool is_asked = epoch > atomic_load(&state.s.done) && !is_all_done();

	if (is_asked)
		quiet = look_round();
	if (is_asked && gate_enter_now(&was_in)) {
		ask(quiet);
		gate_leave_asked(was_in);
	}
	return epoch <= atomic_load(&state.s.done);
}

int epoch_wait(uint64_t epoch, int64_t until_ns)
{
	while (!epoch_is_done(epoch)) {
		if (clock_now_ns() >= until_ns)
			return -EBUSY;
		clock_sleep_ns(NAP_NS);
	}
	return 0;
}
