/*
 * Slabs alone, no driver being called: what a request costs and what memory they waste.
 *
 *   slab ns COUNT...   with so many live pieces of 512 bytes to 64 KiB, of which some are freed and
 *                      others allocated: "count alloc_ns free_ns" per line, processor time, medians
 *                      of nine rounds
 *   slab waste         "trace asked_bytes held_bytes mean_permille peak_permille extents" per line
 *
 * Held is what the slab's extents and, for what it does not take, whole blocks hold; asked what the
 * program asked for of it. Wasted is their difference, as a part of what is held: the mean over the
 * trace, and when most is held. A freed piece is in quarantine for the next 16 frees.
 */
#include "core/slab.h"

#include "driver.h"

#include <math.h>
#include <string.h>

enum { CHANGES = 100000, LAG = 16, LIVE_MOST = 1 << 20 };

#define BLOCK SLAB_BLOCK_BYTES

struct piece {
	uint64_t addr, bytes;
};

static struct {
	struct slab *slab;
	uint64_t next_addr, fence;
	uint64_t own_bytes, asked_bytes, extents;
	/* of the trace */
	double waste_sum;
	uint64_t samples, peak_held, peak_asked;
} mem;

static uint64_t seed = 1;

static uint64_t dice(uint64_t count)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % count;
}

/* Sizes of which every doubling is as likely as any other. */
static uint64_t log_uniform(uint64_t low, uint64_t high)
{
	double part = (double)dice(1 << 30) / (1 << 30);

	return (uint64_t)((double)low * pow((double)high / (double)low, part));
}

static uint64_t held_bytes(void)
{
	return slab_stats(mem.slab).held + mem.own_bytes;
}

static void sample(void)
{
	uint64_t held = held_bytes();

	if (held > mem.peak_held) {
		mem.peak_held = held;
		mem.peak_asked = mem.asked_bytes;
	}
	mem.waste_sum += 1 - (double)mem.asked_bytes / (double)held;
	mem.samples++;
}

/* As a caller does it: memory for another extent when there is no room, in another region if need be. */
static uint64_t take_from_slab(uint64_t bytes)
{
	struct slab_piece extent;
	uint64_t addr;

	if (slab_alloc(mem.slab, bytes, &addr) == 0)
		return addr;
	if (slab_grow_begin(mem.slab, bytes, &extent) < 0) {
		CHECK(slab_add(mem.slab, mem.next_addr, SLAB_REGION_BYTES, NULL));
		mem.next_addr += SLAB_REGION_BYTES;
		CHECK(slab_grow_begin(mem.slab, bytes, &extent));
	}
	slab_grow_commit(mem.slab, &extent);
	mem.extents++;
	CHECK(slab_alloc(mem.slab, bytes, &addr));
	return addr;
}

static uint64_t rounded(uint64_t bytes)
{
	return (bytes + BLOCK - 1) / BLOCK * BLOCK;
}

static void take(struct piece *p, uint64_t bytes)
{
	p->bytes = bytes;
	p->addr = 0;
	if (slab_takes(bytes))
		p->addr = take_from_slab(bytes);
	else
		mem.own_bytes += rounded(bytes);
	mem.asked_bytes += bytes;
	sample();
}

static void give(struct piece *p)
{
	struct slab_piece extent;

	mem.fence++;
	mem.asked_bytes -= p->bytes;
	if (p->addr)
		CHECK(slab_free(mem.slab, p->addr, mem.fence));
	else
		mem.own_bytes -= rounded(p->bytes);
	p->bytes = 0;
	while (slab_poll(mem.slab, mem.fence > LAG ? mem.fence - LAG : 0))
		;
	while (slab_shrink_begin(mem.slab, slab_stats(mem.slab).held / 32, &extent))
		slab_shrink_end(mem.slab, &extent);
	if (mem.asked_bytes)
		sample();
}

static void begin(void)
{
	memset(&mem, 0, sizeof(mem));
	mem.slab = slab_open();
	mem.next_addr = UINT64_C(1) << 40;
	seed = 88172645463325252u;
}

static void print(const char *trace)
{
	printf("%s %llu %llu %.0f %.0f %llu\n", trace, (unsigned long long)mem.peak_asked,
	       (unsigned long long)mem.peak_held, 1000 * mem.waste_sum / (double)mem.samples,
	       1000 * (1 - (double)mem.peak_asked / (double)mem.peak_held),
	       (unsigned long long)mem.extents);
	mem.waste_sum = 0;
	mem.samples = mem.peak_held = 0;
}

static struct piece live[LIVE_MOST];

static void mix(unsigned count, unsigned most, uint64_t low, uint64_t high)
{
	for (unsigned i = 0; i < 4 * count; i++) {
		struct piece *p = &live[dice(count)];

		if (p->bytes)
			give(p);
		else if (dice(count) < most)
			take(p, log_uniform(low, high));
	}
}

/*
 * Random sizes and lifetimes: the live set grows and stays. Then it shrinks to a half, in another order
 * than it came, and stays there.
 */
static void mixed(const char *trace, const char *shrunk, uint64_t high, unsigned count)
{
	begin();
	mix(count, count, 1, high);
	mix(count, count, 1, high);
	print(trace);
	mix(count, count / 3, 1, high);
	mix(count, count / 3, 1, high);
	print(shrunk);
	slab_close(mem.slab);
	memset(live, 0, sizeof(live));
}

/* What PyTorch rounds a tensor to. */
static uint64_t tensor(uint64_t bytes)
{
	return (bytes + 511) / 512 * 512;
}

/*
 * Training a transformer, each tensor its own allocation (PYTORCH_NO_CUDA_MEMORY_CACHING): weights and
 * states of the optimizer stay; activations live from the forward to the backward pass, whose batch has
 * another length each time; workspaces and scalars come and go.
 */
static void torch_tensors(uint64_t hidden, unsigned layers)
{
	enum { KEPT = 8, SCRATCH = 4 };
	struct piece scratch[SCRATCH] = { { 0, 0 } };
	unsigned kept = 0;

	begin();
	for (unsigned l = 0; l < layers; l++)
		for (unsigned part = 0; part < 3; part++) { /* weights, two states */
			uint64_t width = part ? 4 : 2;

			take(&live[kept++], tensor(3 * hidden * hidden * width));
			take(&live[kept++], tensor(hidden * hidden * width));
			take(&live[kept++], tensor(4 * hidden * hidden * width));
			for (unsigned i = 0; i < 6; i++)
				take(&live[kept++], tensor((i + 1) * hidden * width));
		}
	for (unsigned step = 0; step < 60; step++) {
		uint64_t tokens = 64 + dice(960);
		unsigned at = kept;

		for (unsigned l = 0; l < layers; l++)
			for (unsigned i = 0; i < KEPT; i++) {
				static const unsigned widths[KEPT] = { 1, 3, 1, 1, 4, 4, 1, 0 };

				take(&live[at++],
				     tensor(tokens * (widths[i] ? widths[i] * hidden * 2 : 4)));
				if (scratch[i % SCRATCH].bytes)
					give(&scratch[i % SCRATCH]);
				take(&scratch[i % SCRATCH],
				     tensor(i % 2 ? 4 : tokens * dice(hidden + 1) + 1));
			}
		while (at > kept)
			give(&live[--at]);
	}
	print("torch_tensors");
	slab_close(mem.slab);
	memset(live, 0, sizeof(live));
}

/* What PyTorch's own allocator asks of the driver: 2 MiB, 20 MiB, and multiples of 2 MiB. */
static void torch_segments(void)
{
	begin();
	for (unsigned i = 0; i < 20000; i++) {
		struct piece *p = &live[dice(2000)];
		uint64_t kind = dice(3);

		if (p->bytes)
			give(p);
		else
			take(p, kind == 0 ? BLOCK :
				kind == 1 ? 10 * BLOCK :
					    rounded(log_uniform(5 * BLOCK, 200 * BLOCK)));
	}
	print("torch_segments");
	slab_close(mem.slab);
	memset(live, 0, sizeof(live));
}

/* Time of ours alone: other work on the machine does not count. */
static int64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Frees and allocates pieces that are at random among all. */
static void change(unsigned count, unsigned changes, double *out_alloc_ns, double *out_free_ns)
{
	int64_t start_ns, middle_ns;

	for (unsigned i = 0; i < changes; i++) {
		unsigned k = i + (unsigned)dice(count - i);
		struct piece other = live[k];

		live[k] = live[i];
		live[i] = other;
	}
	start_ns = cpu_ns();
	for (unsigned i = 0; i < changes; i++) {
		CHECK(slab_free(mem.slab, live[i].addr, ++mem.fence));
		slab_poll(mem.slab, mem.fence - 1);
	}
	middle_ns = cpu_ns();
	for (unsigned i = 0; i < changes; i++)
		live[i].addr = take_from_slab(live[i].bytes);
	*out_alloc_ns = (double)(cpu_ns() - middle_ns) / changes;
	*out_free_ns = (double)(middle_ns - start_ns) / changes;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure_ns(unsigned count)
{
	enum { ROUNDS = 9 };
	double alloc_ns[ROUNDS], free_ns[ROUNDS];

	for (unsigned i = 0; i < ROUNDS; i++)
		change(count, count < CHANGES ? count : CHANGES, &alloc_ns[i], &free_ns[i]);
	qsort(alloc_ns, ROUNDS, sizeof(*alloc_ns), compare);
	qsort(free_ns, ROUNDS, sizeof(*free_ns), compare);
	printf("%u %.0f %.0f\n", count, alloc_ns[ROUNDS / 2], free_ns[ROUNDS / 2]);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	unsigned count = 0;

	if (argc == 2 && strcmp(argv[1], "waste") == 0) {
		torch_tensors(1024, 24);
		torch_segments();
		mixed("mixed", "mixed_shrunk", UINT64_C(32) << 20, 4000);
		mixed("small", "small_shrunk", UINT64_C(1) << 20, 20000);
		mixed("few", "few_shrunk", UINT64_C(1) << 20, 300);
		return 0;
	}
	if (argc < 3 || strcmp(argv[1], "ns") != 0) {
		fprintf(stderr, "usage: slab ns COUNT... | slab waste\n");
		return 2;
	}
	begin();
	for (int a = 2; a < argc; a++) {
		for (; count < (unsigned)atoi(argv[a]) && count < LIVE_MOST; count++) {
			live[count].bytes = log_uniform(512, 65536);
			live[count].addr = take_from_slab(live[count].bytes);
		}
		measure_ns(count);
	}
	return 0;
}
