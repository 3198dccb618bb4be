#include "base/turn.h"

#include "base/clock.h"
#include "base/sys.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NAP_NS (10 * NSEC_PER_MSEC)

static bool is_alive(unsigned tid)
{
	int saved = errno;
	bool is = syscall(SYS_tgkill, getpid(), tid, 0) == 0 || errno != ESRCH;

	errno = saved;
	return is;
}

bool turn_take(struct turn *turn, int64_t wait_ns)
{
	unsigned me = (unsigned)sys_gettid(), owner = 0;
	int64_t end_ns = clock_now_ns() + wait_ns;

	while (!__atomic_compare_exchange_n(&turn->tid, &owner, me, false, __ATOMIC_ACQUIRE,
					    __ATOMIC_RELAXED)) {
		if (owner == me || clock_now_ns() >= end_ns)
			return false;
		if (sys_futex_wait(&turn->tid, owner, NAP_NS) == 0 || is_alive(owner))
			owner = 0;
	}
	return true;
}

void turn_give(struct turn *turn)
{
	__atomic_store_n(&turn->tid, 0, __ATOMIC_RELEASE);
	sys_futex_wake_all(&turn->tid);
}
