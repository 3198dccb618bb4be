/*
 * Graphs that allocate memory. Their memory becomes physical when a graph is uploaded or launched,
 * and stays in one store per device until that is trimmed. So the sum of a graph's allocation nodes
 * is reserved when it is instantiated, and settled by the store's own figure at its first launch:
 * the store is a pool (core/pool.h).
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
 * Takes over what is still reserved for the graph, in out_bytes[dev]: the caller settles it after a
 * launch or upload. False for a graph that is not entered.
 */
bool graph_take_reservation(const void *exec, uint64_t out_bytes[RATION_DEVICES]);

/* The graph is destroyed. As graph_take_reservation(), and it is forgotten. */
bool graph_leave(const void *exec, uint64_t out_bytes[RATION_DEVICES]);
