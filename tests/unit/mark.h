/* Markers and probes whose record calls take no time. */
#pragma once

#include "core/marker.h"

static inline uint64_t mark_at(struct meter *meter, struct lane *lane, enum meter_kind kind,
			       uint64_t handle, struct means_entry *work, int64_t at_ns)
{
	return marker_put(meter, lane, kind, handle, work, at_ns, at_ns);
}

static inline void probe_at(struct meter *meter, uint64_t context, int64_t at_ns, int64_t gpu_ns)
{
	marker_probe(meter, context, at_ns, at_ns, gpu_ns);
}
