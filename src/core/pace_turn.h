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

/*
 * Of those that are held the one that was held longest goes first: others wait for it while it
 * wakes. One that does not come is passed over.
 */

/* This process is held since then, and asks again at wake_ns at the latest. */
void pace_turn_wait(struct pace *pace, int64_t since_ns, int64_t wake_ns, int64_t now_ns);

/* Until when one that is held since then (0: not held) waits for who goes before it; 0: nobody. */
int64_t pace_turn_before_ns(const struct pace *pace, int64_t since_ns, int64_t now_ns);

/* This process goes. */
void pace_turn_go(struct pace *pace);

/* When another process's turn ends; 0: nobody has one. */
int64_t pace_turn_others_ns(const struct pace *pace, int64_t now_ns);

/*
 * Work of `ns` was let through: the turn is this process's for so much more, unless another has
 * it. True when another has it, or had it within the last second.
 */
bool pace_turn_extend(struct pace *pace, int64_t ns, int64_t now_ns);
