/* How often what no call shows is looked for. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * How long to wait between two charge_watch(), ns, where the card has so many processes. What one
 * look costs the driver grows with them, and each of them looks: all together must not.
 */
int64_t watch_every_ns(unsigned processes);

/*
 * Likewise between two questions how busy this process keeps a device: they hold up whoever makes a
 * context on the card, as 64 that asked once a second did by a seventh.
 */
int64_t watch_busy_every_ns(unsigned processes);

/* Who watches: the program's passes through the gate when it looked; rounds without one since. */
struct watch {
	uint64_t passes;
	unsigned rounds;
};

/*
 * True when a look is worth its cost in this round: the program has called the driver (`passes` is
 * gate_passes()), or it has been a while. A look has the driver stop whoever makes a context.
 */
bool watch_is_due(struct watch *watch, uint64_t passes);
