/* The simulation's clock and its queue of events: what is due first happens first, in a fixed order. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct queue_event {
	int64_t at_ns;
	uint64_t order;
	void (*happen)(void *arg, uint64_t tag);
	void *arg;
	uint64_t tag;
};

struct queue {
	int64_t now_ns;
	uint64_t order;
	struct queue_event *events; /* a heap, grown as needed */
	unsigned count, room;
	uint64_t random;
};

/* Calls happen(arg, tag) at at_ns, or now if that is past. */
void queue_at(struct queue *queue, int64_t at_ns, void (*happen)(void *, uint64_t), void *arg,
	      uint64_t tag);

/* Lets everything happen that is due before end_ns. */
void queue_run(struct queue *queue, int64_t end_ns);

void queue_free(struct queue *queue);

/* Uniform in [0, 1). */
double queue_random(struct queue *queue);
