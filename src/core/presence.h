/*
 * Whether the region is still the one that this process joined: not cut short, cleared, made anew
 * or replaced. What is lost once stays lost, and its pages are not touched any more.
 *
 * Thread safe.
 */
#pragma once

#include "shm/region.h"

#include <stdbool.h>
#include <stdint.h>

/* Starts; the region is kept, not owned. */
void presence_init(struct region *region);

/*
 * False when it is lost. `now_ns` is clock_now_ns(): that the file has not been cut short is asked
 * of the kernel, once in a millisecond.
 */
bool presence_is_there(int64_t now_ns);

/* Sees that it was unlinked, or another is in its place. */
void presence_check_path(void);

/* It is lost, which is said once; and whether that was found. */
void presence_lose(void);
bool presence_is_lost(void);
