#include "core/clockmap.h"

#include "base/clock.h"

/* The clocks run apart by no more than that. */
#define DRIFT_MOST 300e-6
/* Earlier than it was thought to be possible by so much: what was thought is wrong. */
#define EARLY_NS 6000.0
/* What of a round's error is put right at once. */
#define OFFSET_GAIN 0.5
/*
 * Drift is what two probes say that were early and are so far apart: twice as far each time, up to the most,
 * and from then on such a part of what they say. On an H200 it is 3 ppm for as long as one looks; a
 * microsecond in a round of 8 ms would be 125.
 */
#define RATE_SPAN_LEAST_NS 16e6
#define RATE_SPAN_MOST_NS 512e6
#define RATE_GAIN 0.25
/* No drift: the clock is another. */
#define JUMP_NS 1e6
/* A round's earliest probe is good if it is no later than that: so many usual errors, and a little. */
#define LATE_ERRORS 3.0
#define LATE_NS 300.0
#define ERROR_NS 2000.0
#define ERROR_GAIN 0.125
/* The mean of what is not late, in relation to the earliest. */
#define MEAN_GAIN (1.0 / 32)
#define MEAN_LATE 3.0
#define MEAN_LATE_NS 500.0
/* What calls take is followed by such a part. */
enum { CALL_PART = 8, CALL_LONG_PART = 4 };
#define CALL_LEAST_NS INT64_C(100)
/* The first may take milliseconds. */
#define CALL_FIRST_NS INT64_C(20000)
enum { ROUND_LEAST = 8, ROUND_MOST = 64 };

static double offset_at(const struct clockmap *map, int64_t gpu_ns)
{
	return map->offset_ns + map->rate * (double)(gpu_ns - map->at_gpu_ns);
}

static void set(struct clockmap *map, int64_t gpu_ns, double offset_ns)
{
	map->at_gpu_ns = gpu_ns;
	map->offset_ns = offset_ns;
	map->is_set = true;
}

static double clip(double value, double most)
{
	return value > most ? most : value < -most ? -most : value;
}

/* The mean is not earlier than the earliest, while those are still being found. */
static double clip_above(double value)
{
	return value < 0 ? value : 0;
}

static void begin(struct clockmap *map, int64_t gpu_ns, double offset_ns)
{
	set(map, gpu_ns, offset_ns);
	map->error_ns = ERROR_NS;
	map->probes = 0;
	map->is_probed = true;
}

static void rate_from(struct clockmap *map, int64_t gpu_ns, double offset_ns)
{
	map->rated_gpu_ns = gpu_ns;
	map->rated_offset_ns = offset_ns;
}

/* A probe that was early had this offset. */
static void learn_rate(struct clockmap *map, int64_t gpu_ns, double offset_ns)
{
	double span_ns = (double)(gpu_ns - map->rated_gpu_ns), rate;
	double error_ns = offset_ns - offset_at(map, gpu_ns);
	bool is_most = map->rate_span_ns >= RATE_SPAN_MOST_NS;

	if (error_ns > JUMP_NS || error_ns < -JUMP_NS) {
		rate_from(map, gpu_ns, offset_ns);
		return;
	}
	if (span_ns < map->rate_span_ns)
		return;
	rate = (offset_ns - map->rated_offset_ns) / span_ns;
	map->rate += (rate - map->rate) * (is_most ? RATE_GAIN : 1);
	map->rate = clip(map->rate, DRIFT_MOST);
	if (!is_most)
		map->rate_span_ns *= 2;
	rate_from(map, gpu_ns, offset_ns);
}

/* The earliest probe of the round puts offset and drift right. */
static void end_round(struct clockmap *map)
{
	double error_ns = map->best_error_ns, offset_ns = offset_at(map, map->best_gpu_ns);

	learn_rate(map, map->best_gpu_ns, offset_ns + error_ns);
	set(map, map->best_gpu_ns, offset_ns + error_ns * OFFSET_GAIN);
	map->error_ns += ((error_ns < 0 ? -error_ns : error_ns) - map->error_ns) * ERROR_GAIN;
	map->probes = 0;
}

/* Whether a record call took so long that its thread may have had to wait before it read the time. */
static bool is_long(struct clockmap *map, int64_t call_ns)
{
	int64_t usual_ns = map->is_probed ? map->call_ns : clock_least_ns(call_ns, CALL_FIRST_NS);
	int64_t apart_ns = clock_least_ns(call_ns - usual_ns, usual_ns);

	map->call_ns = clock_most_ns(usual_ns + apart_ns / CALL_PART, CALL_LEAST_NS);
	return apart_ns > usual_ns / CALL_LONG_PART + CALL_LEAST_NS;
}

void clockmap_probe(struct clockmap *map, int64_t gpu_ns, int64_t begin_ns, int64_t submit_ns)
{
	double seen_ns = (double)(submit_ns - gpu_ns), error_ns;

	if (is_long(map, submit_ns - begin_ns) && map->is_probed)
		return;
	if (!map->is_probed) {
		/* As early as can be: what is later is believed at once, what is earlier is not. */
		begin(map, gpu_ns, (double)(begin_ns - gpu_ns));
		return;
	}
	/* From the second one on: where a context's first ran in its call nobody knows. */
	if (map->rate_span_ns == 0) {
		rate_from(map, gpu_ns, seen_ns);
		map->rate_span_ns = RATE_SPAN_LEAST_NS;
	}
	error_ns = seen_ns - offset_at(map, gpu_ns);
	if (error_ns > EARLY_NS) {
		learn_rate(map, gpu_ns, seen_ns);
		begin(map, gpu_ns, seen_ns);
		return;
	}
	if (map->probes++ == 0 || error_ns > map->best_error_ns) {
		map->best_error_ns = error_ns;
		map->best_gpu_ns = gpu_ns;
	}
	if (error_ns > MEAN_LATE * map->mean_ns - MEAN_LATE_NS)
		map->mean_ns = clip_above(map->mean_ns + (error_ns - map->mean_ns) * MEAN_GAIN);
	if (map->probes >= ROUND_MOST ||
	    (map->probes >= ROUND_LEAST &&
	     map->best_error_ns > -(LATE_ERRORS * map->error_ns + LATE_NS)))
		end_round(map);
}

void clockmap_bound(struct clockmap *map, int64_t gpu_ns, int64_t submit_ns, int64_t seen_ns)
{
	double high_ns = (double)(seen_ns - gpu_ns), low_ns = (double)(submit_ns - gpu_ns);

	/* Not known: as late as can be, so that nothing is counted short. */
	if (!map->is_set)
		set(map, gpu_ns, high_ns);
	else if (offset_at(map, gpu_ns) > high_ns)
		set(map, gpu_ns, high_ns);
	else if (!map->is_probed && offset_at(map, gpu_ns) < low_ns)
		set(map, gpu_ns, low_ns);
}

int64_t clockmap_cpu_ns(const struct clockmap *map, int64_t gpu_ns)
{
	return gpu_ns + (int64_t)(offset_at(map, gpu_ns) + map->mean_ns);
}
