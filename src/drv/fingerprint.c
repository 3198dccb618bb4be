#include "drv/fingerprint.h"

#include "drv/nvml_list.h"

#include <stddef.h>

/*
 * The rounds that must name the same single row have so many ways to choose their sizes, all
 * together: one row in as many is named by chance.
 */
enum { ROUNDS = 28, WAYS = 4096 };

/* Three looks of a round. */
struct round {
	struct nvml_list before, during, after;
};

/* What was found so far. */
struct search {
	unsigned pid;  /* 0: none yet */
	unsigned ways; /* of the rounds that named it one after the other */
	bool is_stuck; /* what was taken could not be given back */
};

/* A step of a well-known generator (Steele, Lea, Flood: SplitMix, 2014). */
static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* Whether the process of this row rose by `bytes` and fell again. */
static bool moved(const struct round *r, const nvmlProcessInfo_t *during, uint64_t bytes)
{
	const nvmlProcessInfo_t *before = nvml_list_find(&r->before, during->pid);
	const nvmlProcessInfo_t *after = nvml_list_find(&r->after, during->pid);

	return before && after && during->usedGpuMemory - before->usedGpuMemory == bytes &&
	       during->usedGpuMemory - after->usedGpuMemory == bytes;
}

/* The one process that moved; 0 when there was none or more than one. */
static unsigned mover(const struct round *r, uint64_t bytes)
{
	unsigned pid = 0;

	for (unsigned i = 0; i < r->during.count; i++) {
		if (!moved(r, &r->during.rows[i], bytes))
			continue;
		if (pid)
			return 0;
		pid = r->during.rows[i].pid;
	}
	return pid;
}

/*
 * The lists around an allocation of `bytes`. True with all three, which the caller frees; what is
 * stuck says nothing.
 */
static bool look(nvmlDevice_t dev, const struct fingerprint *f, uint64_t bytes, struct round *out,
		 struct search *s)
{
	bool has_during;

	if (nvml_list_read(dev, 0, &out->before) < 0)
		return false;
	if (f->take(f->arg, bytes)) {
		has_during = nvml_list_read(dev, out->before.count, &out->during) == 0;
		s->is_stuck = !f->give(f->arg);
		if (has_during && !s->is_stuck &&
		    nvml_list_read(dev, out->before.count, &out->after) == 0)
			return true;
		if (has_during)
			nvml_list_free(&out->during);
	}
	nvml_list_free(&out->before);
	return false;
}

/* One round. Threads of this process that allocate meanwhile hide it: then it says nothing. */
static void try(nvmlDevice_t dev, const struct fingerprint *f, uint64_t bytes, struct search *s)
{
	struct round r;
	unsigned pid;

	if (!look(dev, f, bytes, &r, s))
		return;
	pid = mover(&r, bytes);
	nvml_list_free(&r.before);
	nvml_list_free(&r.during);
	nvml_list_free(&r.after);
	if (!pid)
		return;
	s->ways = (pid == s->pid ? s->ways : 1) * f->blocks_most;
	s->pid = pid;
}

unsigned fingerprint_find(nvmlDevice_t dev, const struct fingerprint *fingerprint)
{
	uint64_t random = fingerprint->seed;
	struct search s = { 0 };

	if (fingerprint->blocks_most < 2)
		return 0;
	for (int i = 0; i < ROUNDS && s.ways < WAYS && !s.is_stuck; i++)
		try(dev, fingerprint,
		    (1 + next_random(&random) % fingerprint->blocks_most) * FINGERPRINT_BLOCK_BYTES,
		    &s);
	return s.ways >= WAYS ? s.pid : 0;
}
