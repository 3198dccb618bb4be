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
	uint64_t bytes[RATION_DEVICES]; /* of its allocation nodes; constant */
	uint64_t reserved_bytes[RATION_DEVICES];
	uint64_t trims[RATION_DEVICES]; /* of the store when it was launched last */
	bool has_run;
};

RB_HEAD(graph_tree, graph);

struct graph_state {
	/* Orders the rest; zero is an unlocked mutex. Never held across a driver call. */
	pthread_mutex_t mutex;
	struct graph_tree graphs;
	_Atomic uint64_t count;         /* written under mutex */
	uint64_t trims[RATION_DEVICES]; /* of each store so far */
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

bool graph_enter(const void *exec, const uint64_t bytes[RATION_DEVICES])
{
	struct graph *graph = calloc(1, sizeof(*graph)), *old;

	if (!graph)
		return false;
	graph->exec = exec;
	pthread_mutex_lock(&state.s.mutex);
	old = RB_INSERT(graph_tree, &state.s.graphs, graph);
	if (old) {
		/* Destroyed unseen: what was reserved for it is the new one's too. */
		free(graph);
		graph = old;
	} else {
		atomic_fetch_add(&state.s.count, 1);
	}
	for (int d = 0; d < RATION_DEVICES; d++) {
		graph->bytes[d] = bytes[d];
		graph->reserved_bytes[d] += bytes[d];
	}
	graph->has_run = false;
	pthread_mutex_unlock(&state.s.mutex);
	return true;
}

bool graph_any(void)
{
	return atomic_load_explicit(&state.s.count, memory_order_acquire) > 0;
}

/* mutex held: the store may lack memory that the graph had when it was launched last. */
static bool is_trimmed(const struct graph *graph, int d)
{
	return graph->bytes[d] && graph->trims[d] != state.s.trims[d];
}

bool graph_missing(const void *exec, uint64_t out_bytes[RATION_DEVICES])
{
	struct graph *graph;
	bool is_any = false;

	pthread_mutex_lock(&state.s.mutex);
	graph = find(exec);
	for (int d = 0; graph && graph->has_run && d < RATION_DEVICES; d++) {
		out_bytes[d] = is_trimmed(graph, d) ? graph->bytes[d] : 0;
		is_any |= out_bytes[d] > 0;
	}
	pthread_mutex_unlock(&state.s.mutex);
	return is_any;
}

bool graph_launched(const void *exec, struct graph_part out_parts[RATION_DEVICES])
{
	struct graph *graph;

	pthread_mutex_lock(&state.s.mutex);
	graph = find(exec);
	for (int d = 0; graph && d < RATION_DEVICES; d++) {
		out_parts[d].has_memory = graph->bytes[d] > 0;
		out_parts[d].reserved_bytes = graph->reserved_bytes[d];
		graph->reserved_bytes[d] = 0;
		graph->trims[d] = state.s.trims[d];
	}
	if (graph)
		graph->has_run = true;
	pthread_mutex_unlock(&state.s.mutex);
	return graph != NULL;
}

void graph_trimmed(struct dev dev)
{
	pthread_mutex_lock(&state.s.mutex);
	state.s.trims[dev.v]++;
	pthread_mutex_unlock(&state.s.mutex);
}

bool graph_leave(const void *exec, uint64_t out_bytes[RATION_DEVICES])
{
	struct graph *graph;

	pthread_mutex_lock(&state.s.mutex);
	graph = find(exec);
	if (graph) {
		memcpy(out_bytes, graph->reserved_bytes, sizeof(graph->reserved_bytes));
		RB_REMOVE(graph_tree, &state.s.graphs, graph);
		free(graph);
		atomic_fetch_sub(&state.s.count, 1);
	}
	pthread_mutex_unlock(&state.s.mutex);
	return graph != NULL;
}
