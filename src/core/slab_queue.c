#include "core/slab_queue.h"

#include <errno.h>
#include <stdlib.h>

int slab_queue_prepare(struct slab_queue *queue)
{
	struct slab_queue_piece *piece;

	/* One piece's worth may be lost at the head, and one less than that at the tail. */
	if (queue->room + 1 + 2 * SLAB_QUEUE_PIECE > queue->pieces * SLAB_QUEUE_PIECE) {
		piece = malloc(sizeof(*piece));
		if (!piece)
			return -ENOMEM;
		piece->next = queue->spare;
		queue->spare = piece;
		queue->pieces++;
	}
	queue->room++;
	return 0;
}

void slab_queue_discard(struct slab_queue *queue)
{
	queue->room--;
}

/* The place behind the last run. */
static uint32_t *behind_last(struct slab_queue *queue)
{
	if (!queue->tail || queue->tail_at == SLAB_QUEUE_PIECE) {
		struct slab_queue_piece *piece = queue->spare;

		queue->spare = piece->next;
		piece->next = NULL;
		if (queue->tail)
			queue->tail->next = piece;
		else
			queue->head = piece;
		queue->tail = piece;
		queue->tail_at = 0;
	}
	return &queue->tail->runs[queue->tail_at++];
}

static uint32_t batch_at(const struct slab_queue *queue, uint32_t i)
{
	return (queue->batch_first + i) % SLAB_QUEUE_BATCHES;
}

void slab_queue_push(struct slab_queue *queue, uint32_t run, uint64_t fence)
{
	uint64_t last_fence = slab_queue_last(queue);

	if (!queue->batch_count ||
	    (fence > last_fence && queue->batch_count < SLAB_QUEUE_BATCHES)) {
		uint32_t i = batch_at(queue, queue->batch_count++);

		queue->batches[i].fence = fence;
		queue->batches[i].runs = 1;
	} else {
		uint32_t i = batch_at(queue, queue->batch_count - 1);

		queue->batches[i].fence = fence > last_fence ? fence : last_fence;
		queue->batches[i].runs++;
	}
	*behind_last(queue) = run;
}

bool slab_queue_is_due(const struct slab_queue *queue, uint64_t done)
{
	return queue->batch_count && slab_queue_first(queue) <= done;
}

uint32_t slab_queue_pop(struct slab_queue *queue)
{
	struct slab_queue_piece *piece = queue->head;
	uint32_t run;

	if (queue->head_at == SLAB_QUEUE_PIECE) {
		queue->head = piece->next;
		queue->head_at = 0;
		piece->next = queue->spare;
		queue->spare = piece;
		piece = queue->head;
	}
	run = piece->runs[queue->head_at++];
	queue->room--;
	if (--queue->batches[queue->batch_first].runs == 0) {
		queue->batch_first = batch_at(queue, 1);
		queue->batch_count--;
	}
	return run;
}

uint64_t slab_queue_first(const struct slab_queue *queue)
{
	return queue->batch_count ? queue->batches[queue->batch_first].fence : 0;
}

uint64_t slab_queue_last(const struct slab_queue *queue)
{
	return queue->batch_count ? queue->batches[batch_at(queue, queue->batch_count - 1)].fence :
				    0;
}

static void free_all(struct slab_queue_piece *piece)
{
	while (piece) {
		struct slab_queue_piece *next = piece->next;

		free(piece);
		piece = next;
	}
}

void slab_queue_clear(struct slab_queue *queue)
{
	free_all(queue->head);
	free_all(queue->spare);
	*queue = (struct slab_queue){ .head = NULL };
}
