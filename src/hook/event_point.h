/*
 * The program's own events, while launches are measured: how far its stream had come when each was
 * recorded last. Who waits for one, or is told that it is done, learns for nothing that the work
 * before it has ended.
 *
 * A table of a fixed size in which the newer takes the place of the older: what is not found costs
 * a marker, nothing else. Thread safe.
 */
#pragma once

#include "abi/cuda.h"
#include "core/marker.h"

#include <stdbool.h>

/* Starts: fork children begin with nothing. */
void event_point_init(void);

/* After the record call. `meter` NULL: nothing is known of it, and what was is forgotten. */
void event_point_put(CUevent event, struct meter *meter, const struct marker_point *point);

/* False when nothing is known. The meter stays while the process lives. */
bool event_point_find(CUevent event, struct meter **out_meter, struct marker_point *out_point);
