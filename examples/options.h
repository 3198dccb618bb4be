/* What the examples share: numbers and sizes on the command line, and a driver call that must succeed. */
#pragma once

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi/cuda.h"

#define MIB ((uint64_t)1 << 20)

/* Runs a driver call; on failure says which and why, and ends the program with status 1. */
#define CHECK(call)                                     \
	do {                                            \
		CUresult check_res = (call);            \
		if (check_res != CUDA_SUCCESS)          \
			options_fail(#call, check_res); \
	} while (0)

/* "CUDA_ERROR_OUT_OF_MEMORY" for 2. */
static inline const char *options_error(CUresult res)
{
	const char *name = NULL;

	return cuGetErrorName(res, &name) == CUDA_SUCCESS && name ? name : "an unknown error";
}

static inline void options_fail(const char *call, CUresult res)
{
	fprintf(stderr, "%.*s: %s\n", (int)(strchr(call, '(') - call), call, options_error(res));
	exit(1);
}

/* Ends the program with status 2 and says what is wrong and what would be right. */
static inline void options_refuse(const char *what, const char *text, const char *want)
{
	fprintf(stderr, "%s: '%s' is not %s\n", what, text, want);
	exit(2);
}

/* A whole number from `min` to `max`. `what` is the option. */
static inline uint64_t options_number(const char *what, const char *text, uint64_t min,
				      uint64_t max)
{
	char want[80], *end;
	uint64_t number;

	errno = 0;
	number = strtoull(text, &end, 10);
	(void)snprintf(want, sizeof(want), "a whole number from %llu to %llu",
		       (unsigned long long)min, (unsigned long long)max);
	if (*text < '0' || *text > '9' || *end || errno || number < min || number > max)
		options_refuse(what, text, want);
	return number;
}

/* A size such as 65536, 64k, 64m or 1g, from 1 byte to 64t. `what` is the option. */
static inline uint64_t options_size(const char *what, const char *text)
{
	static const char want[] = "a size from 1 to 64t such as 64m";
	const char *units = "kmgt", *unit;
	uint64_t size, most = (uint64_t)64 << 40;
	int shift = 0;
	char *end;

	errno = 0;
	size = strtoull(text, &end, 10);
	unit = *end ? strchr(units, *end | 0x20) : NULL;
	if (unit)
		shift = 10 * (int)(unit - units + 1);
	if (*text < '0' || *text > '9' || (*end && (!unit || end[1])) || errno || !size ||
	    size > most >> shift)
		options_refuse(what, text, want);
	return size << shift;
}

/* Answers --help and refuses words that are left over. */
static inline void options_help(const char *text)
{
	fputs(text, stdout);
	exit(0);
}

static inline void options_end(int argc, char **argv, int index)
{
	if (index >= argc)
		return;
	fprintf(stderr, "'%s' is one argument too many; see --help\n", argv[index]);
	exit(2);
}
