#include "hook/worker.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "base/sys.h"
#include "core/charge.h"
#include "core/context.h"
#include "core/gate.h"
#include "core/handed.h"
#include "core/object.h"
#include "core/presence.h"
#include "core/root.h"
#include "core/watch.h"
#include "drv/gpu_bo.h"
#include "drv/gpu_heap.h"
#include "drv/gpu_tiles.h"
#include "drv/real.h"
#include "drv/sample_nvml.h"
#include "hook/init.h"
#include "hook/ipc_import.h"
#include "hook/metering.h"
#include "hook/own_row.h"
#include "hook/shown_busy.h"
#include "hook/suspend.h"
#include "hook/thread.h"
#include "hook/work.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#define STOP_WAIT_NS (50 * NSEC_PER_MSEC)
#define START_WAIT_NS (50 * NSEC_PER_MSEC)
enum worker_state { WORKER_NONE, WORKER_STARTS, WORKER_RUNS, WORKER_GONE };

struct worker {
	_Atomic unsigned state; /* enum worker_state; a futex */
	_Atomic unsigned stop;  /* 1: the process ends; a futex */
	/* the worker's */
	uint32_t change;   /* of the limits, as seen last */
	int64_t meters_ns; /* when the next round of the meters is due */
	struct watch watch;
};
PROCESS_STATE(worker, worker);

static _Atomic bool has_exit_handler; /* once for a program and its fork children */

static void look_at(struct dev dev, struct cuda_ord ord)
{
	int rc;

	if (quota_held(dev, QUOTA_CONTEXT) == 0 && !context_any(dev))
		return;
	gpu_heap_look(dev);
	rc = charge_watch(dev);
	if (rc == -ENOTSUP && context_any(dev) && own_row_look(dev, ord))
		charge_reconcile(dev, QUOTA_CONTEXT);
}

static void look(void)
{
	presence_check_path();
	quota_hold_slot();
	handed_hold();
	quota_tidy(clock_now_ns());
	gpu_tiles_settle();
	for (int d = 0; d < RATION_DEVICES; d++)
		handed_settle((struct dev){ d });
	if (!watch_is_due(&worker.s.watch, gate_passes()) && !handed_has_imported())
		return;
	for (int o = 0; o < device_ordinals(); o++) {
		struct cuda_ord ord = { o };
		struct dev dev;

		if (device_by_ordinal(ord, &dev))
			look_at(dev, ord);
	}
	handed_looked();
}

/* Which bit wakes this process's worker. Those of other processes have others, mostly. */
static unsigned own_bit(void)
{
	return 1u << quota_slot() % 31;
}

/* The word that a change of the limits moves. */
static uint32_t limits_change(void)
{
	const uint32_t *word = metering_word();

	return word ? __atomic_load_n(word, __ATOMIC_ACQUIRE) : 0;
}

/* One round of the meters. How long it is until the next. */
static int64_t meter(uint32_t change)
{
	int64_t nap_ns;

	if (change != worker.s.change)
		work_call_attention();
	worker.s.change = change;
	nap_ns = metering_tick();
	worker.s.meters_ns = clock_now_ns() + nap_ns;
	return nap_ns;
}

/*
 * While work is waited for that is under way: what is due of the rest is done. True when that wait
 * has to end.
 */
static bool is_asked(void)
{
	uint32_t change = limits_change();

	if (change != worker.s.change || clock_now_ns() >= worker.s.meters_ns)
		meter(change);
	root_serve();
	return atomic_load(&worker.s.stop) || suspend_is_asked();
}

/* One round of the meters, and sleep: until the limits change, it is time for the next, or look_ns. */
static void rest(int64_t look_ns)
{
	const uint32_t *word = metering_word();
	uint32_t change = limits_change();
	int64_t nap_ns = meter(change), left_ns;

	left_ns = look_ns - clock_now_ns();
	if (left_ns < nap_ns)
		nap_ns = left_ns > 0 ? left_ns : 0;
	if (word)
		sys_futex_wait_shared(word, change, nap_ns, own_bit() | 1u << 31);
	else
		sys_futex_wait(&worker.s.stop, 0, nap_ns);
}

/* Ends the worker's sleep. */
static void wake(void)
{
	const uint32_t *word = metering_word();

	sys_futex_wake_all(&worker.s.stop);
	if (word)
		sys_futex_wake_shared(word, own_bit());
}

static int64_t soonest(int64_t a_ns, int64_t b_ns)
{
	return a_ns < b_ns ? a_ns : b_ns;
}

static void *run(void *arg)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	int64_t look_ns;

	(void)arg;
	prctl(PR_SET_NAME, "ration");
	if (root_serve_here(wake) && region_check_path(init_region()) == 0)
		region_drop_spare(init_region());
	atomic_store(&worker.s.state, WORKER_RUNS);
	sys_futex_wake_all(&worker.s.state);
	/* A call of ours must not invalidate a global capture of the program. */
	if (real.cuThreadExchangeStreamCaptureMode)
		real.cuThreadExchangeStreamCaptureMode(&mode);
	/* Who starts this has just looked. */
	look_ns = clock_now_ns() + watch_every_ns(sample_nvml_rows());
	/* Who has the gate shut opens it again, also in a program that is about to end. */
	while (!atomic_load(&worker.s.stop) || suspend_is_shut()) {
		rest(soonest(look_ns, suspend_tick()));
		root_serve();
		if (atomic_load(&worker.s.stop) || clock_now_ns() < look_ns)
			continue;
		look();
		/* What is away stays away. */
		if (!suspend_is_shut())
			object_tick(is_asked);
		gpu_bo_tick();
		ipc_import_tick();
		shown_busy_tick();
		work_end_threads();
		look_ns = clock_now_ns() + watch_every_ns(sample_nvml_rows());
	}
	atomic_store(&worker.s.state, WORKER_GONE);
	sys_futex_wake_all(&worker.s.state);
	return NULL;
}

/* The driver must not be called any more when it is torn down; the worker gets a moment to see it. */
static void stop(void)
{
	int64_t end_ns = clock_now_ns() + STOP_WAIT_NS, left_ns = STOP_WAIT_NS;
	unsigned now;

	if (atomic_load(&worker.s.state) == WORKER_NONE)
		return;
	atomic_store(&worker.s.stop, 1);
	suspend_end();
	wake();
	while ((now = atomic_load(&worker.s.state)) != WORKER_GONE && left_ns > 0) {
		sys_futex_wait(&worker.s.state, now, left_ns);
		left_ns = end_ns - clock_now_ns();
	}
}

void worker_start(void)
{
	unsigned none = WORKER_NONE;
	int rc;

	if (atomic_load_explicit(&worker.s.state, memory_order_relaxed) != WORKER_NONE)
		return;
	process_wipe_on_fork(&worker, sizeof(worker));
	if (!atomic_compare_exchange_strong(&worker.s.state, &none, WORKER_STARTS))
		return;
	rc = thread_start(run);
	if (rc) {
		log_warn("no thread to watch what this process holds (%s): what no call shows is "
			 "counted only when memory is short",
			 strerror(rc));
		atomic_store(&worker.s.state, WORKER_GONE);
		return;
	}
	/* A program may change its root directory next. */
	sys_futex_wait(&worker.s.state, WORKER_STARTS, START_WAIT_NS);
	if (!atomic_exchange(&has_exit_handler, true))
		atexit(stop);
}
