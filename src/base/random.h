/* Numbers that look random, for who spreads things out: nobody's secrets, the same in each run. */
#pragma once

#include <stdint.h>

/* The next after *state, never 0 (xorshift, period 2^32 - 1). The caller's state is not 0. */
static inline uint32_t random_next(uint32_t *state)
{
	uint32_t x = *state;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	*state = x;
	return x;
}
