/* A worker's hold on its device: it executes only while it is this process's turn. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cuda_turn {
	int index; /* of the device in the machine */
	bool is_held;
	uint64_t start_ns; /* since when nothing was reported to the machine */
};

/* CLOCK_MONOTONIC now. */
uint64_t cuda_turn_now_ns(void);

/* Waits for the turn. The driver's lock must not be held. */
void cuda_turn_begin(struct cuda_turn *turn);

/* Reports what was executed and lets others execute. The driver's lock must not be held. */
void cuda_turn_end(struct cuda_turn *turn);

/* To be called now and then by what executes: when the turn is over, waits for the next one and
 * says true. */
bool cuda_turn_check(struct cuda_turn *turn);
