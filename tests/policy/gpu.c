#include "gpu.h"

#include <stdlib.h>
#include <string.h>

/* From the end of one kernel to the start of the next in its stream; a marker's own time. */
#define GAP_NS INT64_C(700)
#define MARK_NS INT64_C(200)
/* From a mark that found its stream idle to the kernel behind it: 0.5 to 6 us on an H200. */
#define LEAD_NS INT64_C(4300)
/* Gaps below this between queued kernels count as busy. */
#define BUSY_GAP_NS INT64_C(2000)

static void plan(struct gpu *gpu);

void gpu_init(struct gpu *gpu, struct queue *queue, bool is_serial)
{
	memset(gpu, 0, sizeof(*gpu));
	gpu->queue = queue;
	gpu->is_serial = is_serial;
}

void gpu_free(struct gpu *gpu)
{
	for (int i = 0; i < gpu->stream_count; i++)
		free(gpu->streams[i].ops);
}

struct gpu_stream *gpu_stream(struct gpu *gpu, int process)
{
	struct gpu_stream *stream = &gpu->streams[gpu->stream_count++];

	stream->gpu = gpu;
	stream->process = process;
	return stream;
}

static struct gpu_op *first_op(struct gpu_stream *stream)
{
	return stream->count ? &stream->ops[stream->first % stream->room] : NULL;
}

static void account(struct gpu *gpu, int64_t from_ns, int64_t to_ns)
{
	gpu->busy_ns += to_ns - from_ns;
	while (from_ns < to_ns) {
		int64_t window = from_ns / GPU_WINDOW_NS, end_ns = (window + 1) * GPU_WINDOW_NS;

		if (end_ns > to_ns)
			end_ns = to_ns;
		if (window < GPU_WINDOWS)
			gpu->windows_ns[window] += end_ns - from_ns;
		from_ns = end_ns;
	}
}

static void account_gap(struct gpu *gpu, int64_t ns)
{
	gpu->gap_ns += ns;
	if (gpu->queue->now_ns / GPU_WINDOW_NS < GPU_WINDOWS)
		gpu->gaps_ns[gpu->queue->now_ns / GPU_WINDOW_NS] += ns;
}

static bool is_strange(const struct gpu_stream *stream)
{
	return stream->gpu->strangers >> stream->process & 1;
}

static void become_busy(struct gpu *gpu)
{
	int64_t now_ns = gpu->queue->now_ns;

	if (gpu->busy_count++ > 0)
		return;
	if (gpu->edge_ns > 0 && now_ns - gpu->edge_ns < BUSY_GAP_NS && !gpu->is_queue_dry) {
		account(gpu, gpu->edge_ns, now_ns);
		account_gap(gpu, now_ns - gpu->edge_ns);
	}
	gpu->edge_ns = now_ns;
}

static void cease_busy(struct gpu *gpu)
{
	if (--gpu->busy_count > 0)
		return;
	account(gpu, gpu->edge_ns, gpu->queue->now_ns);
	gpu->edge_ns = gpu->queue->now_ns;
	gpu->is_queue_dry = true;
	for (int i = 0; i < gpu->stream_count; i++)
		if (gpu->streams[i].count > 0 && !is_strange(&gpu->streams[i]) &&
		    first_op(&gpu->streams[i])->ready_ns <= gpu->queue->now_ns)
			gpu->is_queue_dry = false;
}

void gpu_close(struct gpu *gpu)
{
	if (gpu->busy_count > 0) {
		account(gpu, gpu->edge_ns, gpu->queue->now_ns);
		gpu->edge_ns = gpu->queue->now_ns;
	}
}

/* The first op is over. */
static void end_op(struct gpu_stream *stream)
{
	struct gpu_op op = *first_op(stream);

	stream->first++;
	stream->count--;
	stream->has_begun = false;
	stream->is_running = false;
	if (op.kind == GPU_KERNEL) {
		struct gpu_op *next = first_op(stream);

		if (!is_strange(stream))
			cease_busy(stream->gpu);
		/* The next of this stream follows at once, the gap with it. */
		if (next && next->kind == GPU_KERNEL &&
		    next->ready_ns <= stream->gpu->queue->now_ns &&
		    next->left_ns != GPU_FOREVER_NS) {
			next->left_ns += GAP_NS;
			if (!is_strange(stream))
				account_gap(stream->gpu, GAP_NS);
		}
	}
	/* The mark was made when it began. */
	stream->gpu->lead_ns = op.kind == GPU_MARK ? op.left_ns - MARK_NS : 0;
	if (op.ended)
		op.ended(op.arg, op.tag);
}

static bool can_run(const struct gpu_stream *stream, int64_t now_ns)
{
	const struct gpu_op *op = first_op((struct gpu_stream *)stream);

	return op && op->kind != GPU_PAUSE && op->ready_ns <= now_ns;
}

/* A mark that no process has to have its turn for. */
static bool is_free_mark(const struct gpu_stream *stream)
{
	return stream->gpu->has_free_marks &&
	       first_op((struct gpu_stream *)stream)->kind == GPU_MARK;
}

/* The process whose turn it is now; others_out: somebody else waits. */
static void choose_turn(struct gpu *gpu, bool *out_others)
{
	int64_t now_ns = gpu->queue->now_ns;
	unsigned wanting = 0;
	int turn = gpu->turn;

	*out_others = false;
	if (now_ns < gpu->switch_end_ns)
		return;
	for (int i = 0; i < gpu->stream_count; i++)
		if (can_run(&gpu->streams[i], now_ns) && !is_free_mark(&gpu->streams[i]))
			wanting |= 1u << gpu->streams[i].process;
	*out_others = (wanting & ~(1u << turn)) != 0;
	/* Whose slice ends while nobody else waits gets another. */
	if (!*out_others && now_ns >= gpu->turn_end_ns)
		gpu->turn_end_ns += (1 + (now_ns - gpu->turn_end_ns) / GPU_SLICE_NS) * GPU_SLICE_NS;
	if (!*out_others || ((wanting & 1u << turn) && now_ns < gpu->turn_end_ns))
		return;
	do {
		turn = (turn + 1) % GPU_PROCESSES;
	} while (!(wanting & 1u << turn));
	gpu->turn = turn;
	gpu->switches++;
	gpu->switch_end_ns = now_ns + gpu->switch_ns;
	gpu->turn_end_ns = gpu->switch_end_ns + GPU_SLICE_NS;
	*out_others = (wanting & ~(1u << turn)) != 0;
}

static void pause_stream(struct gpu_stream *stream)
{
	struct gpu_op *op = first_op(stream);

	if (stream->is_running && op->left_ns != GPU_FOREVER_NS && !op->is_spin)
		op->left_ns -= stream->gpu->queue->now_ns - stream->since_ns;
	stream->is_running = false;
}

/* How long the mark that begins keeps the kernel behind it from beginning. */
static int64_t lead_ns(const struct gpu_stream *stream)
{
	const struct gpu_op *next = &stream->ops[(stream->first + 1) % stream->room];

	return stream->was_idle && stream->count > 1 && next->kind == GPU_KERNEL &&
			       next->ready_ns <= stream->gpu->queue->now_ns ?
		       LEAD_NS :
		       0;
}

static void begin_op(struct gpu_stream *stream)
{
	struct gpu_op *op = first_op(stream);

	if (!stream->has_begun && op->kind == GPU_KERNEL && !is_strange(stream))
		become_busy(stream->gpu);
	if (!stream->has_begun && op->kind == GPU_MARK)
		op->left_ns = MARK_NS + lead_ns(stream);
	/* What spins goes on from when it began. */
	if (!stream->has_begun || !op->is_spin)
		stream->since_ns = stream->gpu->queue->now_ns;
	if (op->kind == GPU_KERNEL)
		stream->was_idle = false;
	stream->has_begun = true;
	stream->is_running = true;
}

/* Ends what is over, and begins pauses that come up; true if anything ended. */
static bool end_due(struct gpu *gpu)
{
	int64_t now_ns = gpu->queue->now_ns;
	bool any = false;

	for (int i = 0; i < gpu->stream_count; i++) {
		struct gpu_stream *stream = &gpu->streams[i];
		struct gpu_op *op = first_op(stream);

		if (!op || op->ready_ns > now_ns)
			continue;
		if (op->kind == GPU_PAUSE && !stream->has_begun)
			begin_op(stream);
		if (stream->is_running && op->left_ns != GPU_FOREVER_NS &&
		    now_ns - stream->since_ns >= op->left_ns) {
			end_op(stream);
			any = true;
		}
	}
	return any;
}

static void planned(void *arg, uint64_t tag)
{
	struct gpu *gpu = arg;

	if (tag == gpu->plan)
		plan(gpu);
}

static int64_t next_change(struct gpu *gpu, bool has_others)
{
	int64_t at_ns = INT64_MAX, now_ns = gpu->queue->now_ns;

	for (int i = 0; i < gpu->stream_count; i++) {
		struct gpu_stream *stream = &gpu->streams[i];
		struct gpu_op *op = first_op(stream);
		int64_t due_ns = INT64_MAX;

		if (op && op->ready_ns > now_ns)
			due_ns = op->ready_ns;
		else if (op && stream->is_running && op->left_ns != GPU_FOREVER_NS)
			due_ns = stream->since_ns + op->left_ns;
		if (due_ns < at_ns)
			at_ns = due_ns;
	}
	if (has_others && gpu->turn_end_ns < at_ns)
		at_ns = gpu->turn_end_ns;
	if (now_ns < gpu->switch_end_ns && gpu->switch_end_ns < at_ns)
		at_ns = gpu->switch_end_ns;
	return at_ns;
}

static bool has_turn(const struct gpu_stream *stream)
{
	const struct gpu *gpu = stream->gpu;

	return is_free_mark(stream) ||
	       (stream->process == gpu->turn && gpu->queue->now_ns >= gpu->switch_end_ns);
}

/* Brings everything up to now and says when to look again. */
static void plan(struct gpu *gpu)
{
	int64_t now_ns = gpu->queue->now_ns, at_ns;
	bool has_others, is_taken = false;

	gpu->plan++;
	while (end_due(gpu))
		;
	choose_turn(gpu, &has_others);
	/* By age: in a serial GPU what has begun goes on. */
	for (int i = 0; i < gpu->stream_count; i++) {
		struct gpu_stream *stream = &gpu->streams[i];

		if (!can_run(stream, now_ns))
			continue;
		if (!has_turn(stream))
			pause_stream(stream);
		else if (stream->has_begun && first_op(stream)->kind == GPU_KERNEL)
			is_taken = true;
	}
	for (int n = 0; n < gpu->stream_count; n++) {
		struct gpu_stream *stream = &gpu->streams[((unsigned)n + (unsigned)gpu->plan) %
							  (unsigned)gpu->stream_count];

		if (!can_run(stream, now_ns) || !has_turn(stream) || stream->is_running)
			continue;
		if (first_op(stream)->kind == GPU_KERNEL) {
			if (gpu->is_serial && is_taken && !stream->has_begun)
				continue;
			is_taken = true;
		}
		begin_op(stream);
	}
	at_ns = next_change(gpu, has_others);
	if (at_ns != INT64_MAX)
		queue_at(gpu->queue, at_ns, planned, gpu, gpu->plan);
}

static void arrived(void *arg, uint64_t tag)
{
	(void)tag;
	plan(arg);
}

void gpu_submit(struct gpu_stream *stream, const struct gpu_op *op)
{
	if (stream->count == stream->room) {
		unsigned room = stream->room ? stream->room * 2 : 16;
		struct gpu_op *ops = malloc(room * sizeof(*ops));

		if (!ops)
			abort();
		for (unsigned i = 0; i < stream->count; i++)
			ops[(stream->first + i) % room] =
				stream->ops[(stream->first + i) % stream->room];
		free(stream->ops);
		stream->ops = ops;
		stream->room = room;
	}
	stream->ops[(stream->first + stream->count++) % stream->room] = *op;
	if (stream->count == 1)
		stream->was_idle = true;
	if (stream->count == 1)
		queue_at(stream->gpu->queue, op->ready_ns, arrived, stream->gpu, 0);
}

void gpu_release(struct gpu_stream *stream)
{
	struct gpu_op *op = first_op(stream);

	if (op && op->left_ns == GPU_FOREVER_NS) {
		op->left_ns = stream->is_running ? stream->gpu->queue->now_ns - stream->since_ns :
						   0;
		plan(stream->gpu);
	}
}

void gpu_kill(struct gpu *gpu, int process)
{
	for (int i = 0; i < gpu->stream_count; i++) {
		struct gpu_stream *stream = &gpu->streams[i];

		if (stream->process != process)
			continue;
		if (stream->has_begun && first_op(stream)->kind == GPU_KERNEL &&
		    !is_strange(stream))
			cease_busy(gpu);
		stream->count = 0;
		stream->has_begun = stream->is_running = false;
	}
	plan(gpu);
}

int64_t gpu_busy_ns(const struct gpu *gpu, int64_t begin_ns, int64_t end_ns)
{
	int64_t sum_ns = 0;

	for (int64_t i = begin_ns / GPU_WINDOW_NS; i < end_ns / GPU_WINDOW_NS && i < GPU_WINDOWS;
	     i++)
		sum_ns += gpu->windows_ns[i];
	return sum_ns;
}

int64_t gpu_bare_ns(const struct gpu *gpu, int64_t begin_ns, int64_t end_ns)
{
	int64_t sum_ns = gpu_busy_ns(gpu, begin_ns, end_ns);

	for (int64_t i = begin_ns / GPU_WINDOW_NS; i < end_ns / GPU_WINDOW_NS && i < GPU_WINDOWS;
	     i++)
		sum_ns -= gpu->gaps_ns[i];
	return sum_ns;
}
