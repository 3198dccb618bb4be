/*
 * Whether other processes use the device, which no call says. A probe, an event in a stream with
 * nothing else in it, runs late where the device first has to turn to this process. One that is
 * late is enough for whoever must not take another's turn for his own time. Who only spares
 * himself work asks for more: one that comes now and then changes little for him.
 *
 * Zeros: nobody was seen. Every function takes no lock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct crowd {
	int64_t seen_ns; /* atomic: when another process was last seen to use the device */
	/* Atomic, meter.lock writes: whether the last probes were late, the newest lowest. */
	uint32_t late;
};

/* Another process was seen to use the device. */
void crowd_see(struct crowd *crowd, int64_t now_ns);

/* A probe whose record call returned at submit_ns ran `late_ns` after that. meter.lock held. */
void crowd_probe(struct crowd *crowd, int64_t late_ns, int64_t submit_ns);

/* Another process was seen within a second. */
bool crowd_is_there(const struct crowd *crowd, int64_t now_ns);

/* Of the last 16 probes 5 were late. */
bool crowd_is_likely(const struct crowd *crowd);
