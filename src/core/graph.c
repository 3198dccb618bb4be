#include "core/graph.h"

#include "base/process.h"
#include "base/tree.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct graph {
	RB_ENTRY(graph) entry;
	const void *exec;
	struct graph_memory memory;              /* constant */
	uint64_t reserved_bytes[RATION_DEVICES]; /* for its first launch */
	bool has_run;
};

RB_HEAD(graph_tree, graph);

/* Of one store, over all graphs that are alive. */
struct store {
	uint64_t wanted_bytes, reserved_bytes;
	uint64_t kept_bytes; /* that destroyed graphs left in use, at most */
};

struct graph_state {
	/* Orders the rest; zero is an unlocked mutex. Never held across a driver call. */
	pthread_mutex_t mutex;
	struct graph_tree graphs;
	_Atomic uint64_t count; /* written under mutex */
	struct store stores[RATION_DEVICES];
};
PROCESS_STATE(graph_state, state);

/* The stores' names: addresses that no pool of the driver's can have. */
static const char stores[RATION_DEVICES];

static int graph_compare(const struct graph *a, const struct graph *b)
{
	return (uintptr_t)a->exec < (uintptr_t)b->exec ? -1 :
							 (uintptr_t)a->exec > (uintptr_t)b->exec;
}

RB_GENERATE_STATIC(graph_tree, graph, entry, graph_compare)

void graph_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

const void *graph_store(struct dev dev)
{
	return &stores[dev.v];
}

bool graph_is_store(const void *pool, struct dev *out_dev)
{
	uintptr_t at = (uintptr_t)pool - (uintptr_t)stores;

	if (at >= RATION_DEVICES)
		return false;
	out_dev->v = (int)at;
	return true;
}

/* mutex held. */
static struct graph *find(const void *exec)
{
	struct graph want = { .exec = exec };

	return RB_FIND(graph_tree, &state.s.graphs, &want);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* mutex held: how much more the store must be for what is wanted and `more_bytes`. */
static uint64_t lacks(struct dev dev, uint64_t more_bytes, uint64_t held_bytes)
{
	struct store *s = &state.s.stores[dev.v];
	uint64_t wanted, there = held_bytes + s->reserved_bytes;

	s->kept_bytes = least(s->kept_bytes, held_bytes);
	wanted = s->wanted_bytes + s->kept_bytes + more_bytes;
	return wanted > there ? wanted - there : 0;
}

uint64_t graph_lacks_for_new(struct dev dev, const struct graph_memory *memory, uint64_t held_bytes)
{
	uint64_t bytes = memory->bytes[dev.v], lack;

	pthread_mutex_lock(&state.s.mutex);
	lack = lacks(dev, bytes, held_bytes);
	pthread_mutex_unlock(&state.s.mutex);
	return least(lack, bytes);
}

uint64_t graph_lacks(const void *exec, struct dev dev, uint64_t held_bytes)
{
	struct graph *graph;
	uint64_t lack = 0;

	pthread_mutex_lock(&state.s.mutex);
	graph = find(exec);
	if (graph)
		lack = least(lacks(dev, 0, held_bytes),
			     graph->memory.bytes[dev.v] - graph->reserved_bytes[dev.v]);
	pthread_mutex_unlock(&state.s.mutex);
	return lack;
}

/* mutex held. */
static void enter(struct graph *graph)
{
	RB_INSERT(graph_tree, &state.s.graphs, graph);
	atomic_fetch_add(&state.s.count, 1);
	for (int d = 0; d < RATION_DEVICES; d++) {
		state.s.stores[d].wanted_bytes += graph->memory.bytes[d];
		state.s.stores[d].reserved_bytes += graph->reserved_bytes[d];
	}
}

/* mutex held. */
static void leave(struct graph *graph)
{
	RB_REMOVE(graph_tree, &state.s.graphs, graph);
	atomic_fetch_sub(&state.s.count, 1);
	for (int d = 0; d < RATION_DEVICES; d++) {
		state.s.stores[d].wanted_bytes -= graph->memory.bytes[d];
		state.s.stores[d].reserved_bytes -= graph->reserved_bytes[d];
	}
}

bool graph_enter(const void *exec, const struct graph_memory *memory,
		 const uint64_t reserved_bytes[RATION_DEVICES])
{
	struct graph *graph = calloc(1, sizeof(*graph)), *old;

	if (!graph)
		return false;
	graph->exec = exec;
	graph->memory = *memory;
	memcpy(graph->reserved_bytes, reserved_bytes, sizeof(graph->reserved_bytes));
	pthread_mutex_lock(&state.s.mutex);
	old = find(exec);
	if (old) {
		/* Destroyed unseen: what was reserved for it is the new one's too. */
		leave(old);
		for (int d = 0; d < RATION_DEVICES; d++)
			graph->reserved_bytes[d] += old->reserved_bytes[d];
		free(old);
	}
	enter(graph);
	pthread_mutex_unlock(&state.s.mutex);
	return true;
}

bool graph_any(void)
{
	return atomic_load_explicit(&state.s.count, memory_order_acquire) > 0;
}

bool graph_find(const void *exec, uint64_t out_bytes[RATION_DEVICES])
{
	struct graph *graph;

	pthread_mutex_lock(&state.s.mutex);
	graph = find(exec);
	if (graph)
		memcpy(out_bytes, graph->memory.bytes, sizeof(graph->memory.bytes));
	pthread_mutex_unlock(&state.s.mutex);
	return graph != NULL;
}

bool graph_launched(const void *exec, uint64_t out_reserved_bytes[RATION_DEVICES])
{
	struct graph *graph;

	pthread_mutex_lock(&state.s.mutex);
	graph = find(exec);
	for (int d = 0; graph && d < RATION_DEVICES; d++) {
		out_reserved_bytes[d] = graph->reserved_bytes[d];
		state.s.stores[d].reserved_bytes -= graph->reserved_bytes[d];
		graph->reserved_bytes[d] = 0;
	}
	if (graph)
		graph->has_run = true;
	pthread_mutex_unlock(&state.s.mutex);
	return graph != NULL;
}

void graph_trimmed(struct dev dev, uint64_t held_bytes)
{
	struct store *s = &state.s.stores[dev.v];

	pthread_mutex_lock(&state.s.mutex);
	s->kept_bytes = least(s->kept_bytes, held_bytes);
	pthread_mutex_unlock(&state.s.mutex);
}

struct graph *graph_take(const void *exec)
{
	struct graph *graph;

	pthread_mutex_lock(&state.s.mutex);
	graph = find(exec);
	if (graph)
		leave(graph);
	pthread_mutex_unlock(&state.s.mutex);
	return graph;
}

void graph_end(struct graph *graph, uint64_t out_reserved_bytes[RATION_DEVICES])
{
	memcpy(out_reserved_bytes, graph->reserved_bytes, sizeof(graph->reserved_bytes));
	pthread_mutex_lock(&state.s.mutex);
	for (int d = 0; graph->memory.is_kept && graph->has_run && d < RATION_DEVICES; d++)
		state.s.stores[d].kept_bytes += graph->memory.bytes[d];
	pthread_mutex_unlock(&state.s.mutex);
	free(graph);
}

void graph_put_back(struct graph *graph)
{
	pthread_mutex_lock(&state.s.mutex);
	enter(graph);
	pthread_mutex_unlock(&state.s.mutex);
}
