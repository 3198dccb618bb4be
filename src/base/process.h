/*
 * State that belongs to one process's life.
 *
 * After fork the child must own nothing of the parent's: no slot, no lock, no table. All such state
 * stands in pages of its own that the kernel clears in a child (MADV_WIPEONFORK), however the child
 * was made: fork, raw clone, from any thread. No handler runs and no pid is compared per call. What
 * is true of the program rather than of the process (the driver's addresses, say) stays outside.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Pages are up to 64 KiB on the machines we run on. */
enum { PROCESS_PAGE_BYTES = 65536 };

/*
 * Defines `static union { ...; char page[...] } name` around the fields of `type`, alone in its
 * pages; name.s is the state. All zero is the state of a new process.
 */
#define PROCESS_STATE(type, name)                                                               \
	static union {                                                                          \
		struct type s;                                                                  \
		char page[(sizeof(struct type) + PROCESS_PAGE_BYTES - 1) / PROCESS_PAGE_BYTES * \
			  PROCESS_PAGE_BYTES];                                                  \
	} name __attribute__((aligned(65536)))

/*
 * Has `state` (a PROCESS_STATE) cleared in fork children from now on. Idempotent for one state.
 * Where the kernel cannot do it, process_check() does.
 */
void process_wipe_on_fork(void *state, size_t bytes);

/*
 * Called on slow paths: in a child of a process whose kernel could not wipe, clears what
 * process_wipe_on_fork() was told of. Does nothing elsewhere.
 */
void process_check(void);
