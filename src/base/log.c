#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
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
	if (write(STDERR_FILENO, line, (size_t)n) < 0) {
		/* Nowhere is left to say so. */
	}
	errno = saved;
}
