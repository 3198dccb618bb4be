#include "core/reaper.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "base/sys.h"
#include "core/quota.h"
#include "shm/slot.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#define SERVE_WAIT_NS (300 * NSEC_PER_MSEC)
#define SERVE_NAP_NS (200 * NSEC_PER_USEC)

/* atomic */
struct reaper_state {
	_Atomic(void (*)(void)) wake; /* NULL: nobody serves */
	/* Requests so far, and up to which they are served; rc is what the last of them said. */
	_Atomic uint64_t wanted, served;
	_Atomic int rc;
	_Atomic bool has_complained;
};
PROCESS_STATE(reaper_state, state);

void reaper_serve_here(void (*wake)(void))
{
	process_wipe_on_fork(&state, sizeof(state));
	if (unshare(CLONE_FS) == 0)
		atomic_store(&state.s.wake, wake);
}

bool reaper_serve(struct region *r, int own)
{
	uint64_t wanted = atomic_load(&state.s.wanted);

	if (wanted == atomic_load(&state.s.served))
		return false;
	atomic_store(&state.s.rc, slot_reap(r, own));
	atomic_store(&state.s.served, wanted);
	return true;
}

/* What may only look so from another root directory. */
static bool is_out_of_reach(int rc)
{
	return rc == -ENOENT || rc == -ENOTDIR || rc == -EACCES || rc == -ELOOP || rc == -ESTALE;
}

/* As slot_reap(), by who can. */
static int reap(struct region *r, int own)
{
	void (*wake)(void) = atomic_load(&state.s.wake);
	int64_t end_ns = clock_now_ns() + SERVE_WAIT_NS;
	int rc = slot_reap(r, own);
	uint64_t wanted;

	if (!wake || !is_out_of_reach(rc))
		return rc;
	wanted = atomic_fetch_add(&state.s.wanted, 1) + 1;
	wake();
	while (atomic_load(&state.s.served) < wanted) {
		if (clock_now_ns() > end_ns)
			return rc;
		clock_sleep_ns(SERVE_NAP_NS);
	}
	return atomic_load(&state.s.rc);
}

void reaper_reap(struct region *r, int own)
{
	int held = sys_cancel_hold();
	int rc = reap(r, own);

	if (rc < 0)
		quota_check_path();
	if (rc < 0 && quota_has_region(clock_now_ns()) &&
	    !atomic_exchange(&state.s.has_complained, true))
		log_warn(
			"region %s cannot be opened again (%s): what processes that die hold stays "
			"counted",
			r->path, strerror(-rc));
	sys_cancel_release(held);
}
