/*
 * Turns: where other processes use the device, those of one tenant that were held go one after
 * another. It runs one process at a time, and two that are let through at once would both wait for
 * it to turn to them.
 *
 * A turn lasts as long as what was let through in it should take. Nobody has to end it, so who
 * goes idle or dies in it is in nobody's way for longer, and what waits for another process's work
 * soon goes too. One word of the region, changed by compare-and-swap.
 */
#pragma once

#include "core/pace.h"

/* When another process's turn ends; 0: nobody has one. */
int64_t pace_turn_others_ns(const struct pace *pace, int64_t now_ns);

/*
 * Work of `ns` was let through: the turn is this process's for so much more, unless another has
 * it. True when another has it, or had it within the last second.
 */
bool pace_turn_extend(struct pace *pace, int64_t ns, int64_t now_ns);
