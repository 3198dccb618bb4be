#include "base/clock.h"

#include "base/proc_stat.h"
#include "base/sys.h"

void clock_sleep_ns(int64_t ns)
{
	struct timespec t = { ns / NSEC_PER_SEC, ns % NSEC_PER_SEC };
	/* Whoever sleeps here has begun something that others see: it is not cancelled in it. */
	int held = sys_cancel_hold();

	nanosleep(&t, NULL);
	sys_cancel_release(held);
}

int64_t clock_nap_ns(int64_t waited_ns)
{
	const int64_t least_ns = 50 * NSEC_PER_USEC, most_ns = 32 * NSEC_PER_MSEC;
	const int64_t soon_ns = 2 * NSEC_PER_MSEC;
	int64_t nap_ns = waited_ns < soon_ns ? waited_ns : soon_ns;

	if (nap_ns < waited_ns / 16)
		nap_ns = waited_ns / 16;
	if (nap_ns < least_ns)
		return least_ns;
	return nap_ns < most_ns ? nap_ns : most_ns;
}

uint64_t clock_process_start(int pid)
{
	struct proc_stat stat;

	return proc_stat_read(pid, &stat) ? stat.start_ticks : 0;
}
