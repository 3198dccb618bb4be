/*
 * What a function's launches cost over the link when something that they use lies in host memory.
 *
 * Some read each byte once, some a hundred times (a product of matrices, tile by tile: the device
 * keeps little of the host's memory at hand), and some a few bytes of something large. So launches
 * are timed now and then. What one takes longer than those that found all on the device is what
 * went over the link, and that over the bytes in host memory is how often it uses each.
 *
 * Thread safe; a table that is full learns no new functions. Fork children begin with nothing.
 */
#pragma once

#include <stdint.h>

void link_cost_init(void);

/* How much a launch of it uses of each byte, in HEAT_USE; what is unknown uses all once. */
uint32_t link_cost_weight(uint64_t function);

/*
 * One of its launches took so long, with so much of what it used in host memory. `function` is any
 * number that stands for launches of a kind; not 0.
 */
void link_cost_learn(uint64_t function, int64_t ns, uint64_t far_bytes);
