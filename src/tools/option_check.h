/* Long options that a command does not have: argp names no other. */
#pragma once

#include <argp.h>
#include <stdbool.h>

/* Where the options of a command line end. */
enum option_end {
	OPTION_END_AT_WORD, /* what follows is another program's */
	OPTION_END_AT_DASHES,
};

/*
 * True when every long option in argv is one of `table` or of those that each command has; else the
 * options that there are have been written to standard error.
 */
bool option_check(const char *command, int argc, char **argv, const struct argp_option *table,
		  enum option_end end);
