/* Process ids, and the namespaces they are of. */
#pragma once

#include <stdint.h>

/* The pid namespace we are in, by its inode; 0 where /proc has not shown it yet. */
uint64_t pid_namespace(void);

/* Likewise the IPC namespace. */
uint64_t pid_ipc_namespace(void);

/* Likewise the mount namespace of the calling thread. */
uint64_t pid_mount_namespace(void);

/*
 * When process `pid` of our own namespace began, as it reads that itself: clock_process_start(),
 * or 0 where /proc is another namespace's, or its time namespace is not known to be ours.
 */
uint64_t pid_start(int pid);

/* How far a process is with its end. */
enum pid_life {
	/* It runs; /proc does not say whether its exit has begun, or whether it is the same. */
	PID_HIDDEN,
	PID_RUNS,
	/*
	 * Its exit has begun, or that of the thread it began with, and some of it is left; for who
	 * knows that it gave up something that ends with all its threads: what it had open is being
	 * closed.
	 */
	PID_ENDING,
	/* Nothing of it is open any more; waited for or not. */
	PID_ENDED,
};

/*
 * That of process `pid` of our own namespace, which began at `start_ticks` (pid_start(); 0: not
 * known). Another process by that number: it has ended.
 */
enum pid_life pid_look(int pid, uint64_t start_ticks);

/*
 * How a process is called in our own namespace that calls itself `inner` in the namespace with this
 * inode, and began at `start_ticks` (pid_start(); 0: not known). 0 when that namespace is
 * not below ours, or /proc does not show it. Looks at every process there is.
 */
int pid_here(int inner, uint64_t namespace, uint64_t start_ticks);
