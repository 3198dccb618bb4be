/*
 * Graphs that allocate memory. Their memory becomes physical when a graph is uploaded or launched,
 * and stays in one store per device until that is trimmed. Graphs that free all they allocate
 * share: what one leaves the next one finds, and in one stream they run one after another. A graph
 * that keeps memory has it to itself (docs/real-gpu.md). No call tells what of a store is in use,
 * so it is taken to be enough when it holds, with what is reserved for it, the most that a graph
 * takes in each stream and all that was kept. What it lacks for a launch is reserved before, and
 * settled by the store's own figure after: the store is a pool (core/pool.h).
 *
 * Thread safe; nothing here calls the driver.
 */
#pragma once

#include "core/device.h"

#include <stdbool.h>
#include <stdint.h>

/* Starts: fork children begin with nothing. */
void graph_init(void);

/* The store of a device, as a pool's name. */
const void *graph_store(struct dev dev);

/* The device whose store `pool` is; false when it is another pool. */
bool graph_is_store(const void *pool, struct dev *out_dev);

/* What a graph allocates. */
struct graph_memory {
	uint64_t bytes[RATION_DEVICES]; /* as the store takes it */
	bool is_kept;                   /* some of it is not freed by the graph itself */
};

/*
 * What a store that holds `held_bytes` lacks for a new graph if nothing but kept memory is in use.
 */
uint64_t graph_lacks_for_new(struct dev dev, const struct graph_memory *memory,
			     uint64_t held_bytes);

/* A launch or upload in a stream that comes to the driver. */
struct graph_flight {
	const void *exec, *stream;
	uint64_t memory_bytes[RATION_DEVICES]; /* that the graph allocates */
	uint64_t lack_bytes[RATION_DEVICES];   /* without what is reserved for it already */
	uint64_t growth_bytes[RATION_DEVICES];
	bool is_beside; /* others are on their way, so that it may be too much */
	bool is_gone;   /* in the driver */
};

/* What a store holds, and before that was asked the trims that were over. */
struct graph_look {
	uint64_t trims, held_bytes;
};
uint64_t graph_trims(struct dev dev);

/*
 * Before the call: what the stores lack for it. Until it has landed what the call takes is in
 * nobody's reach. False where a store was trimmed since it was looked at: look again. For a graph
 * that is not entered nothing is lacking, and graph_landed() changes nothing.
 */
bool graph_fly(struct graph_flight *out, const void *exec, const void *stream,
	       const struct graph_look looks[RATION_DEVICES]);

/*
 * What it lacks is reserved, and charge_begin() was called: it goes to the driver. False as
 * graph_fly().
 */
bool graph_go(struct graph_flight *f, const struct graph_look looks[RATION_DEVICES]);

/*
 * True while calls are in the driver that may count on what the store holds: what it gives back
 * meanwhile stays charged until they are over.
 */
bool graph_is_changing(struct dev dev);

/*
 * Enters an instantiated graph, for which reserved_bytes[dev] are reserved in the stores. False
 * where there is no memory for it.
 */
bool graph_enter(const void *exec, const struct graph_memory *memory,
		 const uint64_t reserved_bytes[RATION_DEVICES]);

/* True when any entered graph is alive: one load, for the launch path. */
bool graph_any(void);

/* What a graph allocates on each device; false for one that is not entered. */
bool graph_find(const void *exec, uint64_t out_bytes[RATION_DEVICES]);

/*
 * The call is over, or was not made. If it launched or uploaded, this hands over what was reserved
 * for the graph's first launch.
 */
void graph_landed(const struct graph_flight *f, bool is_launched,
		  uint64_t out_reserved_bytes[RATION_DEVICES]);

/*
 * Around a trim of the device's store, after which what it holds is in use. `begun` is what the
 * beginning said.
 */
uint64_t graph_trim_begin(struct dev dev);
void graph_trim_end(struct dev dev, uint64_t begun, bool is_trimmed, uint64_t held_bytes);

/*
 * Takes a graph out before the driver destroys it: NULL when it is not entered. Then it was
 * destroyed, which hands over what is still reserved for it, or it was not.
 */
struct graph *graph_take(const void *exec);
void graph_end(struct graph *graph, uint64_t out_reserved_bytes[RATION_DEVICES]);
void graph_put_back(struct graph *graph);
