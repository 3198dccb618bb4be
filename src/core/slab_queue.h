/*
 * Runs that were freed, in the order of their frees, each with the fence that it waits for. Room
 * for a run is made when it is taken, so that its free cannot fail and allocates nothing.
 *
 * No lock inside: slab.c orders the calls.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { SLAB_QUEUE_BATCHES = 64, SLAB_QUEUE_PIECE = 1022 };

struct slab_queue_piece {
	struct slab_queue_piece *next;
	uint32_t runs[SLAB_QUEUE_PIECE];
};

/* One of zeros is empty. */
struct slab_queue {
	struct slab_queue_piece *head, *tail, *spare;
	uint32_t head_at, tail_at; /* in their pieces */
	uint64_t pieces, room;     /* of room: runs that are in it or may be pushed */
	/*
	 * Runs that follow each other and wait for the same fence: a ring. The fences ascend; where
	 * it is full, the last batch takes what comes and waits for that.
	 */
	struct {
		uint64_t fence, runs;
	} batches[SLAB_QUEUE_BATCHES];
	uint32_t batch_first, batch_count;
};

/* Makes room for one more run. 0 or -ENOMEM. */
int slab_queue_prepare(struct slab_queue *queue);

/* Takes back the room for a run that will not be pushed. */
void slab_queue_discard(struct slab_queue *queue);

/* A run waits for `fence`, or for a later one that others wait for. There is room for it. */
void slab_queue_push(struct slab_queue *queue, uint32_t run, uint64_t fence);

/* True when the first run waits for no more than `done`. */
bool slab_queue_is_due(const struct slab_queue *queue, uint64_t done);

/* Takes the first run out, and its room back. There is one. */
uint32_t slab_queue_pop(struct slab_queue *queue);

/* The first fence that is waited for and the last; 0 when none is. */
uint64_t slab_queue_first(const struct slab_queue *queue);
uint64_t slab_queue_last(const struct slab_queue *queue);

/* Frees what it has. */
void slab_queue_clear(struct slab_queue *queue);
