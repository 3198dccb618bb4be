#include "judge.h"

#include "base/clock.h"

#include "sparse.h"

#include <stdlib.h>
#include <string.h>

#define BEGIN_NS (100 * NSEC_PER_SEC)

int64_t judge_longest_ns(const struct tenant_program *program)
{
	switch (program->length) {
	case TENANT_FIXED:
		break;
	case TENANT_MIXED:
		return program->kernel_ns * 2;
	case TENANT_RARE:
		return program->kernel_ns * 5;
	case TENANT_TAIL:
		return program->kernel_ns * 20;
	}
	return program->kernel_ns;
}

/*
 * A second; but where a whole kernel more or less is more than half a point of that, as many seconds as
 * it takes. (A kernel runs at full rate while it runs: what it is over, it is over by 1 - share.)
 */
int64_t judge_window_ns(const struct tenant_program *program, unsigned share_pct)
{
	int64_t window_ns = judge_longest_ns(program) * 2 * (100 - (int64_t)share_pct);

	if (window_ns < NSEC_PER_SEC)
		return NSEC_PER_SEC;
	return window_ns / GPU_WINDOW_NS * GPU_WINDOW_NS;
}

/*
 * The first second does not count. Of kernels that are longer than a second several start before one
 * was ever measured; it takes that long until they are paid for.
 */
static int64_t judge_begin_ns(const struct judge_result *result)
{
	if (result->longest_ns <= NSEC_PER_SEC)
		return NSEC_PER_SEC;
	return 40 * result->longest_ns + 2 * result->window_ns;
}

static void judge_windows(const struct gpu *gpu, int64_t end_ns, struct judge_result *out)
{
	int64_t begin_ns = BEGIN_NS + judge_begin_ns(out), sum_ns, bare_ns;

	out->least_pct = 100;
	out->most_pct = 0;
	sum_ns = gpu_busy_ns(gpu, begin_ns, begin_ns + out->window_ns);
	bare_ns = gpu_bare_ns(gpu, begin_ns, begin_ns + out->window_ns);
	for (int64_t at_ns = begin_ns; at_ns + out->window_ns <= end_ns; at_ns += GPU_WINDOW_NS) {
		double pct = (double)sum_ns * 100 / (double)out->window_ns;
		double bare_pct = (double)bare_ns * 100 / (double)out->window_ns;

		if (pct < out->least_pct)
			out->least_pct = pct;
		if (pct > out->most_pct)
			out->most_pct = pct;
		if (bare_pct > out->most_bare_pct)
			out->most_bare_pct = bare_pct;
		bare_ns += gpu_bare_ns(gpu, at_ns + out->window_ns,
				       at_ns + out->window_ns + GPU_WINDOW_NS) -
			   gpu_bare_ns(gpu, at_ns, at_ns + GPU_WINDOW_NS);
		sum_ns += gpu_busy_ns(gpu, at_ns + out->window_ns,
				      at_ns + out->window_ns + GPU_WINDOW_NS) -
			  gpu_busy_ns(gpu, at_ns, at_ns + GPU_WINDOW_NS);
	}
	out->mean_pct = (double)gpu_busy_ns(gpu, begin_ns, end_ns) * 100 /
			(double)(end_ns - begin_ns);
}

double judge_seconds(const struct tenant_program *program, unsigned share_pct)
{
	struct judge_result result = { .window_ns = judge_window_ns(program, share_pct),
				       .longest_ns = judge_longest_ns(program) };

	return (double)(judge_begin_ns(&result) + 2 * result.window_ns) / 1e9 + 0.1;
}

struct judge_result judge_run(const struct tenant_program *program, unsigned share_pct,
			      double seconds)
{
	static struct gpu gpu;
	static struct sparse sparse;
	struct judge_result result = { .window_ns = judge_window_ns(program, share_pct),
				       .longest_ns = judge_longest_ns(program) };
	struct queue queue = { .now_ns = BEGIN_NS, .random = 42 };
	int64_t end_ns = BEGIN_NS + (int64_t)(seconds * 1e9), metered_ns = 0, hold_ns = 0;
	struct tenant tenant;

	gpu_init(&gpu, &queue, program->is_serial);
	tenant_init(&tenant, &gpu, program, share_pct);
	memset(&sparse, 0, sizeof(sparse));
	sparse.queue = &queue;
	tenant.sparse = &sparse;
	queue_run(&queue, end_ns);
	gpu_close(&gpu);
	judge_windows(&gpu, end_ns, &result);
	for (int i = 0; i < program->processes; i++) {
		metered_ns += (int64_t)tenant.device->slots[i].busy_ns;
		result.markers += tenant.processes[i].markers;
		for (int j = 0; j < program->threads; j++)
			if (tenant.processes[i].threads[j].longest_hold_ns > hold_ns)
				hold_ns = tenant.processes[i].threads[j].longest_hold_ns;
	}
	result.metered_pct = (double)metered_ns / seconds / 1e7;
	result.sparse_pct = (double)sparse.busy_ns / seconds / 1e7;
	result.true_pct = (double)gpu.busy_ns / seconds / 1e7;
	result.bare_pct = (double)(gpu.busy_ns - gpu.gap_ns) / seconds / 1e7;
	result.launches = tenant_launches(&tenant);
	result.longest_hold_ms = (double)hold_ns / 1e6;
	tenant_free(&tenant);
	gpu_free(&gpu);
	queue_free(&queue);
	return result;
}
