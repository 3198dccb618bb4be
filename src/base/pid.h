/* Process ids, and the namespaces they are of. */
#pragma once

#include <stdint.h>

/* The pid namespace we are in, by its inode; 0 where /proc has not shown it yet. */
uint64_t pid_namespace(void);

/* Likewise the IPC namespace. */
uint64_t pid_ipc_namespace(void);

/*
 * When process `pid` of our own namespace began, as it reads that itself: clock_process_start(),
 * or 0 where /proc is another namespace's, or its time namespace is not known to be ours.
 */
uint64_t pid_start(int pid);

/*
 * How a process is called in our own namespace that calls itself `inner` in the namespace with this
 * inode, and began at `start_ticks` (pid_start(); 0: not known). 0 when that namespace is
 * not below ours, or /proc does not show it. Looks at every process there is.
 */
int pid_here(int inner, uint64_t namespace, uint64_t start_ticks);
