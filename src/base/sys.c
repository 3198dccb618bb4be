#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434 /* Linux 5.3, the same number everywhere */
#endif

/*
 * On x86-64 and aarch64 the kernel's struct stat is libc's. A sandbox may know only the calls of
 * the libc that it was written for: where one is refused, the other says the same.
 */
int sys_fstat(int fd, struct stat *out_stat)
{
	int rc = (int)syscall(SYS_fstat, fd, out_stat);

	if (rc < 0 && (errno == EPERM || errno == ENOSYS))
		rc = (int)syscall(SYS_newfstatat, fd, "", out_stat, AT_EMPTY_PATH);
	return rc;
}

int sys_stat(const char *path, struct stat *out_stat)
{
	int rc = (int)syscall(SYS_newfstatat, AT_FDCWD, path, out_stat, 0);

#ifdef SYS_stat
	if (rc < 0 && (errno == EPERM || errno == ENOSYS))
		rc = (int)syscall(SYS_stat, path, out_stat);
#endif
	return rc;
}

pid_t sys_gettid(void)
{
	return (pid_t)syscall(SYS_gettid);
}

int sys_pidfd_open(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

bool sys_pidfd_has_ended(int fd)
{
	struct pollfd look = { .fd = fd, .events = POLLIN };
	struct timespec at_once = { 0, 0 };

	/* Not poll(2), which is a cancellation point. */
	return syscall(SYS_ppoll, &look, 1, &at_once, NULL, 0) == 1 && look.revents & POLLIN;
}

/* True when all pages of the memory are mapped; that they can be read is taken for granted. */
static bool is_mapped(const void *at, size_t bytes)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)at & ~(page - 1), end;
	unsigned char there;

	if (__builtin_add_overflow((uintptr_t)at, bytes, &end))
		return false;
	for (; from < end; from += page)
		if (mincore((void *)from, 1, &there) < 0)
			return false;
	return true;
}

int sys_copy_own(void *to, const void *from, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		struct iovec here = { (char *)to + done, bytes - done };
		struct iovec there = { (char *)(uintptr_t)from + done, bytes - done };
		long n = syscall(SYS_process_vm_readv, getpid(), &here, 1, &there, 1, 0);

		if (n < 0 && (errno == ENOSYS || errno == EPERM) && is_mapped(from, bytes)) {
			memcpy(to, from, bytes);
			return 0;
		}
		if (n <= 0)
			return -1;
		done += (size_t)n;
	}
	return 0;
}

int sys_futex_wait(const void *word, unsigned value, long long wait_ns)
{
	struct timespec t = { wait_ns / 1000000000, wait_ns % 1000000000 };

	return (int)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &t, NULL, 0);
}

void sys_futex_wake_all(const void *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

int sys_futex_wait_shared(const void *word, unsigned value, long long wait_ns, unsigned bits)
{
	struct timespec t;

	/* With bits the kernel takes a point of CLOCK_MONOTONIC. */
	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += wait_ns / 1000000000;
	t.tv_nsec += wait_ns % 1000000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_nsec -= 1000000000;
		t.tv_sec++;
	}
	return (int)syscall(SYS_futex, word, FUTEX_WAIT_BITSET, value, &t, NULL, bits);
}

void sys_futex_wake_shared(const void *word, unsigned bits)
{
	syscall(SYS_futex, word, FUTEX_WAKE_BITSET, INT_MAX, NULL, NULL, bits);
}

int sys_cancel_hold(void)
{
	int held = PTHREAD_CANCEL_ENABLE;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &held);
	return held;
}

void sys_cancel_release(int held)
{
	pthread_setcancelstate(held, &held);
}
