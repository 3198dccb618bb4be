/* Time in nanoseconds. */
#pragma once

#include <stdint.h>
#include <time.h>

#define NSEC_PER_USEC INT64_C(1000)
#define NSEC_PER_MSEC INT64_C(1000000)
#define NSEC_PER_SEC INT64_C(1000000000)

/* The earlier or shorter of two; the later or longer. */
static inline int64_t clock_least_ns(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t clock_most_ns(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* CLOCK_MONOTONIC in ns. */
static inline int64_t clock_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * NSEC_PER_SEC + t.tv_nsec;
}

/* Sleeps about `ns`; returns early on a signal. No cancellation point. */
void clock_sleep_ns(int64_t ns);

/*
 * How long to sleep, ns, before asking once more for what was asked for in vain for `waited_ns`:
 * from 50 us as long as it was waited, soon 2 ms; and from 32 ms on a sixteenth of the wait up to
 * 32 ms, since where many wait for long their questions are what keeps the others from their work.
 */
int64_t clock_nap_ns(int64_t waited_ns);

/* Start time of process `pid` in clock ticks since boot, from /proc; 0 when it cannot be read. */
uint64_t clock_process_start(int pid);
