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

/*
 * What it lacks for a launch or upload in a stream, without what is reserved for the graph already.
 */
uint64_t graph_lacks(const void *exec, const void *stream, struct dev dev, uint64_t held_bytes);

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
 * It was launched or uploaded in the stream: hands over what was reserved for its first launch.
 * False for one that is not entered.
 */
bool graph_launched(const void *exec, const void *stream,
		    uint64_t out_reserved_bytes[RATION_DEVICES]);

/* The device's store was trimmed: what it holds now is in use. */
void graph_trimmed(struct dev dev, uint64_t held_bytes);

/*
 * Takes a graph out before the driver destroys it: NULL when it is not entered. Then it was
 * destroyed, which hands over what is still reserved for it, or it was not.
 */
struct graph *graph_take(const void *exec);
void graph_end(struct graph *graph, uint64_t out_reserved_bytes[RATION_DEVICES]);
void graph_put_back(struct graph *graph);
