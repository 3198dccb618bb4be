#include "tools/tools_common.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void tools_complain(const char *command, const char *fmt, ...)
{
	char line[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	fprintf(stderr, "ration%s%s: %s\n", *command ? " " : "", command, line);
}

char *tools_printable(const char *text, char *out, size_t out_bytes)
{
	size_t n = 0;

	for (; text[n] && n + 1 < out_bytes; n++)
		out[n] = text[n] >= ' ' && text[n] <= '~' ? text[n] : '?';
	out[n] = '\0';
	return out;
}

const char *tools_getenv(const char *name)
{
	return getenv(name);
}

bool tools_is_operators(const char *command, const struct conf *conf, enum limits_kind kind)
{
	if (!*conf_spec(conf, kind))
		return false;
	tools_complain(command, "the limits are set by %s; %s cannot change them",
		       conf_source(conf, kind), tools_limit_option(kind));
	return true;
}

const char *tools_limit_option(enum limits_kind kind)
{
	return kind == LIMITS_MEM ? "--mem" : "--sm";
}

void tools_begin(const char *command, char **argv)
{
	static char name[64];

	snprintf(name, sizeof(name), "ration %s", command);
	argp_err_exit_status = TOOLS_USAGE;
	argv[0] = name;
}

/* At exit. What could not be written by then, argp's help included, is a failure. */
static void check_output(void)
{
	bool has_failed = ferror(stdout);
	int error = 0;

	if (fclose(stdout) != 0) {
		error = errno;
		has_failed = true;
	}
	if (!has_failed)
		return;
	tools_complain("", "standard output cannot be written%s%s%s", error ? " (" : "",
		       error ? strerror(error) : "", error ? ")" : "");
	_exit(TOOLS_UNHEALTHY);
}

void tools_hold_streams(void)
{
	/* The wrong way round, so that what uses it fails as on a closed one. */
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			open("/dev/null", (fd == 0 ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
	atexit(check_output);
}
