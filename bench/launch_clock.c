/*
 * To be preloaded into a program whose every instruction is counted: from its first launch on the
 * monotonic clock goes by LAUNCH_CLOCK nanoseconds with each launch that it says it has made
 * (launches_made), and beside that REST times slower. What is done by the clock (a marker every
 * 200 us) is as frequent among its calls as it is on a card then, whoever else has the processor.
 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000
#define REST 1000

/* The program's. */
extern const volatile uint64_t launches_made __attribute__((weak));

static uint64_t launch_ns(void)
{
	static uint64_t ns;
	const char *text;

	if (!ns) {
		text = getenv("LAUNCH_CLOCK");
		ns = text && atoi(text) > 0 ? (uint64_t)atoi(text) : 1;
	}
	return ns;
}

/* Where it began to go so: as the clock was then. */
static uint64_t begin_ns(uint64_t now_ns)
{
	static uint64_t begin;
	uint64_t none = 0;

	__atomic_compare_exchange_n(&begin, &none, now_ns, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	return __atomic_load_n(&begin, __ATOMIC_RELAXED);
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
	uint64_t launches = &launches_made ? launches_made : 0, now_ns, from_ns;
	int res = (int)syscall(SYS_clock_gettime, clock, out);

	if (res != 0 || clock != CLOCK_MONOTONIC || !launches)
		return res;
	now_ns = (uint64_t)out->tv_sec * NS_PER_S + (uint64_t)out->tv_nsec;
	from_ns = begin_ns(now_ns);
	if (now_ns > from_ns)
		now_ns = from_ns + (now_ns - from_ns) / REST;
	now_ns += launches * launch_ns();
	out->tv_sec = (time_t)(now_ns / NS_PER_S);
	out->tv_nsec = (long)(now_ns % NS_PER_S);
	return 0;
}
