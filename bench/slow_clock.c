/*
 * To be preloaded into a program whose every instruction is counted: the monotonic clock goes SLOW_CLOCK
 * times slower. Under callgrind a program works that much slower than by itself, so that what it does by
 * the clock (a marker every 200 us) is as frequent among its calls as it is otherwise.
 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000

static uint64_t slowness(void)
{
	static uint64_t times;
	const char *text;

	if (!times) {
		text = getenv("SLOW_CLOCK");
		times = text && atoi(text) > 0 ? (uint64_t)atoi(text) : 1;
	}
	return times;
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
	int res = (int)syscall(SYS_clock_gettime, clock, out);
	uint64_t ns;

	if (res != 0 || clock != CLOCK_MONOTONIC)
		return res;
	ns = ((uint64_t)out->tv_sec * NS_PER_S + (uint64_t)out->tv_nsec) / slowness();
	out->tv_sec = (time_t)(ns / NS_PER_S);
	out->tv_nsec = (long)(ns % NS_PER_S);
	return 0;
}
