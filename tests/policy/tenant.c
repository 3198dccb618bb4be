#include "tenant.h"

#include "base/clock.h"
#include "core/spare.h"
#include "shm/pace_slot.h"

#include "sparse.h"

#include <stdlib.h>
#include <string.h>

/* Costs of the driver's calls, and how late a sleeper wakes. */
#define START_NS INT64_C(2500) /* from a submission to its start on an idle stream, and up to */
#define START_MORE_NS INT64_C(1000)
#define PROBE_NS INT64_C(1500) /* its record call, and up to */
#define PROBE_MORE_NS INT64_C(500)
#define PROBE_LATE_PART 0.05
#define PROBE_LATE_NS INT64_C(30000)
#define LAUNCH_MORE_NS INT64_C(1200) /* a launch later than an event, so much on an H200 */
#define RECORD_NS INT64_C(200)
#define SYNC_NS INT64_C(3000)
#define SYNC_MORE_NS INT64_C(2000)
#define SLEEP_NS INT64_C(20000)
#define SLEEP_MORE_NS INT64_C(50000)
#define WORKER_NS NSEC_PER_MSEC
#define TAIL_AGE_NS (200 * NSEC_PER_USEC)
/* Events read in steps of half a microsecond, give or take 0.4. */
#define EVENT_STEP_NS INT64_C(500)
#define EVENT_JITTER_NS 400.0
#define DRIFT 200e-6
enum { QUERIES = 64, TAILS = 64, DRIVER_QUEUE = 1024 };

/* A marker's event, as the driver keeps it. */
struct event {
	struct tenant_process *process;
	int64_t ran_ns; /* 0: not yet */
	bool is_lost;
};

static int64_t about(struct queue *queue, int64_t least_ns, int64_t more_ns)
{
	return least_ns + (int64_t)(queue_random(queue) * (double)more_ns);
}

static void event_ended(void *arg, uint64_t tag)
{
	struct event *event = arg;

	(void)tag;
	event->ran_ns = event->process->tenant->queue->now_ns -
			event->process->tenant->gpu->lead_ns;
}

/* Records an event in the stream; its record call returns at at_ns. */
static uint64_t record(struct tenant_process *process, struct gpu_stream *stream, int64_t at_ns)
{
	struct queue *queue = process->tenant->queue;
	struct event *event = calloc(1, sizeof(*event));
	struct gpu_op op = { .kind = GPU_MARK, .ended = event_ended, .arg = event };

	if (!event)
		abort();
	event->process = process;
	event->is_lost = queue_random(queue) < process->tenant->program.loss;
	op.ready_ns = about(queue, at_ns + START_NS, START_MORE_NS);
	gpu_submit(stream, &op);
	process->markers++;
	return (uint64_t)(uintptr_t)event;
}

static int64_t gpu_clock_ns(struct tenant_process *process, int64_t cpu_ns)
{
	double jitter_ns = (queue_random(process->tenant->queue) * 2 - 1) * EVENT_JITTER_NS;
	int64_t gpu_ns = process->clock_offset_ns +
			 (int64_t)((double)cpu_ns * process->clock_rate + jitter_ns);

	return gpu_ns / EVENT_STEP_NS * EVENT_STEP_NS;
}

/* True if the marker is read or gone. */
static bool ask(struct tenant_process *process, const struct marker_query *query)
{
	struct event *event = (struct event *)(uintptr_t)query->handle;
	int64_t now_ns = process->tenant->queue->now_ns;

	if (event->is_lost && event->ran_ns) {
		process->lost++;
		marker_lost(process->meter, query);
		free(event);
		return true;
	}
	if (!event->ran_ns) {
		marker_running(process->meter, query, now_ns);
		return false;
	}
	marker_ended(process->meter, query, gpu_clock_ns(process, event->ran_ns), now_ns);
	free(event);
	return true;
}

void tenant_read(struct tenant_process *process)
{
	struct marker_query queries[QUERIES];
	bool any = true;

	while (any) {
		unsigned n = marker_pending(process->meter, queries, QUERIES);

		any = false;
		for (unsigned i = 0; i < n; i++)
			any |= ask(process, &queries[i]);
	}
}

static struct lane *lane_of(struct tenant_thread *thread, int stream)
{
	uint64_t key = (uint64_t)(thread->streams[stream] - thread->tenant->gpu->streams) + 1;

	return meter_lane(thread->process->meter, &thread->meter, key, 1);
}

static void mark(struct tenant_process *process, struct lane *lane, enum meter_kind kind,
		 struct gpu_stream *stream, struct means_entry *work, int64_t at_ns)
{
	uint64_t handle = record(process, stream, at_ns);

	marker_put(process->meter, lane, kind, handle, work, at_ns, at_ns);
}

/* Marks what no marker covers yet. */
static void mark_tails(struct tenant_process *process, const struct meter_thread *thread,
		       int64_t before_ns)
{
	int64_t now_ns = process->tenant->queue->now_ns;
	struct lane *lanes[TAILS];
	unsigned n = marker_tails(process->meter, thread, before_ns, lanes, TAILS);

	for (unsigned i = 0; i < n; i++)
		mark(process, lanes[i], METER_TAIL,
		     &process->tenant->gpu->streams[lanes[i]->key - 1], NULL,
		     now_ns + (int64_t)i * RECORD_NS);
}

static void probe_ended(void *arg, uint64_t tag)
{
	struct tenant_process *process = arg;

	(void)tag;
	process->probe_ran_ns = process->tenant->queue->now_ns;
}

/* Reads the probe that is under way and starts the next. */
static void probe(struct tenant_process *process)
{
	struct queue *queue = process->tenant->queue;
	struct gpu_op op = { .kind = GPU_MARK, .ended = probe_ended, .arg = process };
	int64_t done_ns;

	if (process->is_probing && !process->probe_ran_ns)
		return;
	process->is_probing = false;
	if (process->probe_ran_ns)
		marker_probe(process->meter, 1, process->probe_ns, process->probe_seen_ns,
			     gpu_clock_ns(process, process->probe_ran_ns));
	process->probe_ran_ns = 0;
	if (process->probe_ns && queue->now_ns - process->probe_ns <
					 marker_probe_apart_ns(process->meter, queue->now_ns))
		return;
	process->probe_ns = queue->now_ns;
	done_ns = about(queue, queue->now_ns + PROBE_NS, PROBE_MORE_NS);
	process->probe_seen_ns = done_ns;
	/* The thread waits before it reads the time. */
	if (queue_random(queue) < PROBE_LATE_PART)
		process->probe_seen_ns = about(queue, done_ns, PROBE_LATE_NS);
	process->is_probing = true;
	op.ready_ns = about(queue, done_ns + START_NS, START_MORE_NS);
	gpu_submit(process->own, &op);
}

static void worker(void *arg, uint64_t tag)
{
	struct tenant_process *process = arg;
	struct queue *queue = process->tenant->queue;

	(void)tag;
	if (process->is_dead)
		return;
	probe(process);
	tenant_read(process);
	mark_tails(process, NULL, queue->now_ns - TAIL_AGE_NS);
	queue_at(queue, about(queue, queue->now_ns + WORKER_NS, SLEEP_MORE_NS), worker, process, 0);
}

static void thread_step(void *arg, uint64_t tag);

static void kernel_ended(void *arg, uint64_t tag)
{
	struct tenant_thread *thread = arg;
	struct queue *queue = thread->tenant->queue;
	int64_t late_ns = 0;

	thread->ended[tag]++;
	if (!thread->wait_begin_ns || (int)tag != thread->at || thread->is_waking)
		return;
	/* It waits for the launch that is as deep as the queue may be, which is the oldest. */
	thread->is_waking = true;
	if (thread->tenant->program.late > 0 && queue_random(queue) < thread->tenant->program.late)
		late_ns = NSEC_PER_MSEC;
	queue_at(queue, about(queue, queue->now_ns + SYNC_NS + late_ns, SYNC_MORE_NS), thread_step,
		 thread, 0);
}

enum pace_reason tenant_launch(struct tenant_thread *thread, int stream, int kind,
			       int64_t kernel_ns, int64_t *out_until_ns)
{
	struct tenant *tenant = thread->tenant;
	struct queue *queue = tenant->queue;
	struct meter *meter = thread->process->meter;
	struct gpu_stream *at = thread->streams[stream];
	struct means_entry *work = means_find(&meter->means, (uint64_t)kind + 1);
	struct lane *lane = lane_of(thread, stream);
	struct gpu_op op = { .kind = GPU_KERNEL,
			     .left_ns = kernel_ns,
			     .is_spin = tenant->program.is_spin,
			     .ended = kernel_ended,
			     .arg = thread,
			     .tag = (uint64_t)stream };
	int64_t now_ns = queue->now_ns;
	enum meter_kind mark_kind;

	if (!meter_admit_fast(&thread->meter, work)) {
		enum pace_reason reason = meter_admit(meter, &thread->meter, lane, work,
						      &tenant->terms, now_ns, out_until_ns);

		if (reason != PACE_GO) {
			mark_tails(thread->process, &thread->meter, now_ns);
			return reason;
		}
	}
	if (lane_wants(lane) &&
	    meter_wants_mark(meter, &thread->meter, lane, work, now_ns, &mark_kind)) {
		now_ns += RECORD_NS;
		mark(thread->process, lane, mark_kind, at, NULL, now_ns);
	}
	now_ns += about(queue, tenant->program.launch_ns, tenant->program.launch_ns / 32);
	op.ready_ns = about(queue, now_ns + START_NS + LAUNCH_MORE_NS, START_MORE_NS);
	gpu_submit(at, &op);
	if (meter_launched(meter, &thread->meter, lane, now_ns))
		mark(thread->process, lane, METER_AFTER, at, work, now_ns + RECORD_NS);
	if (tenant->sparse)
		sparse_launched(tenant->sparse, at);
	if (tenant->program.depth <= TENANT_DEPTH)
		marker_point(meter, lane->key, 1,
			     &thread->points[stream][thread->submitted[stream] % TENANT_DEPTH]);
	thread->submitted[stream]++;
	thread->launches++;
	tenant->offered_ns += kernel_ns == GPU_FOREVER_NS ? 0 : kernel_ns;
	*out_until_ns = now_ns;
	return PACE_GO;
}

static void choose_kernel(struct tenant_thread *thread)
{
	const struct tenant_program *program = &thread->tenant->program;
	struct queue *queue = thread->tenant->queue;
	double r = queue_random(queue);

	thread->kind = 0;
	thread->kernel_ns = program->kernel_ns;
	switch (program->length) {
	case TENANT_FIXED:
		break;
	case TENANT_MIXED:
		thread->kind = (int)(r * 8);
		thread->kernel_ns = program->kernel_ns * (1 << (thread->kind / 2)) / 4;
		break;
	case TENANT_RARE:
		if (r < 0.02)
			thread->kernel_ns = program->kernel_ns * 5;
		break;
	case TENANT_TAIL:
		/* A Pareto tail, cut at fifty times the least; its mean is about kernel_ns. */
		thread->kernel_ns = (int64_t)((double)program->kernel_ns * 0.4 /
					      (r < 0.98 ? 1 - r : 0.02));
		if (thread->kernel_ns > program->kernel_ns * 20)
			thread->kernel_ns = program->kernel_ns * 20;
		break;
	}
}

/* What the thread waited for has ended: the stream, or the launch that is so deep in it. */
static void end_of_wait(struct tenant_thread *thread, uint64_t key, uint64_t depth, int64_t now_ns)
{
	struct meter *meter = thread->process->meter;
	const struct marker_point *point =
		&thread->points[thread->at][(thread->submitted[thread->at] - depth) % TENANT_DEPTH];
	bool is_stream = depth == 1 && !thread->tenant->program.has_events;
	struct lane *lane = is_stream ? meter_lane_known(&thread->meter, key) :
					spare_lane_at(&thread->meter, point);

	if (is_stream && lane && spare_may_pass(meter, lane)) {
		spare_pass(lane);
		return;
	}
	if (lane)
		spare_waited(lane, thread->wait_begin_ns, now_ns);
	if ((lane || !is_stream) &&
	    meter_wait_is_spare(meter, is_stream ? lane : &point->stream->lanes[0],
				thread->wait_begin_ns, now_ns))
		return;
	tenant_read(thread->process);
	if (is_stream)
		marker_waited(meter, key, 1, thread->wait_begin_ns, now_ns);
	else
		marker_reached(meter, point, thread->wait_begin_ns, now_ns);
}

/* True if the thread has to wait before it launches into its stream; says what its wait told. */
static bool must_wait(struct tenant_thread *thread)
{
	const struct tenant_program *program = &thread->tenant->program;
	int64_t now_ns = thread->tenant->queue->now_ns;
	uint64_t in_flight = thread->submitted[thread->at] - thread->ended[thread->at];
	uint64_t depth = program->is_blind ? DRIVER_QUEUE : (uint64_t)program->depth;

	if (in_flight >= depth) {
		if (thread->wait_begin_ns == 0)
			thread->wait_begin_ns = now_ns;
		return true;
	}
	if (thread->wait_begin_ns && !program->is_blind) {
		uint64_t key =
			(uint64_t)(thread->streams[thread->at] - thread->tenant->gpu->streams) + 1;

		end_of_wait(thread, key, depth, now_ns);
	}
	thread->wait_begin_ns = 0;
	thread->is_waking = false;
	return false;
}

/* Held: reads the markers and asks again when it wakes. */
static void hold(struct tenant_thread *thread, int64_t until_ns)
{
	struct queue *queue = thread->tenant->queue;

	if (thread->hold_begin_ns == 0)
		thread->hold_begin_ns = queue->now_ns;
	queue_at(queue, about(queue, until_ns + SLEEP_NS, SLEEP_MORE_NS), thread_step, thread, 1);
}

static void launched(struct tenant_thread *thread, int64_t now_ns)
{
	const struct tenant_program *program = &thread->tenant->program;
	struct queue *queue = thread->tenant->queue;

	if (thread->hold_begin_ns) {
		int64_t held_ns = queue->now_ns - thread->hold_begin_ns;

		if (held_ns > thread->longest_hold_ns)
			thread->longest_hold_ns = held_ns;
	}
	thread->hold_begin_ns = 0;
	thread->kernel_ns = 0;
	/* A synchronise comes at once; deeper queues are waited for before the next launch. */
	if (program->depth > 1 || program->is_blind)
		thread->at = (thread->at + 1) % program->streams;
	now_ns += program->think_ns;
	if (program->burst_ns && now_ns >= thread->burst_end_ns) {
		now_ns += program->rest_ns;
		thread->burst_end_ns = now_ns + program->burst_ns;
	}
	queue_at(queue, now_ns, thread_step, thread, 0);
}

static void thread_step(void *arg, uint64_t tag)
{
	struct tenant_thread *thread = arg;
	int64_t until_ns = 0;

	if (thread->process->is_dead || thread->is_stopped)
		return;
	if (tag == 1)
		tenant_read(thread->process);
	if (must_wait(thread))
		return;
	if (thread->kernel_ns == 0)
		choose_kernel(thread);
	if (tenant_launch(thread, thread->at, thread->kind, thread->kernel_ns, &until_ns) !=
	    PACE_GO)
		hold(thread, until_ns);
	else
		launched(thread, until_ns);
}

static void init_process(struct tenant *tenant, int index)
{
	struct tenant_process *process = &tenant->processes[index];
	struct queue *queue = tenant->queue;

	process->tenant = tenant;
	process->index = index;
	process->meter = calloc(1, sizeof(*process->meter));
	process->threads = calloc((size_t)tenant->program.threads, sizeof(*process->threads));
	if (!process->meter || !process->threads)
		abort();
	process->meter->is_linked = tenant->program.is_linked;
	process->meter->pace = (struct pace){ tenant->device, (unsigned)index,
					      tenant->program.devices,
					      tenant->program.device_count };
	pthread_mutex_init(&process->meter->lock, NULL);
	process->own = gpu_stream(tenant->gpu, tenant->program.first + index);
	process->clock_rate = 1 + DRIFT * (queue_random(queue) * 2 - 1);
	process->clock_offset_ns = (int64_t)(queue_random(queue) * 1e12);
	for (int i = 0; i < tenant->program.threads; i++) {
		struct tenant_thread *thread = &process->threads[i];

		thread->tenant = tenant;
		thread->process = process;
		thread->meter.id = (uint64_t)i + 1;
		thread->burst_end_ns = queue->now_ns + tenant->program.burst_ns;
		for (int j = 0; j < tenant->program.streams; j++)
			thread->streams[j] = gpu_stream(tenant->gpu, tenant->program.first + index);
		if (tenant->program.kernel_ns)
			queue_at(queue, about(queue, queue->now_ns, NSEC_PER_MSEC), thread_step,
				 thread, 0);
	}
	queue_at(queue, about(queue, queue->now_ns, WORKER_NS), worker, process, 0);
}

void tenant_init(struct tenant *tenant, struct gpu *gpu, const struct tenant_program *program,
		 uint32_t share_pct)
{
	memset(tenant, 0, sizeof(*tenant));
	tenant->queue = gpu->queue;
	tenant->gpu = gpu;
	tenant->program = *program;
	tenant->terms.share_pct = share_pct;
	tenant->device = program->devices ? &program->devices[program->device] : NULL;
	if (!tenant->device &&
	    posix_memalign((void **)&tenant->device, 64, sizeof(*tenant->device)))
		abort();
	memset(tenant->device, 0, sizeof(*tenant->device));
	for (int i = 0; i < program->processes; i++)
		init_process(tenant, i);
}

void tenant_free(struct tenant *tenant)
{
	for (int i = 0; i < tenant->program.processes; i++) {
		free(tenant->processes[i].meter);
		free(tenant->processes[i].threads);
	}
	if (!tenant->program.devices)
		free(tenant->device);
}

void tenant_limit(struct tenant *tenant, uint32_t share_pct)
{
	tenant->terms.share_pct = share_pct;
	for (int i = 0; i < tenant->program.processes; i++) {
		struct tenant_process *process = &tenant->processes[i];

		pace_change(&process->meter->pace);
		for (int j = 0; j < tenant->program.threads; j++)
			process->threads[j].meter.attention = 1;
	}
}

static void reap(void *arg, uint64_t tag)
{
	struct tenant_process *process = arg;

	(void)tag;
	pace_slot_clear(process->meter->pace.device, process->meter->pace.slot);
}

void tenant_kill(struct tenant *tenant, int process, int64_t reap_ns)
{
	tenant->processes[process].is_dead = true;
	gpu_kill(tenant->gpu, tenant->program.first + process);
	queue_at(tenant->queue, tenant->queue->now_ns + reap_ns, reap, &tenant->processes[process],
		 0);
}

uint64_t tenant_launches(const struct tenant *tenant)
{
	uint64_t sum = 0;

	for (int i = 0; i < tenant->program.processes; i++)
		for (int j = 0; j < tenant->program.threads; j++)
			sum += tenant->processes[i].threads[j].launches;
	return sum;
}

struct tenant_thread *tenant_thread(struct tenant *tenant, int process, int thread)
{
	return &tenant->processes[process].threads[thread];
}
