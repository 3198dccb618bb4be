#include "base/log.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct {
	_Atomic int level; /* atomic, this process */
} log_state;

void log_set_level(enum log_level level)
{
	atomic_store_explicit(&log_state.level, (int)level, memory_order_relaxed);
}

bool log_enabled(enum log_level level)
{
	return (int)level <= atomic_load_explicit(&log_state.level, memory_order_relaxed);
}

/*
 * Writes to standard error. A pipe that nobody reads any more must not end the program, nor a file
 * that may not grow: the signals for these are blocked in this thread and, if the write raised one,
 * taken back. By system calls: libc's names for some are newer than glibc 2.28, and its write() is
 * a place where a thread may be ended, with what its caller holds.
 */
static void put(const char *line, size_t bytes)
{
	static const struct timespec at_once;
	const uint64_t pipe_signal = UINT64_C(1) << (SIGPIPE - 1);
	const uint64_t size_signal = UINT64_C(1) << (SIGXFSZ - 1), both = pipe_signal | size_signal;
	uint64_t old = 0, pending = 0, raised = 0;
	const size_t set_bytes = sizeof(old);

	syscall(SYS_rt_sigpending, &pending, set_bytes);
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &both, &old, set_bytes);
	if (syscall(SYS_write, STDERR_FILENO, line, bytes) < 0)
		raised = errno == EPIPE ? pipe_signal : errno == EFBIG ? size_signal : 0;
	raised &= ~pending;
	if (raised)
		syscall(SYS_rt_sigtimedwait, &raised, NULL, &at_once, set_bytes);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, set_bytes);
}

void log_write(enum log_level level, const char *fmt, ...)
{
	static const char *const names[] = { "", "warning: ", "", "debug: " };
	char line[512];
	int saved = errno;
	int n = snprintf(line, sizeof(line), "ration: %s", names[level]);
	va_list ap;

	va_start(ap, fmt);
	errno = saved;
	n += vsnprintf(line + n, sizeof(line) - (size_t)n, fmt, ap);
	va_end(ap);
	if (n > (int)sizeof(line) - 2)
		n = (int)sizeof(line) - 2;
	line[n++] = '\n';
	put(line, (size_t)n);
	errno = saved;
}
