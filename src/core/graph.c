#include "core/graph.h"

#include "base/bytes.h"
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
	unsigned flights; /* launches that are on their way */
};

RB_HEAD(graph_tree, graph);

/* A stream in which graphs ran since the store was trimmed last. */
struct lane {
	RB_ENTRY(lane) entry;
	const void *stream;
	uint64_t bytes[RATION_DEVICES]; /* the most that one of them takes and frees itself */
};

RB_HEAD(lane_tree, lane);

struct store {
	uint64_t lanes_bytes; /* of all lanes */
	/*
	 * At most, as no call of ours tells when it is freed: by graphs that are alive, and by
	 * others.
	 */
	uint64_t kept_bytes, left_bytes;
	uint64_t flying_bytes; /* that both will grow by for launches on their way */
	/* Launches and trims that are in the driver; atomic, written under mutex. */
	_Atomic unsigned changers;
	uint64_t trims;    /* that are over */
	uint64_t launches; /* that went to the driver */
};

struct graph_state {
	/* Orders the rest; zero is an unlocked mutex. Never held across a driver call. */
	pthread_mutex_t mutex;
	struct graph_tree graphs;
	struct lane_tree lanes;
	_Atomic uint64_t count; /* of graphs; written under mutex */
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

static int lane_compare(const struct lane *a, const struct lane *b)
{
	return (uintptr_t)a->stream < (uintptr_t)b->stream ?
		       -1 :
		       (uintptr_t)a->stream > (uintptr_t)b->stream;
}

RB_GENERATE_STATIC(graph_tree, graph, entry, graph_compare)
RB_GENERATE_STATIC(lane_tree, lane, entry, lane_compare)

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

/* mutex held: memory that no graph may be put into. */
static uint64_t kept_bytes(struct dev dev, uint64_t held_bytes)
{
	struct store *s = &state.s.stores[dev.v];

	s->left_bytes = bytes_least(s->left_bytes, held_bytes);
	return s->kept_bytes + s->left_bytes;
}

uint64_t graph_lacks_for_new(struct dev dev, const struct graph_memory *memory, uint64_t held_bytes)
{
	uint64_t lack;

	pthread_mutex_lock(&state.s.mutex);
	lack = bytes_beyond(memory->bytes[dev.v],
			    bytes_beyond(held_bytes, kept_bytes(dev, held_bytes)));
	pthread_mutex_unlock(&state.s.mutex);
	return lack;
}

/* mutex held: what lanes and kept memory would grow by if the graph ran in the stream. */
static uint64_t growth(const struct graph *graph, const void *stream, int d)
{
	struct lane want = { .stream = stream }, *lane;

	if (graph->memory.is_kept)
		return graph->has_run ? 0 : graph->memory.bytes[d];
	lane = RB_FIND(lane_tree, &state.s.lanes, &want);
	return bytes_beyond(graph->memory.bytes[d], lane ? lane->bytes[d] : 0);
}

/*
 * mutex held. What is reserved for other graphs is theirs, and what is reserved for this one that
 * of a launch of it which is on its way.
 */
static uint64_t lacks(const struct graph *graph, uint64_t growth_bytes, int d, uint64_t held_bytes)
{
	const struct store *s = &state.s.stores[d];
	uint64_t own = graph->flights ? 0 : graph->reserved_bytes[d];
	uint64_t wanted = s->lanes_bytes + s->flying_bytes +
			  kept_bytes((struct dev){ d }, held_bytes) + growth_bytes;

	return bytes_least(bytes_beyond(wanted, held_bytes + own),
			   bytes_beyond(graph->memory.bytes[d], own));
}

uint64_t graph_trims(struct dev dev)
{
	uint64_t trims;

	pthread_mutex_lock(&state.s.mutex);
	trims = state.s.stores[dev.v].trims;
	pthread_mutex_unlock(&state.s.mutex);
	return trims;
}

bool graph_is_changing(struct dev dev)
{
	return atomic_load(&state.s.stores[dev.v].changers) > 0;
}

/* mutex held: a trim is over since the stores were looked at. */
static bool is_stale(const struct graph *graph, const struct graph_look looks[RATION_DEVICES])
{
	for (int d = 0; graph && d < RATION_DEVICES; d++)
		if (graph->memory.bytes[d] && state.s.stores[d].trims != looks[d].trims)
			return true;
	return false;
}

bool graph_fly(struct graph_flight *f, const void *exec, const void *stream,
	       const struct graph_look looks[RATION_DEVICES])
{
	struct graph *graph;
	bool is_good;

	*f = (struct graph_flight){ .exec = exec, .stream = stream };
	pthread_mutex_lock(&state.s.mutex);
	graph = find(exec);
	is_good = !is_stale(graph, looks);
	if (!is_good)
		graph = NULL;
	for (int d = 0; graph && d < RATION_DEVICES; d++) {
		f->memory_bytes[d] = graph->memory.bytes[d];
		if (!f->memory_bytes[d])
			continue;
		f->growth_bytes[d] = growth(graph, stream, d);
		f->is_beside |= state.s.stores[d].flying_bytes > 0;
		f->lack_bytes[d] = lacks(graph, f->growth_bytes[d], d, looks[d].held_bytes);
		state.s.stores[d].flying_bytes += f->growth_bytes[d];
	}
	if (graph)
		graph->flights++;
	pthread_mutex_unlock(&state.s.mutex);
	return is_good;
}

static uint64_t kept_by(const struct graph *graph, int d)
{
	return graph->memory.is_kept && graph->has_run ? graph->memory.bytes[d] : 0;
}

/* mutex held. */
static void enter(struct graph *graph)
{
	RB_INSERT(graph_tree, &state.s.graphs, graph);
	atomic_fetch_add(&state.s.count, 1);
	for (int d = 0; d < RATION_DEVICES; d++) {
		state.s.stores[d].kept_bytes += kept_by(graph, d);
	}
}

/* mutex held: what it kept is left from now on. */
static void leave(struct graph *graph)
{
	RB_REMOVE(graph_tree, &state.s.graphs, graph);
	atomic_fetch_sub(&state.s.count, 1);
	for (int d = 0; d < RATION_DEVICES; d++) {
		state.s.stores[d].kept_bytes -= kept_by(graph, d);
		state.s.stores[d].left_bytes += kept_by(graph, d);
	}
	graph->flights = 0;
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

/* mutex held: counts what the graph took when it ran in the stream. */
static void count_run(struct graph *graph, const void *stream)
{
	struct lane *lane = NULL, *old;

	if (!graph->memory.is_kept)
		lane = calloc(1, sizeof(*lane));
	if (lane) {
		lane->stream = stream;
		old = RB_INSERT(lane_tree, &state.s.lanes, lane);
		if (old) {
			free(lane);
			lane = old;
		}
	}
	for (int d = 0; d < RATION_DEVICES; d++) {
		struct store *s = &state.s.stores[d];
		uint64_t more = growth(graph, stream, d);

		/* Without memory for a lane it counts as left, which is more. */
		if (lane) {
			lane->bytes[d] += more;
			s->lanes_bytes += more;
		} else if (graph->memory.is_kept) {
			s->kept_bytes += more;
		} else {
			s->left_bytes += more;
		}
	}
	graph->has_run = true;
}

bool graph_go(struct graph_flight *f, const struct graph_look looks[RATION_DEVICES])
{
	bool is_good = true;

	pthread_mutex_lock(&state.s.mutex);
	for (int d = 0; d < RATION_DEVICES; d++)
		is_good &= !f->memory_bytes[d] || state.s.stores[d].trims == looks[d].trims;
	for (int d = 0; is_good && d < RATION_DEVICES; d++)
		if (f->memory_bytes[d]) {
			atomic_fetch_add(&state.s.stores[d].changers, 1);
			state.s.stores[d].launches++;
		}
	f->is_gone = is_good;
	pthread_mutex_unlock(&state.s.mutex);
	return is_good;
}

void graph_landed(const struct graph_flight *f, bool is_launched,
		  uint64_t out_reserved_bytes[RATION_DEVICES])
{
	struct graph *graph;

	pthread_mutex_lock(&state.s.mutex);
	graph = find(f->exec);
	for (int d = 0; d < RATION_DEVICES; d++) {
		state.s.stores[d].flying_bytes -= f->growth_bytes[d];
		if (f->is_gone && f->memory_bytes[d])
			atomic_fetch_sub(&state.s.stores[d].changers, 1);
	}
	/* Another may have its handle. */
	if (graph && graph->flights)
		graph->flights--;
	for (int d = 0; graph && is_launched && d < RATION_DEVICES; d++) {
		out_reserved_bytes[d] = graph->reserved_bytes[d];
		graph->reserved_bytes[d] = 0;
	}
	if (graph && is_launched)
		count_run(graph, f->stream);
	pthread_mutex_unlock(&state.s.mutex);
}

/* mutex held: what ran in them has gone from the device's store, or is in what it still holds. */
static void empty_lanes(int d)
{
	struct lane *lane, *next;

	RB_FOREACH_SAFE(lane, lane_tree, &state.s.lanes, next)
	{
		bool is_empty = true;

		lane->bytes[d] = 0;
		for (int k = 0; k < RATION_DEVICES; k++)
			is_empty = is_empty && lane->bytes[k] == 0;
		if (is_empty) {
			RB_REMOVE(lane_tree, &state.s.lanes, lane);
			free(lane);
		}
	}
	state.s.stores[d].lanes_bytes = 0;
}

uint64_t graph_trim_begin(struct dev dev)
{
	struct store *s = &state.s.stores[dev.v];
	uint64_t launches;

	pthread_mutex_lock(&state.s.mutex);
	launches = atomic_fetch_add(&s->changers, 1) ? UINT64_MAX : s->launches;
	pthread_mutex_unlock(&state.s.mutex);
	return launches;
}

void graph_trim_end(struct dev dev, uint64_t begun, bool is_trimmed, uint64_t held_bytes)
{
	struct store *s = &state.s.stores[dev.v];
	bool is_alone;

	pthread_mutex_lock(&state.s.mutex);
	is_alone = atomic_fetch_sub(&s->changers, 1) == 1 && begun == s->launches;
	/* What a launch took meanwhile may be in the figure or not: then nothing is known anew. */
	if (is_trimmed && is_alone) {
		empty_lanes(dev.v);
		s->left_bytes = bytes_beyond(held_bytes, s->kept_bytes);
	}
	s->trims += is_trimmed;
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
	free(graph);
}

void graph_put_back(struct graph *graph)
{
	pthread_mutex_lock(&state.s.mutex);
	enter(graph);
	for (int d = 0; d < RATION_DEVICES; d++) {
		uint64_t *left = &state.s.stores[d].left_bytes;

		*left -= bytes_least(*left, kept_by(graph, d));
	}
	pthread_mutex_unlock(&state.s.mutex);
}
