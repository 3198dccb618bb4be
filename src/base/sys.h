/*
 * System calls whose libc wrappers are newer than glibc 2.28 or missing in musl.
 */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/* As fstat(2): 0, or -1 with errno. */
int sys_fstat(int fd, struct stat *out_stat);

/* As stat(2): 0, or -1 with errno. */
int sys_stat(const char *path, struct stat *out_stat);

/* The calling thread's id. */
pid_t sys_gettid(void);

/* A descriptor of process `pid`, closed on exec, or -1 with errno; ENOSYS before Linux 5.3. */
int sys_pidfd_open(pid_t pid);

/* Whether such a descriptor's process has ended with all its threads, waited for or not. */
bool sys_pidfd_has_ended(int fd);

/*
 * Waits while *word == value, at most `wait_ns`, within this process. 0, or -1 with errno EAGAIN
 * (another value), ETIMEDOUT or EINTR.
 */
int sys_futex_wait(const void *word, unsigned value, long long wait_ns);

/* Wakes all that wait on `word` within this process. */
void sys_futex_wake_all(const void *word);

/*
 * As these between processes, on a word of memory that they share: who waits with `bits` is woken
 * by who has one of them.
 */
int sys_futex_wait_shared(const void *word, unsigned value, long long wait_ns, unsigned bits);
void sys_futex_wake_shared(const void *word, unsigned bits);

/*
 * A thread must not be cancelled while it holds what others wait for. hold returns what release
 * wants; both nest.
 */
int sys_cancel_hold(void);
void sys_cancel_release(int held);

/*
 * Copies memory of this process that may not be there: 0, or -1 with errno, EFAULT where it is not.
 */
int sys_copy_own(void *to, const void *from, size_t bytes);
