/*
 * Tests of state that a process has once: each runs in a child of its own, where nothing is set up
 * yet. What is wrong there is said by CHECK.
 */
#pragma once

#include "child.h"
#include "scratch.h"

#include <inttypes.h>

static inline void fresh_body(void *test)
{
	((void (*)(void))test)();
}

static inline void fresh_run(void **state)
{
	child_run(fresh_body, *state);
}

/* A row of cmocka's table for `static void f(void)`. */
#define fresh_test(f)                                                    \
	{                                                                \
#f, fresh_run, scratch_make, scratch_remove, (void *)(f) \
	}

/* Two numbers that must be equal, in a child. */
#define CHECK_EQ(got, want)                                                               \
	do {                                                                              \
		uint64_t check_got = (uint64_t)(got), check_want = (uint64_t)(want);      \
		if (check_got != check_want) {                                            \
			fprintf(stderr,                                                   \
				"%s:%d: child: %s is %" PRIu64 " (%" PRIx64 "), want %s," \
				" %" PRIu64 "\n",                                         \
				__FILE__, __LINE__, #got, check_got, check_got, #want,    \
				check_want);                                              \
			_exit(CHILD_FAILED);                                              \
		}                                                                         \
	} while (0)
