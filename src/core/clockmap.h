/*
 * Where the GPU's clock stands on CLOCK_MONOTONIC, for one context.
 *
 * A probe is an event in an idle stream: what its submission is ahead of its execution is the same as
 * for a launch into an idle stream. The map puts an event where it was *submitted* if it ran on an idle
 * stream, on average; so a launch starts when it was submitted, and no latency needs to be known. All
 * times of a context stand early by the same few us; intervals are right.
 *
 * The offset and its drift are tracked by the earliest probe of each round of 8 to 64, since one that
 * comes late had to wait for somebody else's work on the GPU; the mean of those that did not wait is
 * kept in relation to them. Every event bounds the offset besides: it did not run after it was seen
 * done. The caller orders the calls (meter.lock).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct clockmap {
	bool is_set;
	bool is_probed;
	int64_t at_gpu_ns;    /* the offset is that of this moment */
	double offset_ns;     /* CPU minus GPU time, of the earliest probes */
	double mean_ns;       /* what the mean probe's is more than that: negative */
	double rate;          /* by which the offset grows */
	double error_ns;      /* usual error of a round */
	int64_t call_ns;      /* what a probe's record call usually takes */
	double rate_span_ns;  /* how far apart two probes are that tell the rate; 0: no first yet */
	int64_t rated_gpu_ns; /* the first of them */
	double rated_offset_ns; /* its offset */
	uint32_t probes;        /* in this round */
	double best_error_ns;   /* its earliest */
	int64_t best_gpu_ns;
};

/*
 * A probe ran at gpu_ns; its record call lasted from begin_ns to submit_ns. One that took longer than
 * usual does not count: the thread may have had to wait before it read the time.
 */
void clockmap_probe(struct clockmap *map, int64_t gpu_ns, int64_t begin_ns, int64_t submit_ns);

/* Any other event: submitted at submit_ns, seen done at seen_ns. */
void clockmap_bound(struct clockmap *map, int64_t gpu_ns, int64_t submit_ns, int64_t seen_ns);

/* The CLOCK_MONOTONIC of gpu_ns; one of the others was called before. */
int64_t clockmap_cpu_ns(const struct clockmap *map, int64_t gpu_ns);
