/*
 * Who is asked before host memory is taken that objects lie in, and told when it was given back:
 * the tenant has a bound for it. Memory that no object has any more is the tenant's while it is
 * kept at hand.
 */
#pragma once

#include <stdint.h>

struct bo_host {
	void *arg;
	/* 0, or -ENOSPC: it would pass the bound. */
	int (*take)(void *arg, uint64_t bytes);
	/* It is the machine's again. */
	void (*give)(void *arg, uint64_t bytes);
	/* So much more (less) of what was taken is kept at hand. */
	void (*keep)(void *arg, int64_t bytes);
};
