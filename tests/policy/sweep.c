/*
 * The policy of GPU time, judged in simulated time: metering against the truth and against sparse
 * markers, and pacing over limits, kernels, shapes of programs and numbers of processes. Prints tables;
 * fails where a promise is not kept. RATION_POLICY_SWEEP=1 tries many more combinations.
 */
#include "core/pace.h"

#include "judge.h"

#include <stdio.h>
#include <stdlib.h>

#define POINT 1.0

/* The fields that every program has. */
#define PROGRAM(p, t, s, d, l, k, c)                                                   \
	.processes = (p), .threads = (t), .streams = (s), .depth = (d), .length = (l), \
	.kernel_ns = (k), .launch_ns = (c)

static int failures;
static bool is_broad;

static void expect(bool is_right, const char *what, const char *program, unsigned share_pct)
{
	if (is_right)
		return;
	failures++;
	printf("  ^ FAILED: %s (%s, limit %u %%)\n", what, program, share_pct);
}

static const char *time_text(int64_t ns)
{
	static char text[4][16];
	static unsigned next;
	char *out = text[next++ % 4];

	if (ns < 1000000)
		snprintf(out, sizeof(text[0]), "%g us", (double)ns / 1e3);
	else if (ns < 1000000000)
		snprintf(out, sizeof(text[0]), "%g ms", (double)ns / 1e6);
	else
		snprintf(out, sizeof(text[0]), "%g s", (double)ns / 1e9);
	return out;
}

/* A program with one stream and deep queue that launches faster than the GPU works. */
static struct tenant_program always(int64_t kernel_ns)
{
	struct tenant_program program = { .processes = 1,
					  .threads = 1,
					  .streams = 1,
					  .depth = 64,
					  .kernel_ns = kernel_ns,
					  .launch_ns = kernel_ns < 10000 ? 1000 : 3500 };

	return program;
}

struct named {
	const char *name;
	struct tenant_program program;
	double miss_pct; /* by how many points the promise is known to be missed */
};

/* Programs without a limit: what the meter and what sparse markers make of them. */
static void sweep_metering(void)
{
	static const struct named programs[] = {
		{ "2 us every 3.5 us", { PROGRAM(1, 1, 1, 64, TENANT_FIXED, 2000, 3500) }, 1.5 },
		{ "2 us every 5 us", { PROGRAM(1, 1, 1, 64, TENANT_FIXED, 2000, 5000) }, 0.5 },
		{ "5 us, sync each", { PROGRAM(1, 1, 1, 1, TENANT_FIXED, 5000, 3500) }, 0 },
		{ "20 us, sync each", { PROGRAM(1, 1, 1, 1, TENANT_FIXED, 20000, 3500) }, 0 },
		{ "20 us, event each",
		  { PROGRAM(1, 1, 1, 1, TENANT_FIXED, 20000, 3500), .has_events = true },
		  0 },
		{ "20 us, sync each, 1 of 1000 1 ms late",
		  { PROGRAM(1, 1, 1, 1, TENANT_FIXED, 20000, 3500), .late = 0.001 },
		  0 },
		{ "1 ms, sync each", { PROGRAM(1, 1, 1, 1, TENANT_FIXED, 1000000, 3500) }, 0 },
		{ "mixed 20 us, sync each", { PROGRAM(1, 1, 1, 1, TENANT_MIXED, 20000, 3500) }, 0 },
		{ "1 of 50 5 times as long, sync each",
		  { PROGRAM(1, 1, 1, 1, TENANT_RARE, 20000, 3500) },
		  0 },
		{ "heavy tail 20 us, sync each",
		  { PROGRAM(1, 1, 1, 1, TENANT_TAIL, 20000, 3500) },
		  5 },
		{ "2 threads, mixed 20 us, sync each",
		  { PROGRAM(1, 2, 1, 1, TENANT_MIXED, 20000, 3500), .think_ns = 50000 },
		  0 },
		{ "20 us every 25 us", { PROGRAM(1, 1, 1, 64, TENANT_FIXED, 20000, 25000) }, 0 },
		{ "mixed, 20 us every 25 us",
		  { PROGRAM(1, 1, 1, 64, TENANT_MIXED, 20000, 25000) },
		  0 },
		{ "heavy tail, 5 us, two deep",
		  { PROGRAM(1, 1, 1, 2, TENANT_TAIL, 5000, 1000) },
		  5 },
		{ "5 us every 3.5 us on 4 streams",
		  { PROGRAM(1, 1, 4, 64, TENANT_FIXED, 5000, 3500), .think_ns = 4000 },
		  0 },
		{ "4 threads, 20 us every 50 us",
		  { PROGRAM(1, 4, 1, 64, TENANT_FIXED, 20000, 50000) },
		  0 },
		{ "4 processes, 20 us every 123 us",
		  { PROGRAM(4, 1, 1, 64, TENANT_FIXED, 20000, 123000) },
		  2 },
		{ "200 us queued", { PROGRAM(1, 1, 1, 64, TENANT_FIXED, 200000, 3500) }, 0 },
		{ "20 us every 25 us, 10 % of markers lost",
		  { PROGRAM(1, 1, 1, 64, TENANT_FIXED, 20000, 25000), .loss = 0.1 },
		  0 },
	};

	printf("\nMetering, no limit: busy %% of the GPU (true: kernels .. with gaps below 2 us)\n"
	       "%-42s %13s %8s %8s %10s\n",
	       "program", "true", "meter", "sparse", "markers/s");
	for (unsigned i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
		struct judge_result r = judge_run(&programs[i].program, 100, 1);

		printf("%-42s %5.1f ..%6.1f %8.1f %8.1f %10.0f\n", programs[i].name, r.bare_pct,
		       r.true_pct, r.metered_pct, r.sparse_pct, (double)r.markers);
		if (programs[i].miss_pct > 0)
			printf("  ^ known to be off by up to %g points more\n",
			       programs[i].miss_pct);
		expect(r.metered_pct > r.bare_pct - POINT - programs[i].miss_pct &&
			       r.metered_pct < r.true_pct + POINT + programs[i].miss_pct,
		       "metered within a point", programs[i].name, 100);
	}
}

/* One cell: within a point of the limit in every window after the first second. */
static void hold_limit(const char *name, const struct tenant_program *program, unsigned share_pct,
		       double miss_pct)
{
	struct judge_result r = judge_run(program, share_pct, judge_seconds(program, share_pct));

	printf("  %6.2f ..%6.2f", r.least_pct, r.most_pct);
	expect(r.least_pct >= share_pct - POINT - miss_pct &&
		       r.most_pct <= share_pct + POINT + miss_pct,
	       "within a point", name, share_pct);
}

static void sweep_limits(void)
{
	static const unsigned broad[] = { 1, 2, 5, 10, 25, 33, 50, 75, 90, 95, 99 };
	static const unsigned few[] = { 1, 10, 50, 90 };
	static const int64_t kernels_ns[] = { 2000,    5000,     20000,     200000,
					      2000000, 10000000, 100000000, 2000000000 };
	const unsigned *limits = is_broad ? broad : few;
	unsigned count = is_broad ? sizeof(broad) / sizeof(*broad) : sizeof(few) / sizeof(*few);

	printf("\nA program that always has work: least .. most busy %% in any window\n%-8s",
	       "kernel");
	for (unsigned j = 0; j < count; j++)
		printf("  %13u %%", limits[j]);
	printf("\n");
	for (unsigned i = 0; i < sizeof(kernels_ns) / sizeof(*kernels_ns); i++) {
		struct tenant_program program = always(kernels_ns[i]);

		printf("%-8s", time_text(kernels_ns[i]));
		for (unsigned j = 0; j < count; j++)
			/* Twenty minutes of simulated time. */
			if (kernels_ns[i] >= 1000000000 && limits[j] < 10 && !is_broad)
				printf("  %15s", "-");
			else
				hold_limit(time_text(kernels_ns[i]), &program, limits[j], 0);
		printf("\n");
	}
}

static void sweep_shapes(void)
{
	static const struct named programs[] = {
		{ "mixed 5 us", { PROGRAM(1, 1, 1, 64, TENANT_MIXED, 5000, 1000) }, 0 },
		{ "mixed 100 us", { PROGRAM(1, 1, 1, 64, TENANT_MIXED, 100000, 3500) }, 0 },
		{ "heavy tail 5 us", { PROGRAM(1, 1, 1, 64, TENANT_TAIL, 5000, 1000) }, 0.25 },
		{ "heavy tail 100 us", { PROGRAM(1, 1, 1, 64, TENANT_TAIL, 100000, 3500) }, 0 },
		{ "heavy tail 100 us, two deep",
		  { PROGRAM(1, 1, 1, 2, TENANT_TAIL, 100000, 3500) },
		  0 },
		{ "2 ms, sync each", { PROGRAM(1, 1, 1, 1, TENANT_FIXED, 2000000, 3500) }, 0 },
		{ "200 us, 8 streams", { PROGRAM(1, 1, 8, 64, TENANT_FIXED, 200000, 3500) }, 0 },
		{ "100 us, 32 streams, GPU filled",
		  { PROGRAM(1, 1, 32, 8, TENANT_FIXED, 100000, 3500), .is_serial = true },
		  0 },
		{ "100 us, 4 threads, 8 streams, filled",
		  { PROGRAM(1, 4, 2, 64, TENANT_FIXED, 100000, 3500), .is_serial = true },
		  0 },
		{ "200 us, never synchronises",
		  { PROGRAM(1, 1, 1, 64, TENANT_FIXED, 200000, 3500), .is_blind = true },
		  0 },
		{ "200 us, 10 % of markers lost",
		  { PROGRAM(1, 1, 1, 64, TENANT_FIXED, 200000, 3500), .loss = 0.1 },
		  0 },
		{ "2 processes, 200 us", { PROGRAM(2, 1, 1, 64, TENANT_FIXED, 200000, 3500) }, 0 },
		{ "4 processes, 5 us", { PROGRAM(4, 1, 1, 64, TENANT_FIXED, 5000, 1000) }, 0 },
		{ "4 processes, mixed 100 us",
		  { PROGRAM(4, 1, 1, 64, TENANT_MIXED, 100000, 3500) },
		  0 },
		{ "16 processes, 20 us",
		  { PROGRAM(16, 1, 1, 64, TENANT_FIXED, 20000, 3500) },
		  0.5 },
		{ "16 processes, 200 us",
		  { PROGRAM(16, 1, 1, 64, TENANT_FIXED, 200000, 3500) },
		  0 },
	};
	static const unsigned broad[] = { 1, 5, 10, 25, 50, 75, 90, 99 };
	static const unsigned few[] = { 10, 50, 90 };
	const unsigned *limits = is_broad ? broad : few;
	unsigned count = is_broad ? sizeof(broad) / sizeof(*broad) : sizeof(few) / sizeof(*few);

	printf("\nShapes of programs that always have work: least .. most busy %%\n%-38s", "");
	for (unsigned j = 0; j < count; j++)
		printf("  %13u %%", limits[j]);
	printf("\n");
	for (unsigned i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
		printf("%-38s", programs[i].name);
		for (unsigned j = 0; j < count; j++)
			hold_limit(programs[i].name, &programs[i].program, limits[j],
				   programs[i].miss_pct);
		if (programs[i].miss_pct > 0)
			printf("  known to miss by up to %g", programs[i].miss_pct);
		printf("\n");
	}
}

/* Any program: no second with more than the limit, what the bucket holds, what is in flight and one launch. */
static void sweep_bursts(void)
{
	static const struct named programs[] = {
		{ "launch-bound, 2 us every 3.5 us",
		  { PROGRAM(1, 1, 1, 64, TENANT_FIXED, 2000, 3500) },
		  1 },
		{ "5 us, sync each", { PROGRAM(1, 1, 1, 1, TENANT_FIXED, 5000, 3500) }, 0 },
		{ "bursts of 100 ms each 300 ms",
		  { PROGRAM(1, 1, 1, 64, TENANT_FIXED, 200000, 3500), .burst_ns = 100000000,
		    .rest_ns = 200000000 },
		  0 },
		{ "bursts of 5 ms each 20 ms",
		  { PROGRAM(1, 1, 1, 64, TENANT_FIXED, 100000, 3500), .burst_ns = 5000000,
		    .rest_ns = 15000000 },
		  0 },
		{ "4 processes in bursts",
		  { PROGRAM(4, 1, 1, 64, TENANT_FIXED, 200000, 3500), .burst_ns = 50000000,
		    .rest_ns = 100000000 },
		  0 },
		{ "10 ms kernels in bursts",
		  { PROGRAM(1, 1, 1, 64, TENANT_FIXED, 10000000, 3500), .burst_ns = 500000000,
		    .rest_ns = 1500000000 },
		  0 },
	};
	static const unsigned limits[] = { 10, 30, 50 };

	printf("\nAny program: most busy %% in any second, and the bound\n");
	for (unsigned i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
		printf("%-38s", programs[i].name);
		if (programs[i].miss_pct > 0)
			printf("  ^ known to be over by up to %g points more\n%-38s",
			       programs[i].miss_pct, "");
		for (unsigned j = 0; j < 3; j++) {
			struct tenant_program program = programs[i].program;
			struct judge_result r;
			double bound_pct;

			r = judge_run(&program, limits[j], 3);
			bound_pct = limits[j] +
				    (double)(2 * pace_cap_ns(limits[j]) + program.kernel_ns) / 1e7 +
				    programs[i].miss_pct;
			printf("  %6.2f (%5.2f)", r.most_bare_pct, bound_pct);
			expect(r.most_bare_pct <= bound_pct, "below the bound", programs[i].name,
			       limits[j]);
		}
		printf("\n");
	}
}

/* A program that stays under its limit in every 50 ms by itself loses less than 2 %. */
static void sweep_under(void)
{
	static const struct {
		struct named n;
		unsigned share_pct;
	} programs[] = {
		{ { "20 us every 50 us", { PROGRAM(1, 1, 1, 64, TENANT_FIXED, 20000, 50000) }, 0 },
		  50 },
		{ { "2 us every 5 us", { PROGRAM(1, 1, 1, 64, TENANT_FIXED, 2000, 5000) }, 0 },
		  50 },
		{ { "5 us, sync each", { PROGRAM(1, 1, 1, 1, TENANT_FIXED, 5000, 3500) }, 0 }, 50 },
		{ { "1 ms each 25 ms",
		    { PROGRAM(1, 1, 1, 1, TENANT_FIXED, 1000000, 3500), .think_ns = 24000000 },
		    0 },
		  5 },
		{ { "8 ms each 20 ms",
		    { PROGRAM(1, 1, 1, 1, TENANT_FIXED, 8000000, 3500), .think_ns = 20000000 },
		    0 },
		  50 },
		{ { "20 ms each 50 ms",
		    { PROGRAM(1, 1, 1, 1, TENANT_FIXED, 20000000, 3500), .think_ns = 50000000 },
		    0 },
		  50 },
		{ { "bursts of 11 ms each 40 ms",
		    { PROGRAM(1, 1, 1, 4, TENANT_FIXED, 100000, 3500), .burst_ns = 11000000,
		      .rest_ns = 29000000 },
		    0 },
		  50 },
		{ { "bursts of 21 ms each 50 ms",
		    { PROGRAM(1, 1, 1, 4, TENANT_FIXED, 100000, 3500), .burst_ns = 21000000,
		      .rest_ns = 29000000 },
		    0 },
		  50 },
		{ { "4 processes, 20 us every 250 us",
		    { PROGRAM(4, 1, 1, 64, TENANT_FIXED, 20000, 250000) },
		    0 },
		  50 },
	};

	printf("\nPrograms under their limit: launches under it and without, and the loss\n");
	for (unsigned i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
		const struct tenant_program *program = &programs[i].n.program;
		struct judge_result with = judge_run(program, programs[i].share_pct, 2);
		struct judge_result without = judge_run(program, 100, 2);
		double loss_pct = 100 - 100 * (double)with.launches / (double)without.launches;

		printf("%-38s limit %2u %%, uses %5.2f %%: %7lu of %7lu, lost %5.2f %%\n",
		       programs[i].n.name, programs[i].share_pct, without.true_pct,
		       (unsigned long)with.launches, (unsigned long)without.launches, loss_pct);
		expect(loss_pct < 2, "loses less than 2 %", programs[i].n.name,
		       programs[i].share_pct);
	}
}

int main(void)
{
	is_broad = getenv("RATION_POLICY_SWEEP") != NULL;
	sweep_metering();
	sweep_limits();
	sweep_shapes();
	sweep_bursts();
	sweep_under();
	printf("\n%d failed\n", failures);
	return failures ? 1 : 0;
}
