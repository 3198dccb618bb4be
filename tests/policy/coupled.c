/*
 * Kernels on several devices that wait for each other, as collectives do, each device under a limit of
 * its own: of one tenant, or of tenants that know nothing of each other. They must meet nearly as often as the
 * lowest limit lets them, whatever held them up before.
 */
#include "base/clock.h"
#include "core/pace.h"

#include "judge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BEGIN_NS (100 * NSEC_PER_SEC)
#define LOOK_NS INT64_C(5000)
#define SLEEP_NS INT64_C(50000)
#define SETTLED_NS (20 * NSEC_PER_SEC)
#define JUDGED_NS (10 * NSEC_PER_SEC)

#define MS NSEC_PER_MSEC
/* Above the limit by no more. */
#define OVER_PCT 3

enum { RANKS = 2, OWN = 0, COMMON = 1, LENGTHS = 4, DEPTH = 64 };

static int failures;
static struct queue queue;
static struct pace_device *devices;

/* What every rank does over and over: kernels of its own, and one that ends when all have begun theirs. */
struct program {
	const char *name;
	double least; /* of the rounds that the lowest limit allows */
	int kernels;
	int64_t kernel_ns;
	int64_t common_ns; /* from when all have begun */
	int rounds;        /* launched before a wait */
	uint32_t share_pct[RANKS];
	int64_t away_ns; /* the first rank does nothing for so long after a second */
	bool is_apart;   /* the ranks are of two tenants */
};

static struct rank {
	struct gpu gpu;
	struct tenant tenant;
	const struct program *program;
	int at;          /* launches of this round so far */
	uint64_t rounds; /* launched */
	uint64_t met;    /* ended */
	int64_t wait_ns; /* since then it waits for the device; 0: it does not */
} ranks[RANKS];

static struct tenant_thread *thread_of(struct rank *rank)
{
	return tenant_thread(&rank->tenant, 0, 0);
}

/* True while it waits; says what the wait told when it is over. */
static bool waits(struct rank *rank)
{
	struct tenant_thread *thread = thread_of(rank);

	if (!rank->wait_ns)
		return false;
	if (thread->ended[0] < thread->submitted[0])
		return true;
	tenant_read(thread->process);
	marker_waited(thread->process->meter,
		      (uint64_t)(thread->streams[0] - rank->gpu.streams) + 1, 1, rank->wait_ns,
		      queue.now_ns);
	rank->wait_ns = 0;
	return false;
}

static void step(void *arg, uint64_t is_held)
{
	struct rank *rank = arg;
	const struct program *program = rank->program;
	struct tenant_thread *thread = thread_of(rank);
	bool is_common = rank->at == program->kernels;
	int64_t until_ns = 0;

	if (is_held)
		tenant_read(thread->process);
	if (waits(rank)) {
		queue_at(&queue, queue.now_ns + LOOK_NS, step, rank, 0);
		return;
	}
	if (tenant_launch(thread, 0, is_common ? COMMON : OWN,
			  is_common ? GPU_FOREVER_NS : program->kernel_ns, &until_ns) != PACE_GO) {
		queue_at(&queue, until_ns + SLEEP_NS, step, rank, 1);
		return;
	}
	rank->at = is_common ? 0 : rank->at + 1;
	rank->rounds += is_common;
	if (is_common && rank->rounds % (uint64_t)program->rounds == 0)
		rank->wait_ns = until_ns;
	if (rank == ranks && until_ns > BEGIN_NS + NSEC_PER_SEC &&
	    until_ns < BEGIN_NS + NSEC_PER_SEC + program->away_ns)
		until_ns += program->away_ns;
	queue_at(&queue, until_ns, step, rank, 0);
}

static bool is_in_common(struct rank *rank)
{
	struct gpu_stream *stream = thread_of(rank)->streams[0];

	return stream->is_running &&
	       stream->ops[stream->first % stream->room].left_ns == GPU_FOREVER_NS;
}

/* Lets the kernels that wait for each other end, common_ns after all were seen to run. */
static void look(void *arg, uint64_t have_met)
{
	const struct program *program = arg;
	bool all = true;

	for (int i = 0; i < RANKS; i++)
		all &= is_in_common(&ranks[i]);
	for (int i = 0; all && have_met && i < RANKS; i++) {
		gpu_release(thread_of(&ranks[i])->streams[0]);
		ranks[i].met++;
	}
	all &= !have_met;
	queue_at(&queue, queue.now_ns + (all ? program->common_ns : LOOK_NS), look, arg, all);
}

static void start(const struct program *program)
{
	queue = (struct queue){ .now_ns = BEGIN_NS, .random = 7 };
	memset(ranks, 0, sizeof(ranks));
	memset(devices, 0, RANKS * sizeof(*devices));
	for (int i = 0; i < RANKS; i++) {
		struct rank *rank = &ranks[i];
		struct tenant_program idle = { .processes = 1,
					       .threads = 1,
					       .streams = 1,
					       .depth = 1024,
					       .launch_ns = 3500,
					       .is_linked = true };

		if (!program->is_apart) {
			idle.devices = devices;
			idle.device_count = RANKS;
			idle.device = (unsigned)i;
		}
		gpu_init(&rank->gpu, &queue, false);
		tenant_init(&rank->tenant, &rank->gpu, &idle, program->share_pct[i]);
		rank->program = program;
		means_find(&thread_of(rank)->process->meter->means, COMMON + 1)->may_wait = 1;
		queue_at(&queue, queue.now_ns + i * NSEC_PER_MSEC, step, rank, 0);
	}
	queue_at(&queue, queue.now_ns, look, (void *)program, 0);
}

/* Over the last of the time, in %. */
static double busy_pct(struct gpu *gpu)
{
	gpu_close(gpu);
	return (double)gpu_busy_ns(gpu, queue.now_ns - JUDGED_NS, queue.now_ns) * 100 /
	       (double)JUDGED_NS;
}

static void run(const struct program *program)
{
	int64_t round_ns = program->kernels * program->kernel_ns + program->common_ns;
	uint32_t pct = program->share_pct[0] < program->share_pct[1] ? program->share_pct[0] :
								       program->share_pct[1];
	double part, busy[RANKS];
	bool is_right;
	uint64_t before;

	start(program);
	queue_run(&queue, BEGIN_NS + program->away_ns + SETTLED_NS);
	before = ranks[0].met;
	queue_run(&queue, queue.now_ns + JUDGED_NS);
	part = (double)(ranks[0].met - before) * (double)round_ns * 100 /
	       ((double)pct * (double)JUDGED_NS);
	is_right = part > program->least;
	for (int i = 0; i < RANKS; i++) {
		busy[i] = busy_pct(&ranks[i].gpu);
		is_right &= busy[i] < program->share_pct[i] + OVER_PCT;
		tenant_free(&ranks[i].tenant);
		gpu_free(&ranks[i].gpu);
	}
	queue_free(&queue);
	failures += !is_right;
	printf("%s  %s, %u and %u %%, of %s: %.2f of the rounds that the lowest limit allows; "
	       "busy %.1f and %.1f %%\n",
	       is_right ? "ok    " : "FAILED", program->name, program->share_pct[0],
	       program->share_pct[1], program->is_apart ? "two tenants" : "one tenant", part,
	       busy[0], busy[1]);
}

static struct mixed {
	struct gpu gpu;
	struct tenant tenant;
	const int64_t *lengths_ns;
	unsigned at;
} mixed;

static void step_mixed(void *arg, uint64_t is_held)
{
	struct tenant_thread *thread = tenant_thread(&mixed.tenant, 0, 0);
	int64_t until_ns = queue.now_ns + SLEEP_NS;

	(void)arg;
	if (is_held)
		tenant_read(thread->process);
	if (thread->submitted[0] - thread->ended[0] >= DEPTH ||
	    tenant_launch(thread, 0, COMMON, mixed.lengths_ns[mixed.at % LENGTHS], &until_ns) !=
		    PACE_GO) {
		queue_at(&queue, until_ns + SLEEP_NS, step_mixed, NULL, 1);
		return;
	}
	mixed.at++;
	queue_at(&queue, until_ns, step_mixed, NULL, 0);
}

/* One kernel that is named like a collective, waits for nothing and takes now so long, now so long. */
static void run_mixed(const int64_t *lengths_ns, uint32_t share_pct)
{
	static const struct tenant_program idle = { .processes = 1,
						    .threads = 1,
						    .streams = 1,
						    .depth = 1024,
						    .launch_ns = 3500,
						    .is_linked = true };
	bool is_right;
	double busy;

	memset(&mixed, 0, sizeof(mixed));
	mixed.lengths_ns = lengths_ns;
	queue = (struct queue){ .now_ns = BEGIN_NS, .random = 7 };
	gpu_init(&mixed.gpu, &queue, false);
	tenant_init(&mixed.tenant, &mixed.gpu, &idle, share_pct);
	means_find(&tenant_thread(&mixed.tenant, 0, 0)->process->meter->means, COMMON + 1)
		->may_wait = 1;
	queue_at(&queue, queue.now_ns, step_mixed, NULL, 0);
	queue_run(&queue, BEGIN_NS + 3 * SETTLED_NS);
	busy = busy_pct(&mixed.gpu);
	is_right = busy < share_pct + OVER_PCT && busy > share_pct - OVER_PCT;
	failures += !is_right;
	printf("%s  %.1f, %.1f, %.1f and %.1f ms by turns, %u %%: busy %.1f %%\n",
	       is_right ? "ok    " : "FAILED", (double)lengths_ns[0] / 1e6,
	       (double)lengths_ns[1] / 1e6, (double)lengths_ns[2] / 1e6,
	       (double)lengths_ns[3] / 1e6, share_pct, busy);
	tenant_free(&mixed.tenant);
	gpu_free(&mixed.gpu);
	queue_free(&queue);
}

int main(void)
{
	static const struct program all[] = {
		{ "a kernel and one in common", 0.65, 1, 100000, 300000, 1, { 30, 30 }, 0, false },
		{ "the same, a wait after 8", 0.65, 1, 100000, 300000, 8, { 30, 30 }, 0, false },
		{ "twenty and one", 0.95, 20, 100000, 500000, 1, { 30, 60 }, 0, false },
		{ "twenty and one", 0.6, 20, 100000, 500000, 1, { 10, 10 }, 0, false },
		{ "short ones", 0.25, 1, 20000, 30000, 4, { 5, 5 }, 0, false },
		{ "long ones, one away for 2 s",
		  0.9,
		  4,
		  MS,
		  3 * MS,
		  1,
		  { 50, 50 },
		  2000 * MS,
		  false },
		{ "long ones, one away for 2 s",
		  0.8,
		  4,
		  MS,
		  3 * MS,
		  1,
		  { 30, 30 },
		  2000 * MS,
		  false },
		{ "long ones, one away for 17 s",
		  0.5,
		  4,
		  MS,
		  3 * MS,
		  1,
		  { 30, 30 },
		  17000 * MS,
		  false },
	};
	static const int64_t lengths_ns[][LENGTHS] = {
		{ MS, 2 * MS, MS, 2 * MS },
		{ MS / 5, MS / 5, MS * 2 / 5, MS * 3 / 2 },
		{ MS, 5 * MS, MS, 5 * MS },
	};

	if (posix_memalign((void **)&devices, 64, RANKS * sizeof(*devices)))
		abort();
	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct program program = all[i];

		run(&program);
		program.is_apart = true;
		run(&program);
	}
	free(devices);
	for (unsigned i = 0; i < sizeof(lengths_ns) / sizeof(lengths_ns[0]); i++) {
		run_mixed(lengths_ns[i], 10);
		run_mixed(lengths_ns[i], 30);
	}
	printf("%d failed\n", failures);
	return failures ? 1 : 0;
}
