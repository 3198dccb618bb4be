/*
 * What the subcommands share: exit statuses, complaints, text that is safe to print.
 */
#pragma once

#include "base/conf.h"
#include "base/limits.h"

#include <stdbool.h>
#include <stddef.h>

enum tools_exit {
	TOOLS_OK = 0,
	TOOLS_UNHEALTHY = 1, /* doctor found a fault; the output could not be written */
	TOOLS_USAGE = 2,     /* the command line is wrong; nothing was done */
	TOOLS_FAILED = 125,  /* `ration run` itself could not do it; the program did not start */
	TOOLS_CANNOT_EXECUTE = 126,
	TOOLS_NOT_FOUND = 127,
};

/* Writes "ration COMMAND: message" to standard error. */
void tools_complain(const char *command, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Copies at most out_bytes - 1 bytes of `text`, with '?' for all that is not printable ASCII: names
 * in a region are written by others, and go to terminals and into JSON. Returns `out`.
 */
char *tools_printable(const char *text, char *out, size_t out_bytes);

/* getenv(3), as base/conf.h wants it. */
const char *tools_getenv(const char *name);

/*
 * True, with a complaint, where the operator's file sets limits of the kind: no option changes them.
 * `conf` has those of no other place.
 */
bool tools_is_operators(const char *command, const struct conf *conf, enum limits_kind kind);

/* The option that sets limits of a kind: "--mem", "--sm". */
const char *tools_limit_option(enum limits_kind kind);

/* Makes argp exit with TOOLS_USAGE and name the command "ration COMMAND" in what it writes. */
void tools_begin(const char *command, char **argv);

/*
 * Keeps the numbers of standard streams that are closed from files that are opened here, not from
 * programs that are started; and makes the exit status TOOLS_UNHEALTHY when standard output could
 * not be written.
 */
void tools_hold_streams(void);
