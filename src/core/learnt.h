/*
 * What processes of the tenant learn for each other and leave in the region. It is in reach of
 * others: who reads it believes no more than could be.
 *
 * Thread safe.
 */
#pragma once

#include "core/device.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * What one context was last seen to cost on the device, by any process of the tenant: 0 = not
 * known. And a process that has seen it says so.
 */
uint64_t learnt_context_bytes(struct dev dev);
void learnt_note_context(struct dev dev, uint64_t bytes);

/*
 * The least that one was seen to cost by processes that each measured it alone; 0 until one was
 * sure or two have, since a single figure may be a mistake that nobody could ever correct.
 */
uint64_t learnt_context_least(struct dev dev);

/* What a process adds to that. */
enum learnt_seer {
	LEARNT_AGAIN,  /* once more */
	LEARNT_ONCE,   /* the first time */
	LEARNT_SURELY, /* likewise, and nothing else can be in it */
};
void learnt_saw_context(struct dev dev, uint64_t bytes, enum learnt_seer seer);
