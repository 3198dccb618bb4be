/*
 * Holes: what the program has freed of pools in stream order, in pieces larger than a pool's step.
 * "Memory freed in a stream can be reused at once by an allocation in the same stream": with a hole
 * of a stream at hand an allocation in it does not make the pool grow, so nothing need be reserved
 * for that. Only for requests for which a full tenant has no room to be in doubt (core/pool.h);
 * small ones do with the step.
 *
 * What is not known here is no hole, so losing one costs a wait and breaks nothing. A hole is known
 * before the driver has it and gone before anybody may count on it: allocations are entered before
 * they are over, and who counts on a hole is alone meanwhile.
 *
 * Thread safe; nothing here calls the driver.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Starts: fork children begin with nothing. */
void hole_init(void);

/*
 * Around an allocation of a pool: waits while another thread is alone, some tenths of a second at
 * most.
 */
void hole_call_begin(void);
void hole_call_end(void);

/*
 * In place of these: no other allocation is under way until hole_alone_end(). False where that
 * cannot be had in some milliseconds.
 */
bool hole_alone_begin(void);
void hole_alone_end(void);

/* The pool gave this out. */
void hole_given(const void *pool, uint64_t addr, uint64_t bytes);

/*
 * Before the driver's free in the stream (its number; 0: none is known), and after it: false when
 * it did not free.
 */
void hole_free_begin(uint64_t addr, uint64_t stream);
void hole_free_end(uint64_t addr, bool is_freed);

/* True when the stream has a hole of so many bytes in the pool. The caller is alone. */
bool hole_find(const void *pool, uint64_t stream, uint64_t bytes);

/* True when anything large was given out: then frees are of interest. One load. */
bool hole_any(void);

/* The pool may have given back to the card what is free; NULL: every pool. */
void hole_drop(const void *pool);
