#include "drv/gpu_still.h"

#include "base/clock.h"
#include "base/process.h"
#include "base/sys.h"
#include "core/gate.h"
#include "drv/capture.h"
#include "drv/gpu_fence.h"

#include <errno.h>
#include <stdatomic.h>

#define NAP_NS (20 * NSEC_PER_USEC)
/* Who has waited for long sleeps for a part of that, and not longer than this. */
#define NAP_MOST_NS (500 * NSEC_PER_USEC)
enum { NAPS = 16 };
#define ASK_NS NSEC_PER_MSEC

struct gpu_still {
	_Atomic unsigned tid; /* who has it, 0: nobody; written by who has shut the gate */
	unsigned depth;       /* the holder's */
};
PROCESS_STATE(gpu_still, state);

void gpu_still_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

bool gpu_still_is_mine(void)
{
	return atomic_load_explicit(&state.s.tid, memory_order_relaxed) == (unsigned)sys_gettid();
}

/* Shuts the gate, which another mover may have for a moment. */
static int shut(int64_t until_ns)
{
	int64_t left_ns;
	int rc;

	for (;;) {
		left_ns = until_ns - clock_now_ns();
		rc = gate_close(left_ns > 0 ? left_ns : 0);
		if (rc != -EBUSY)
			return rc == -ETIMEDOUT ? -EBUSY : rc;
		if (left_ns <= 0)
			return -EBUSY;
		clock_sleep_ns(NSEC_PER_MSEC);
	}
}

/* A wait for work. */
struct wait {
	const struct gpu_still_waits *waits;
	int64_t start_ns, until_ns, ask_ns;
};

/* False when it is over. */
static bool wait_on(struct wait *w)
{
	int64_t now_ns = clock_now_ns(), nap_ns = (now_ns - w->start_ns) / NAPS;

	if (now_ns >= w->until_ns)
		return false;
	if (now_ns >= w->ask_ns) {
		if (w->waits->gives_way && gate_is_wanted())
			return false;
		if (w->waits->is_over && w->waits->is_over(w->waits->arg))
			return false;
		w->ask_ns = now_ns + ASK_NS;
	}
	if (nap_ns < NAP_NS)
		nap_ns = NAP_NS;
	clock_sleep_ns(nap_ns < NAP_MOST_NS ? nap_ns : NAP_MOST_NS);
	return true;
}

/* The gate is shut. */
static int wait_for_work(const struct gpu_still_waits *waits)
{
	int64_t now_ns = clock_now_ns();
	struct wait w = { waits, now_ns, now_ns + waits->done_ns, now_ns + ASK_NS };
	struct gpu_fence fence = { NULL };
	int rc;

	do
		rc = gpu_fence_record(&fence);
	while (rc == -EAGAIN && !capture_any() && wait_on(&w));
	if (rc < 0)
		return rc;
	while (gpu_fence_poll(&fence) < 0)
		if (!wait_on(&w)) {
			gpu_fence_end(&fence);
			return -EBUSY;
		}
	return 0;
}

int gpu_still_shut(const struct gpu_still_waits *waits)
{
	return capture_any() ? -EAGAIN : shut(clock_now_ns() + waits->shut_ns);
}

int gpu_still_wait(const struct gpu_still_waits *waits)
{
	int rc = gate_wait_out(waits->shut_ns) == 0 ? 0 : -EBUSY;

	/* Who begins one from now on waits at the gate. */
	if (rc == 0)
		rc = capture_any() ? -EAGAIN : wait_for_work(waits);
	if (rc < 0)
		return rc;
	state.s.depth = 1;
	atomic_store_explicit(&state.s.tid, (unsigned)sys_gettid(), memory_order_relaxed);
	return 0;
}

void gpu_still_let(uint32_t passes, bool (*is_enough)(void), int64_t wait_ns)
{
	atomic_store_explicit(&state.s.tid, 0, memory_order_relaxed);
	gate_let(passes, is_enough, wait_ns);
}

void gpu_still_open(void)
{
	atomic_store_explicit(&state.s.tid, 0, memory_order_relaxed);
	gate_open();
}

int gpu_still_begin(const struct gpu_still_waits *waits)
{
	int rc;

	if (gpu_still_is_mine()) {
		state.s.depth++;
		return 0;
	}
	rc = gpu_still_shut(waits);
	if (rc < 0)
		return rc;
	rc = gpu_still_wait(waits);
	if (rc < 0)
		gate_open();
	return rc;
}

void gpu_still_end(void)
{
	if (!gpu_still_is_mine() || --state.s.depth > 0)
		return;
	atomic_store_explicit(&state.s.tid, 0, memory_order_relaxed);
	gate_open();
}
