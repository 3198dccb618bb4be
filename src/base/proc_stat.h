/* What /proc/PID/stat says of a process. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Flag of the kernel's task: its exit has begun (PF_EXITING). */
#define PROC_STAT_EXITING UINT64_C(0x4)

/* Of the thread that the process began with, but for `threads`. */
struct proc_stat {
	char state;
	uint64_t flags;
	uint64_t threads;     /* of the process, it too */
	uint64_t start_ticks; /* since boot */
};

/* False where it cannot be read. No cancellation point is passed with anything held. */
bool proc_stat_read(int pid, struct proc_stat *out_stat);
