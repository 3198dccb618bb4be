#include "core/link_cost.h"

#include "base/process.h"
#include "core/heat.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Of the links that cards have today; where it is less both a use and a move count for more. */
enum { LINK_BYTES_PER_NS = 50 };
/* Of less than that in host memory little can be said. */
#define FAR_LEAST_BYTES (UINT64_C(1) << 20)
/* A use counts a sixteenth of a whole one at least, and so many whole ones at most. */
enum { WEIGHT_LEAST = 1, WEIGHT_MOST = 64 * HEAT_USE };
/* A mean follows by such a part; at first by less. */
enum { MEAN_WEIGHT = 8 };
enum { PLACES = 4096, PROBES = 16 };

struct cost {
	_Atomic uint64_t function; /* 0: free; set once, under the mutex; atomic */
	_Atomic uint32_t weight;   /* 0: not known; atomic, written under the mutex */
	/* mutex */
	uint32_t far_count, near_count; /* launches that were timed, up to MEAN_WEIGHT */
	int64_t near_ns;
	double uses; /* of each byte in host memory */
};

struct link_cost_state {
	pthread_mutex_t mutex; /* zero is an unlocked one */
	struct cost costs[PLACES];
};
PROCESS_STATE(link_cost_state, state);

void link_cost_init(void)
{
	process_wipe_on_fork(&state, sizeof(state));
}

static struct cost *place_of(uint64_t function, unsigned probe)
{
	return &state.s.costs[((function * UINT64_C(0x9e3779b97f4a7c15) >> 40) + probe) % PLACES];
}

/* NULL when it is not there. With the mutex `is_wanted` makes it, unless all is full. */
static struct cost *find(uint64_t function, bool is_wanted)
{
	for (unsigned i = 0; i < PROBES; i++) {
		struct cost *cost = place_of(function, i);
		uint64_t there = atomic_load_explicit(&cost->function, memory_order_acquire);

		if (there == function)
			return cost;
		if (there)
			continue;
		if (!is_wanted)
			return NULL;
		atomic_store_explicit(&cost->function, function, memory_order_release);
		return cost;
	}
	return NULL;
}

uint32_t link_cost_weight(uint64_t function)
{
	const struct cost *cost = find(function, false);
	uint32_t weight = cost ? atomic_load_explicit(&cost->weight, memory_order_relaxed) : 0;

	return weight ? weight : HEAT_USE;
}

static uint32_t count_up(uint32_t *count)
{
	if (*count < MEAN_WEIGHT)
		++*count;
	return *count;
}

static uint32_t weight_of(double uses)
{
	double weight = uses * HEAT_USE;

	return weight < WEIGHT_LEAST ? WEIGHT_LEAST :
	       weight > WEIGHT_MOST  ? WEIGHT_MOST :
				       (uint32_t)weight;
}

/* mutex held. */
static void learn_far(struct cost *cost, int64_t ns, uint64_t far_bytes)
{
	int64_t more_ns = ns > cost->near_ns ? ns - cost->near_ns : 0;
	double uses = (double)more_ns * LINK_BYTES_PER_NS / (double)far_bytes;

	cost->uses += (uses - cost->uses) / count_up(&cost->far_count);
	atomic_store_explicit(&cost->weight, weight_of(cost->uses), memory_order_relaxed);
}

void link_cost_learn(uint64_t function, int64_t ns, uint64_t far_bytes)
{
	struct cost *cost;

	if (!function || ns < 0 || (far_bytes && far_bytes < FAR_LEAST_BYTES))
		return;
	pthread_mutex_lock(&state.s.mutex);
	cost = find(function, true);
	if (cost && far_bytes)
		learn_far(cost, ns, far_bytes);
	else if (cost)
		cost->near_ns += (ns - cost->near_ns) / (int64_t)count_up(&cost->near_count);
	pthread_mutex_unlock(&state.s.mutex);
}
