/*
 * Passes the gate COUNT times, or only calls as often; what lies between is the gate's cost.
 *
 *   gate pass|nothing COUNT
 */
#include "core/gate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A hook that does nothing else. */
__attribute__((noinline)) static void pass(void)
{
	uint32_t was_in = gate_enter();

	/* Here the driver would be called. */
	__asm__ volatile("" ::: "memory");
	gate_leave(was_in);
}

__attribute__((noinline)) static void nothing(void)
{
	__asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv)
{
	void (*fn)(void) = argc > 1 && strcmp(argv[1], "pass") == 0 ? pass : nothing;
	long count = argc > 2 ? atol(argv[2]) : 0;

	if (count <= 0) {
		fprintf(stderr, "usage: gate pass|nothing COUNT\n");
		return 2;
	}
	for (long i = 0; i < count; i++)
		fn();
	return 0;
}
