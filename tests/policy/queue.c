#include "queue.h"

#include <stdlib.h>

static bool is_before(const struct queue_event *a, const struct queue_event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

void queue_at(struct queue *queue, int64_t at_ns, void (*happen)(void *, uint64_t), void *arg,
	      uint64_t tag)
{
	unsigned i = queue->count++;
	struct queue_event event = { at_ns > queue->now_ns ? at_ns : queue->now_ns, queue->order++,
				     happen, arg, tag };

	if (i >= queue->room) {
		queue->room = queue->room ? queue->room * 2 : 64;
		queue->events = realloc(queue->events, queue->room * sizeof(*queue->events));
		if (!queue->events)
			abort();
	}
	for (; i > 0 && is_before(&event, &queue->events[(i - 1) / 2]); i = (i - 1) / 2)
		queue->events[i] = queue->events[(i - 1) / 2];
	queue->events[i] = event;
}

static struct queue_event take_first(struct queue *queue)
{
	struct queue_event first = queue->events[0], last = queue->events[--queue->count];
	unsigned i = 0, child;

	while ((child = 2 * i + 1) < queue->count) {
		if (child + 1 < queue->count &&
		    is_before(&queue->events[child + 1], &queue->events[child]))
			child++;
		if (!is_before(&queue->events[child], &last))
			break;
		queue->events[i] = queue->events[child];
		i = child;
	}
	queue->events[i] = last;
	return first;
}

void queue_run(struct queue *queue, int64_t end_ns)
{
	while (queue->count > 0 && queue->events[0].at_ns < end_ns) {
		struct queue_event event = take_first(queue);

		queue->now_ns = event.at_ns;
		event.happen(event.arg, event.tag);
	}
	queue->now_ns = end_ns;
}

void queue_free(struct queue *queue)
{
	free(queue->events);
	queue->events = NULL;
	queue->count = queue->room = 0;
}

double queue_random(struct queue *queue)
{
	uint64_t x = queue->random ? queue->random : UINT64_C(88172645463325252);

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	queue->random = x;
	return (double)(x >> 11) / 9007199254740992.0;
}
