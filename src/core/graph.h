/*
 * Graphs that allocate memory. Their memory becomes physical when a graph is uploaded or launched,
 * and stays in one store per device until that is trimmed. So the sum of a graph's allocation nodes
 * is reserved when it is instantiated, and settled by the store's own figure at its first launch:
 * the store is a pool (core/pool.h). What a trim took from the store the next launch takes again, and
 * it is reserved again before that.
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

/*
 * Enters an instantiated graph that may allocate bytes[dev] on each device, reserved for the stores.
 * False where there is no memory for it.
 */
bool graph_enter(const void *exec, const uint64_t bytes[RATION_DEVICES]);

/* True when any entered graph is alive: one load, for the launch path. */
bool graph_any(void);

/*
 * Before a launch or upload: what has to be reserved for it first, in out_bytes[dev], because the store
 * was trimmed since the graph's last one. False when that is nothing.
 */
bool graph_missing(const void *exec, uint64_t out_bytes[RATION_DEVICES]);

/* What a graph has to do with a device. */
struct graph_part {
	bool has_memory;         /* it allocates there */
	uint64_t reserved_bytes; /* taken over from it by who settles the store */
};

/* After it: takes over what is still reserved for the graph. False for one that is not entered. */
bool graph_launched(const void *exec, struct graph_part out_parts[RATION_DEVICES]);

/* The device's store was trimmed. */
void graph_trimmed(struct dev dev);

/*
 * The graph is destroyed and forgotten: hands over what is still reserved for it. False for one that
 * is not entered.
 */
bool graph_leave(const void *exec, uint64_t out_bytes[RATION_DEVICES]);
