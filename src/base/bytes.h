/* Sums of bytes that stop at their ends. */
#pragma once

#include <stdint.h>

/* The smaller one. */
static inline uint64_t bytes_least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* What `a` is more than `b`: 0 when it is not. */
static inline uint64_t bytes_beyond(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* UINT64_MAX when it would be more. */
static inline uint64_t bytes_sum(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* UINT64_MAX when it would be more. */
static inline uint64_t bytes_product(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* The next multiple of `unit`; UINT64_MAX when there is none. */
static inline uint64_t bytes_round_up(uint64_t bytes, uint64_t unit)
{
	return bytes > UINT64_MAX - unit ? UINT64_MAX : (bytes + unit - 1) / unit * unit;
}
