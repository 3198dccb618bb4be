/*
 * A turn: one thread of the process at a time. Unlike a mutex it may be held across a call into
 * somebody else's library: who waits gives up after a while, a signal handler that interrupted the
 * holder is told at once, and the turn of a thread that ended with it goes to the next.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* All zero: nobody has it. Atomic; a futex. */
struct turn {
	unsigned tid;
};

/* Waits for the turn, up to `wait_ns`. True when the calling thread has it. */
bool turn_take(struct turn *turn, int64_t wait_ns);

/* Gives a turn that was taken to the next; in the thread that took it. */
void turn_give(struct turn *turn);
