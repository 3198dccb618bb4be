#include "core/root.h"

#include "base/clock.h"
#include "base/process.h"
#include "base/sys.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define SERVE_WAIT_NS NSEC_PER_SEC
#define SERVE_NAP_NS (200 * NSEC_PER_USEC)

/* How far the request is. Who asks takes back what is only wanted; what is begun ends soon. */
enum request { REQUEST_NONE, REQUEST_WANTED, REQUEST_BEGUN, REQUEST_DONE };

struct root_state {
	/* atomic */
	_Atomic(void (*)(void)) wake; /* NULL: nobody serves */
	_Atomic int server;           /* its thread id, constant with `wake` */
	_Atomic int request;          /* enum request; orders the next three */
	/* The one request. */
	int (*job)(void *arg);
	void *arg;
	int rc;
	pthread_mutex_t mutex; /* one asks at a time; zero is an unlocked one */
};
PROCESS_STATE(root_state, state);

bool root_serve_here(void (*wake)(void))
{
	process_wipe_on_fork(&state, sizeof(state));
	if (unshare(CLONE_FS) < 0)
		return false;
	atomic_store(&state.s.server, (int)sys_gettid());
	atomic_store(&state.s.wake, wake);
	return true;
}

bool root_serve(void)
{
	int wanted = REQUEST_WANTED;

	if (!atomic_compare_exchange_strong(&state.s.request, &wanted, REQUEST_BEGUN))
		return false;
	state.s.rc = state.s.job(state.s.arg);
	atomic_store(&state.s.request, REQUEST_DONE);
	return true;
}

/* What may only look so from another root directory. */
static bool is_out_of_reach(int rc)
{
	return rc == -ENOENT || rc == -ENOTDIR || rc == -EACCES || rc == -ELOOP || rc == -ESTALE;
}

/* True when it was done. mutex held. */
static bool await(void)
{
	int64_t end_ns = clock_now_ns() + SERVE_WAIT_NS;
	int wanted = REQUEST_WANTED;

	while (atomic_load(&state.s.request) != REQUEST_DONE) {
		if (clock_now_ns() > end_ns &&
		    atomic_compare_exchange_strong(&state.s.request, &wanted, REQUEST_NONE))
			return false;
		wanted = REQUEST_WANTED;
		clock_sleep_ns(SERVE_NAP_NS);
	}
	return true;
}

int root_do(int (*job)(void *arg), void *arg)
{
	void (*wake)(void) = atomic_load(&state.s.wake);
	int rc = job(arg);

	if (!wake || !is_out_of_reach(rc) || atomic_load(&state.s.server) == (int)sys_gettid())
		return rc;
	pthread_mutex_lock(&state.s.mutex);
	state.s.job = job;
	state.s.arg = arg;
	atomic_store(&state.s.request, REQUEST_WANTED);
	wake();
	if (await())
		rc = state.s.rc;
	atomic_store(&state.s.request, REQUEST_NONE);
	pthread_mutex_unlock(&state.s.mutex);
	return rc;
}
