#include "core/clockmap.h"

/* The clocks run apart by no more than that. */
#define DRIFT_MOST 300e-6
/* Earlier than it was thought to be possible by so much: what was thought is wrong. */
#define EARLY_NS 6000.0
/* What of a round's error is put right at once, and what of it is taken for drift. */
#define OFFSET_GAIN 0.5
#define RATE_GAIN 0.125
/* A round's earliest probe is good if it is no later than that: so many usual errors, and a little. */
#define LATE_ERRORS 3.0
#define LATE_NS 300.0
#define ERROR_NS 2000.0
#define ERROR_GAIN 0.125
/* The mean of what is not late, in relation to the earliest. */
#define MEAN_GAIN (1.0 / 32)
#define MEAN_LATE 3.0
#define MEAN_LATE_NS 500.0
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
	map->round_gpu_ns = gpu_ns;
	map->error_ns = ERROR_NS;
	map->probes = 0;
	map->is_probed = true;
}

/* The earliest probe of the round puts offset and drift right. */
static void end_round(struct clockmap *map)
{
	double error_ns = map->best_error_ns;
	double span_ns = (double)(map->best_gpu_ns - map->round_gpu_ns);

	set(map, map->best_gpu_ns, offset_at(map, map->best_gpu_ns) + error_ns * OFFSET_GAIN);
	if (span_ns > 0)
		map->rate = clip(map->rate + error_ns * RATE_GAIN / span_ns, DRIFT_MOST);
	map->error_ns += ((error_ns < 0 ? -error_ns : error_ns) - map->error_ns) * ERROR_GAIN;
	map->round_gpu_ns = map->best_gpu_ns;
	map->probes = 0;
}

void clockmap_probe(struct clockmap *map, int64_t gpu_ns, int64_t submit_ns)
{
	double seen_ns = (double)(submit_ns - gpu_ns), error_ns;

	if (!map->is_probed) {
		begin(map, gpu_ns, seen_ns);
		return;
	}
	error_ns = seen_ns - offset_at(map, gpu_ns);
	if (error_ns > EARLY_NS) {
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
