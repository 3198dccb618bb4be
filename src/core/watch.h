/* How often what no call shows is looked for. */
#pragma once

#include <stdint.h>

/*
 * How long to wait between two charge_watch(), ns, where the card has so many processes. What one
 * look costs the driver grows with them, and each of them looks: all together must not.
 */
int64_t watch_every_ns(unsigned processes);
