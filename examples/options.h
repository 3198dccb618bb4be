/* What the examples share: sizes on the command line, and a driver call that must succeed. */
#pragma once

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

/* A size such as 65536, 64k, 64m or 1g; ends the program with status 2 when it is none. */
static inline uint64_t options_size(const char *text)
{
	char *end;
	uint64_t size = strtoull(text, &end, 10);
	const char *units = "kmgt", *unit = *end ? strchr(units, *end | 0x20) : NULL;

	if (end == text || *text == '-' || (*end && (!unit || end[1]))) {
		fprintf(stderr, "'%s' is not a size such as 64m\n", text);
		exit(2);
	}
	return unit ? size << (10 * (unit - units + 1)) : size;
}
