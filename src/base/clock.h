/* Time in nanoseconds. */
#pragma once

#include <stdint.h>

#define NSEC_PER_USEC INT64_C(1000)
#define NSEC_PER_MSEC INT64_C(1000000)
#define NSEC_PER_SEC INT64_C(1000000000)

/* CLOCK_MONOTONIC in ns. */
int64_t clock_now_ns(void);

/* Sleeps about `ns`; returns early on a signal. No cancellation point. */
void clock_sleep_ns(int64_t ns);

/* Start time of process `pid` in clock ticks since boot, from /proc; 0 when it cannot be read. */
uint64_t clock_process_start(int pid);
