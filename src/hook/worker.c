#include "hook/worker.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "base/sys.h"
#include "core/charge.h"
#include "core/context.h"
#include "core/object.h"
#include "drv/gpu_bo.h"
#include "drv/real.h"
#include "drv/sample_nvml.h"
#include "hook/metering.h"
#include "hook/own_row.h"
#include "hook/suspend.h"
#include "hook/work.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STOP_WAIT_NS (50 * NSEC_PER_MSEC)
/* Its thread-local storage is cut from it too, and that of a sanitizer alone is 900 KiB. */
enum { STACK_BYTES = 1024 * 1024 };

enum worker_state { WORKER_NONE, WORKER_RUNS, WORKER_GONE };

struct worker {
	_Atomic unsigned state; /* enum worker_state; a futex */
	_Atomic unsigned stop;  /* 1: the process ends; a futex */
	uint32_t change;        /* of the limits, as seen last; the worker's */
};
PROCESS_STATE(worker, worker);

static _Atomic bool has_exit_handler; /* once for a program and its fork children */

static void look_at(struct dev dev, struct cuda_ord ord)
{
	int rc;

	if (quota_held(dev, QUOTA_CONTEXT) == 0 && !context_any(dev))
		return;
	rc = charge_watch(dev);
	if (rc == -ENOTSUP && context_any(dev) && own_row_look(dev, ord))
		charge_reconcile(dev, QUOTA_CONTEXT);
}

static void look(void)
{
	quota_check_path();
	for (int o = 0; o < device_ordinals(); o++) {
		struct cuda_ord ord = { o };
		struct dev dev;

		if (device_by_ordinal(ord, &dev))
			look_at(dev, ord);
	}
}

/* Which bit wakes this process's worker. Those of other processes have others, mostly. */
static unsigned own_bit(void)
{
	return 1u << quota_slot() % 31;
}

/* One round of the meters, and sleep: until the limits change, it is time for the next, or look_ns. */
static void rest(int64_t look_ns)
{
	const uint32_t *word = metering_word();
	uint32_t change = word ? __atomic_load_n(word, __ATOMIC_ACQUIRE) : 0;
	int64_t nap_ns, left_ns;

	if (change != worker.s.change)
		work_call_attention();
	worker.s.change = change;
	nap_ns = metering_tick();
	left_ns = look_ns - clock_now_ns();
	if (left_ns < nap_ns)
		nap_ns = left_ns > 0 ? left_ns : 0;
	if (word)
		sys_futex_wait_shared(word, change, nap_ns, own_bit() | 1u << 31);
	else
		sys_futex_wait(&worker.s.stop, 0, nap_ns);
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
	/* A call of ours must not invalidate a global capture of the program. */
	if (real.cuThreadExchangeStreamCaptureMode)
		real.cuThreadExchangeStreamCaptureMode(&mode);
	/* Who starts this has just looked. */
	look_ns = clock_now_ns() + charge_watch_every_ns(sample_nvml_rows());
	/* Who has the gate shut opens it again, also in a program that is about to end. */
	while (!atomic_load(&worker.s.stop) || suspend_is_shut()) {
		rest(soonest(look_ns, suspend_tick()));
		if (atomic_load(&worker.s.stop) || clock_now_ns() < look_ns)
			continue;
		look();
		/* What is away stays away. */
		if (!suspend_is_shut())
			object_tick();
		gpu_bo_tick();
		work_end_threads();
		look_ns = clock_now_ns() + charge_watch_every_ns(sample_nvml_rows());
	}
	atomic_store(&worker.s.state, WORKER_GONE);
	sys_futex_wake_all(&worker.s.state);
	return NULL;
}

/* The driver must not be called any more when it is torn down; the worker gets a moment to see it. */
static void stop(void)
{
	const uint32_t *word;

	if (atomic_load(&worker.s.state) != WORKER_RUNS)
		return;
	atomic_store(&worker.s.stop, 1);
	sys_futex_wake_all(&worker.s.stop);
	word = metering_word();
	if (word)
		sys_futex_wake_shared(word, own_bit());
	sys_futex_wait(&worker.s.state, WORKER_RUNS, STOP_WAIT_NS);
}

typedef int create_fn(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *),
		      void *arg);
typedef int stack_fn(pthread_attr_t *attr, void *stack, size_t bytes);

/*
 * Through the driver, which has threads: libc alone does not know these names before glibc 2.34, and
 * under them a library built with a later one could not be loaded.
 */
static int create_on(void *stack)
{
	create_fn *create_thread = (create_fn *)real_symbol(REAL_CUDA, "pthread_create");
	stack_fn *set_stack = (stack_fn *)real_symbol(REAL_CUDA, "pthread_attr_setstack");
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	if (!create_thread || (stack && !set_stack))
		return ENOSYS;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	rc = stack ? set_stack(&attr, stack, STACK_BYTES) : 0;
	if (rc == 0)
		rc = create_thread(&thread, &attr, run, NULL);
	pthread_attr_destroy(&attr);
	return rc;
}

/* A stack of our own, with a guard page: libc ends the program where it cannot map one itself. */
static void *map_stack(void)
{
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	char *m = mmap(NULL, page_bytes + STACK_BYTES, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);

	if (m == MAP_FAILED)
		return NULL;
	mprotect(m, page_bytes, PROT_NONE);
	return m + page_bytes;
}

/* With all signals blocked, which the thread inherits: they are the program's threads'. */
static int create(void)
{
	const uint64_t all = UINT64_MAX;
	void *stack = map_stack();
	uint64_t old;
	int rc;

	if (!stack)
		return ENOMEM;
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &old, sizeof(old));
	rc = create_on(stack);
	/* A program with large thread-local data needs more stack for any thread: libc knows how much. */
	if (rc == EINVAL)
		rc = create_on(NULL);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof(old));
	return rc;
}

void worker_start(void)
{
	unsigned none = WORKER_NONE;
	int rc;

	if (atomic_load_explicit(&worker.s.state, memory_order_relaxed) != WORKER_NONE)
		return;
	process_wipe_on_fork(&worker, sizeof(worker));
	if (!atomic_compare_exchange_strong(&worker.s.state, &none, WORKER_RUNS))
		return;
	rc = create();
	if (rc) {
		log_warn("no thread to watch what this process holds (%s): what no call shows is "
			 "counted only when memory is short",
			 strerror(rc));
		atomic_store(&worker.s.state, WORKER_GONE);
		return;
	}
	if (!atomic_exchange(&has_exit_handler, true))
		atexit(stop);
}
