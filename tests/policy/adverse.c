/* Programs that make it hard: each must neither hang nor get more than its share. */
#include "base/clock.h"
#include "core/pace.h"

#include "judge.h"

#include <stdio.h>
#include <stdlib.h>

#define BEGIN_NS (100 * NSEC_PER_SEC)

static int failures;

static void expect(bool is_right, const char *what, double value)
{
	printf("%s  %s: %g\n", is_right ? "ok    " : "FAILED", what, value);
	failures += !is_right;
}

static struct gpu gpu, second_gpu;
static struct queue queue;
static struct tenant tenant, second;

static void begin(const struct tenant_program *program, uint32_t share_pct)
{
	queue = (struct queue){ .now_ns = BEGIN_NS, .random = 7 };
	gpu_init(&gpu, &queue, program->is_serial);
	tenant_init(&tenant, &gpu, program, share_pct);
}

static void end(void)
{
	tenant_free(&tenant);
	gpu_free(&gpu);
	queue_free(&queue);
}

/* Asks until it may go, as a held thread does; how long that took. */
static int64_t launch(struct tenant_thread *thread, int stream, int kind, int64_t kernel_ns)
{
	int64_t from_ns = queue.now_ns, until_ns = 0;

	while (tenant_launch(thread, stream, kind, kernel_ns, &until_ns) != PACE_GO) {
		if (queue.now_ns - from_ns > 100 * NSEC_PER_SEC)
			return INT64_MAX;
		queue_run(&queue, until_ns > queue.now_ns ? until_ns : queue.now_ns + 1);
		tenant_read(thread->process);
	}
	queue_run(&queue, until_ns);
	return queue.now_ns - from_ns;
}

/*
 * A kernel that runs until the next launch, in another stream, has run. The launch is held for what is
 * in flight, or for debt; it must come through all the same, and again and again without ever waiting
 * longer.
 */
static void spin_for_the_next_launch(uint32_t share_pct)
{
	static const struct tenant_program program = {
		.processes = 1, .threads = 1, .streams = 2, .depth = 64, .launch_ns = 3500
	};
	struct tenant_thread *thread;
	int64_t held_ns = 0, worst_ns = 0;
	double pct;

	begin(&program, share_pct);
	thread = tenant_thread(&tenant, 0, 0);
	for (int i = 0; i < 4000; i++) {
		launch(thread, 0, 1, GPU_FOREVER_NS);
		held_ns = launch(thread, 1, 2, 50000);
		if (held_ns > worst_ns)
			worst_ns = held_ns;
		if (held_ns == INT64_MAX)
			break;
		/* The spinning kernel sees what it waited for. */
		queue_run(&queue, queue.now_ns + 60000);
		gpu_release(thread->streams[0]);
		queue_run(&queue, queue.now_ns + 60000);
	}
	printf("spin for the next launch, limit %u %%\n", share_pct);
	expect(worst_ns > NSEC_PER_USEC * 100, "the second launch was held, ms",
	       (double)worst_ns / 1e6);
	expect(worst_ns < 500 * NSEC_PER_MSEC, "and not for long, ms", (double)worst_ns / 1e6);
	gpu_close(&gpu);
	pct = (double)gpu.busy_ns * 100 / (double)(queue.now_ns - BEGIN_NS);
	expect(pct < share_pct + 6, "busy %", pct);
	end();
}

/* A process is killed with work that nobody measured: the rest go on at once after it was reaped. */
static void killed_with_unmeasured_work(void)
{
	static const struct tenant_program program = { .processes = 2,
						       .threads = 1,
						       .streams = 1,
						       .depth = 64,
						       .kernel_ns = 200000,
						       .launch_ns = 3500 };
	uint64_t before, stuck;

	begin(&program, 50);
	queue_run(&queue, BEGIN_NS + 2 * NSEC_PER_SEC);
	/* It had a kernel of a second on its way. */
	tenant.device->slots[1].unmeasured_ns = (uint64_t)NSEC_PER_SEC;
	tenant_kill(&tenant, 1, 100 * NSEC_PER_MSEC);
	before = tenant_launches(&tenant);
	queue_run(&queue, queue.now_ns + 100 * NSEC_PER_MSEC);
	stuck = tenant_launches(&tenant) - before;
	before = tenant_launches(&tenant);
	queue_run(&queue, queue.now_ns + NSEC_PER_SEC);
	printf("a process killed with unmeasured work\n");
	expect(tenant.device->slots[1].unmeasured_ns == 0, "its prediction after the reaping, ns",
	       (double)tenant.device->slots[1].unmeasured_ns);
	expect(stuck < 100, "launches of the other before that", (double)stuck);
	expect(tenant_launches(&tenant) - before > 2300, "and in the second after",
	       (double)(tenant_launches(&tenant) - before));
	gpu_close(&gpu);
	end();
}

/* The limit moves under a program that is held: within 10 ms it works at the new one. */
static void limit_changed_midway(void)
{
	static const struct tenant_program program = { .processes = 1,
						       .threads = 1,
						       .streams = 1,
						       .depth = 64,
						       .kernel_ns = 200000,
						       .launch_ns = 3500 };
	int64_t from_ns;
	double pct;

	begin(&program, 90);
	queue_run(&queue, BEGIN_NS + 2 * NSEC_PER_SEC);
	tenant_limit(&tenant, 10);
	queue_run(&queue, queue.now_ns + 20 * NSEC_PER_MSEC);
	from_ns = queue.now_ns;
	queue_run(&queue, queue.now_ns + NSEC_PER_SEC);
	gpu_close(&gpu);
	pct = (double)gpu_busy_ns(&gpu, from_ns, queue.now_ns) / 1e7;
	printf("a limit that is changed, 90 to 10 and back\n");
	expect(pct > 9 && pct < 11, "busy % in the second after it fell", pct);
	tenant_limit(&tenant, 90);
	queue_run(&queue, queue.now_ns + 20 * NSEC_PER_MSEC);
	from_ns = queue.now_ns;
	queue_run(&queue, queue.now_ns + NSEC_PER_SEC);
	gpu_close(&gpu);
	pct = (double)gpu_busy_ns(&gpu, from_ns, queue.now_ns) / 1e7;
	expect(pct > 89 && pct < 91, "and after it rose", pct);
	end();
}

/* The clock stands still while a thread asks: it is held, with a time to ask again, and no debt grows. */
static void clock_that_stands_still(void)
{
	static struct pace_device device;
	struct pace pace = { &device, 3 };
	struct pace_terms terms = { .share_pct = 50 };
	struct pace_hold hold = { 0 };
	struct pace_answer answer;
	int granted = 0;

	for (int i = 0; i < 100000; i++) {
		pace_ask(&pace, &terms, &hold, 1000000, BEGIN_NS, &answer);
		granted += answer.reason == PACE_GO;
	}
	printf("a clock that stands still\n");
	expect(granted > 0 && granted < 30, "launches of 1 ms admitted", granted);
	expect(answer.reason != PACE_GO && answer.until_ns > BEGIN_NS, "then held until, us later",
	       (double)(answer.until_ns - BEGIN_NS) / 1e3);
}

/*
 * Two devices, and kernels on each that run until the other's partner has started, as collectives do:
 * one thread launches them in turn. Each device has its own bucket; neither waits for the other for ever.
 */
static void two_devices_that_wait_for_each_other(void)
{
	static const struct tenant_program program = {
		.processes = 1, .threads = 1, .streams = 1, .depth = 64, .launch_ns = 3500
	};
	struct tenant_thread *a, *b;
	int64_t worst_ns = 0;

	begin(&program, 30);
	gpu_init(&second_gpu, &queue, false);
	tenant_init(&second, &second_gpu, &program, 30);
	a = tenant_thread(&tenant, 0, 0);
	b = tenant_thread(&second, 0, 0);
	for (int i = 0; i < 4000; i++) {
		int64_t held_ns;

		launch(a, 0, 1, GPU_FOREVER_NS);
		held_ns = launch(b, 0, 1, GPU_FOREVER_NS);
		if (held_ns > worst_ns)
			worst_ns = held_ns;
		queue_run(&queue, queue.now_ns + 200000);
		gpu_release(a->streams[0]);
		gpu_release(b->streams[0]);
		queue_run(&queue, queue.now_ns + 20000);
	}
	gpu_close(&gpu);
	gpu_close(&second_gpu);
	printf("kernels on two devices that wait for each other, limit 30 %%\n");
	expect(worst_ns < 200 * NSEC_PER_MSEC, "longest wait of the second, ms",
	       (double)worst_ns / 1e6);
	expect((double)gpu.busy_ns / (double)(queue.now_ns - BEGIN_NS) < 0.35,
	       "busy % of the first",
	       (double)gpu.busy_ns * 100 / (double)(queue.now_ns - BEGIN_NS));
	tenant_free(&second);
	gpu_free(&second_gpu);
	end();
}

/* A program that is suspended is held, and goes on where it was. */
static void suspended_and_resumed(void)
{
	static const struct tenant_program program = { .processes = 2,
						       .threads = 2,
						       .streams = 1,
						       .depth = 16,
						       .kernel_ns = 100000,
						       .launch_ns = 3500 };
	uint64_t before;

	begin(&program, 50);
	queue_run(&queue, BEGIN_NS + NSEC_PER_SEC);
	tenant.terms.is_blocked = true;
	tenant_limit(&tenant, 50);
	queue_run(&queue, queue.now_ns + 20 * NSEC_PER_MSEC);
	before = tenant_launches(&tenant);
	queue_run(&queue, queue.now_ns + NSEC_PER_SEC);
	printf("suspended for a second\n");
	expect(tenant_launches(&tenant) == before, "launches meanwhile",
	       (double)(tenant_launches(&tenant) - before));
	tenant.terms.is_blocked = false;
	queue_run(&queue, queue.now_ns + NSEC_PER_SEC);
	expect(tenant_launches(&tenant) > before + 4000, "launches in the second after",
	       (double)(tenant_launches(&tenant) - before));
	gpu_close(&gpu);
	end();
}

int main(void)
{
	spin_for_the_next_launch(20);
	spin_for_the_next_launch(10);
	killed_with_unmeasured_work();
	limit_changed_midway();
	clock_that_stands_still();
	two_devices_that_wait_for_each_other();
	suspended_and_resumed();
	printf("%d failed\n", failures);
	return failures ? 1 : 0;
}
