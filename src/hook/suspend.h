/*
 * Suspension: what the region asks of the tenant (enum ration_suspend), or a signal of the process
 * (hook/signals.h), done by the worker. The gate is shut and stays so, all objects leave the
 * device, and come back under their addresses before it opens again.
 *
 * For RATION_SUSPEND_DEEP they go to pages of the process, and the driver keeps no host memory for
 * us: with some, a card cannot restore the process from a checkpoint. Whoever asks for that may
 * lock the process in the driver then: the worker waits in its next call until it is unlocked, and
 * has nothing meanwhile that others wait for. Where it cannot go so far it is suspended as usual.
 *
 * Where it does not go now (work that does not end, a capture, no room in host memory) all is put
 * back, the program goes on, why is said in the region, and it is tried again: after 10 ms at
 * first, later once a second.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct region;

/* With the start of a member of a movable tenant. The region is kept. */
void suspend_start(struct region *region);

/*
 * Does what is asked, if it can be done. When it is to be called again (clock_now_ns()). The
 * worker.
 */
int64_t suspend_tick(void);

/* True when a suspension is asked for that has not begun: suspend_tick() has to do. The worker. */
bool suspend_is_asked(void);

/* True while the worker has the gate shut. */
bool suspend_is_shut(void);

/* True then, and while it is about to: what is under way may have to be waited for. */
bool suspend_may_shut(void);

/* The program ends: what has not begun does not begin. */
void suspend_end(void);
