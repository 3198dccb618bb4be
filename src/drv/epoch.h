/*
 * Epochs: numbers of fences for what is freed. All that is freed in an epoch waits for the same
 * fence, which is recorded when somebody asks whether it is done (drv/gpu_fence.h): a free reads a
 * number and no more.
 *
 * Numbers ascend from 1. When one is done, so are all below it. While a capture is under way no
 * fence can be recorded: what was freed meanwhile waits for its end.
 *
 * Thread safe. Who asks passes the gate.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Starts: fork children begin with nothing. */
void epoch_init(void);

/*
 * True when nobody has passed the gate since all work was submitted that is known to be done, so
 * that nothing is under way: what is freed need not wait. Asks nothing; where many threads pass the
 * gate it is not looked for.
 */
bool epoch_is_idle(void);

/* The epoch that is open: its fence covers all work that the caller knows to be submitted. */
uint64_t epoch_open(void);

/*
 * Up to which epoch all is done. Where something was freed since the last fence was recorded and
 * few are under way, records the next.
 */
uint64_t epoch_done(void);

/*
 * True when this epoch is done; asks only where that is not known, and never waits for a gate that
 * another has shut: then it is not done yet as far as that is known.
 */
bool epoch_is_done(uint64_t epoch);

/* Waits for it until `until_ns` (clock_now_ns()). 0 or -EBUSY. */
int epoch_wait(uint64_t epoch, int64_t until_ns);
