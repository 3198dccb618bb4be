#include "tools/tools_common.h"

#include <argp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

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

void tools_begin(const char *command, char **argv)
{
	static char name[64];

	snprintf(name, sizeof(name), "ration %s", command);
	argp_err_exit_status = TOOLS_USAGE;
	argv[0] = name;
}
