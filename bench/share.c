/*
 * Keeps the GPU busy in a way that is asked for, and says how busy it was: each kernel writes down when
 * it began and ended by the GPU's clock, so that no library in between can tell it otherwise.
 *
 *   share NS [--depth N] [--streams N] [--graph NODES] [--raw FILE]
 *
 * Kernels of NS ns; with --depth 1 a wait after each, otherwise a wait for the one N before; --graph puts
 * NODES kernels into a graph. Reads lines "run SECONDS" and answers each with
 *
 *   launches WALL_NS BUSY_NS P50_NS P99_NS MAX_NS
 *
 * BUSY_NS is the union of all kernels' times, the last three how long one round (launch, and wait where
 * there is one) took. --raw also writes begin and end of each kernel, two 64-bit words each, to
 * FILE.<number of the run>. On the software GPU, which has no such clock, kernels count as asked.
 */
#include "driver.h"

#include <getopt.h>
#include <string.h>

enum { STREAMS = 32, DEPTH = 4096, KEPT = 1 << 20 };

static const char ptx[] = ".version 6.0\n"
			  ".target sm_50\n"
			  ".address_size 64\n"
			  ".visible .entry spin(.param .u64 ns, .param .u64 out)\n"
			  "{\n"
			  "	.reg .u64 %t<6>;\n"
			  "	.reg .pred %p;\n"
			  "	ld.param.u64 %t1, [ns];\n"
			  "	ld.param.u64 %t4, [out];\n"
			  "	mov.u64 %t2, %globaltimer;\n"
			  "again:\n"
			  "	mov.u64 %t3, %globaltimer;\n"
			  "	sub.u64 %t5, %t3, %t2;\n"
			  "	setp.lt.u64 %p, %t5, %t1;\n"
			  "	@%p bra again;\n"
			  "	st.global.u64 [%t4], %t2;\n"
			  "	st.global.u64 [%t4+8], %t3;\n"
			  "	ret;\n"
			  "}\n";

struct span {
	uint64_t begin_ns, end_ns;
};

static struct {
	uint64_t ns;
	long depth, streams, nodes;
	const char *raw;
	void *cuda;
	CUfunction spin;
	CUstream stream[STREAMS];
	CUevent event[DEPTH];
	CUdeviceptr spans;
	CUgraphExec exec;
	struct span *kept;
	int64_t *rounds_ns;
	/* Looked up once, as programs do. */
	__typeof__(&cuLaunchKernel) launch;
	__typeof__(&cuGraphLaunch) launch_graph;
	__typeof__(&cuStreamSynchronize) wait;
	__typeof__(&cuEventRecord) record;
	__typeof__(&cuEventSynchronize) wait_event;
} b = { .depth = 64, .streams = 1 };

static void parse(int argc, char **argv)
{
	static const struct option options[] = { { "depth", required_argument, NULL, 'd' },
						 { "streams", required_argument, NULL, 's' },
						 { "graph", required_argument, NULL, 'g' },
						 { "raw", required_argument, NULL, 'r' },
						 { NULL, 0, NULL, 0 } };
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'd')
			b.depth = atol(optarg);
		else if (c == 's')
			b.streams = atol(optarg);
		else if (c == 'g')
			b.nodes = atol(optarg);
		else if (c == 'r')
			b.raw = optarg;
		else
			exit(2);
	}
	b.ns = optind < argc ? strtoull(argv[optind], NULL, 10) : 0;
	if (b.ns == 0 || b.depth < 1 || b.depth > DEPTH || b.streams < 1 || b.streams > STREAMS) {
		fprintf(stderr, "usage: share NS [--depth N] [--streams N] [--graph NODES]\n");
		exit(2);
	}
}

static void launch(CUstream stream, uint64_t index)
{
	CUdeviceptr out = b.spans + index % KEPT * sizeof(struct span);
	void *params[] = { &b.ns, &out };

	CHECK(b.launch(b.spin, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static void make_graph(void)
{
	CUgraph graph;

	CHECK(DRIVER(b.cuda, cuStreamBeginCapture_v2)(b.stream[0],
						      CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	for (long i = 0; i < b.nodes; i++)
		launch(b.stream[0], (uint64_t)i);
	CHECK(DRIVER(b.cuda, cuStreamEndCapture)(b.stream[0], &graph));
	CHECK(DRIVER(b.cuda, cuGraphInstantiateWithFlags)(&b.exec, graph, 0));
}

static void start(void)
{
	CUmodule module;

	b.cuda = driver_open("libcuda.so.1");
	driver_begin(b.cuda);
	b.launch = DRIVER(b.cuda, cuLaunchKernel);
	b.launch_graph = DRIVER(b.cuda, cuGraphLaunch);
	b.wait = DRIVER(b.cuda, cuStreamSynchronize);
	b.record = DRIVER(b.cuda, cuEventRecord);
	b.wait_event = DRIVER(b.cuda, cuEventSynchronize);
	CHECK(DRIVER(b.cuda, cuModuleLoadData)(&module, ptx));
	CHECK(DRIVER(b.cuda, cuModuleGetFunction)(&b.spin, module, "spin"));
	CHECK(DRIVER(b.cuda, cuMemAlloc_v2)(&b.spans, KEPT * sizeof(struct span)));
	for (long i = 0; i < b.streams; i++)
		CHECK(DRIVER(b.cuda, cuStreamCreate)(&b.stream[i], CU_STREAM_NON_BLOCKING));
	for (long i = 0; i < b.depth; i++)
		CHECK(DRIVER(b.cuda, cuEventCreate)(&b.event[i], CU_EVENT_DISABLE_TIMING));
	b.kept = calloc(KEPT, sizeof(*b.kept));
	b.rounds_ns = calloc(KEPT, sizeof(*b.rounds_ns));
	if (!b.kept || !b.rounds_ns)
		exit(1);
	if (b.nodes)
		make_graph();
}

static int by_begin(const void *x, const void *y)
{
	const struct span *a = x, *c = y;

	return (a->begin_ns > c->begin_ns) - (a->begin_ns < c->begin_ns);
}

static int by_size(const void *x, const void *y)
{
	const int64_t *a = x, *c = y;

	return (*a > *c) - (*a < *c);
}

/* The time in which any of them ran. */
static uint64_t unite(struct span *spans, uint64_t count)
{
	uint64_t busy_ns = 0, end_ns = 0;

	qsort(spans, count, sizeof(*spans), by_begin);
	for (uint64_t i = 0; i < count; i++) {
		uint64_t from_ns = spans[i].begin_ns > end_ns ? spans[i].begin_ns : end_ns;

		if (spans[i].end_ns > from_ns)
			busy_ns += spans[i].end_ns - from_ns;
		if (spans[i].end_ns > end_ns)
			end_ns = spans[i].end_ns;
	}
	return busy_ns;
}

/* One round: a kernel or the graph, and the wait that is due. */
static void round_once(uint64_t i)
{
	CUstream stream = b.stream[i % (uint64_t)b.streams];

	if (b.nodes)
		CHECK(b.launch_graph(b.exec, stream));
	else
		launch(stream, i);
	if (b.depth == 1) {
		CHECK(b.wait(stream));
		return;
	}
	if (i >= (uint64_t)b.depth)
		CHECK(b.wait_event(b.event[i % (uint64_t)b.depth]));
	CHECK(b.record(b.event[i % (uint64_t)b.depth], stream));
}

static void keep(uint64_t count, int run)
{
	char name[4096];
	FILE *f;

	snprintf(name, sizeof(name), "%s.%d", b.raw, run);
	f = fopen(name, "w");
	if (!f || fwrite(b.kept, sizeof(*b.kept), count, f) != count || fclose(f))
		driver_fail(name, 1);
}

static void run(double seconds, int number)
{
	int64_t begin_ns = driver_now_ns(), now_ns = begin_ns, last_ns, wall_ns;
	uint64_t count = 0, kept, busy_ns;

	CHECK(DRIVER(b.cuda, cuMemsetD8_v2)(b.spans, 0, KEPT * sizeof(struct span)));
	CHECK(DRIVER(b.cuda, cuCtxSynchronize)());
	begin_ns = now_ns = driver_now_ns();
	while ((double)(now_ns - begin_ns) < seconds * 1e9 && count < KEPT) {
		last_ns = now_ns;
		round_once(count);
		now_ns = driver_now_ns();
		b.rounds_ns[count++] = now_ns - last_ns;
	}
	CHECK(DRIVER(b.cuda, cuCtxSynchronize)());
	wall_ns = driver_now_ns() - begin_ns;
	CHECK(DRIVER(b.cuda, cuMemcpyDtoH_v2)(b.kept, b.spans, KEPT * sizeof(struct span)));
	kept = b.nodes ? (uint64_t)b.nodes : count;
	if (b.raw)
		keep(kept, number);
	busy_ns = unite(b.kept, kept);
	/* Of a graph only the last launch's nodes are written down: all took as long. */
	if (b.nodes)
		busy_ns = busy_ns * count;
	if (busy_ns == 0)
		busy_ns = count * (uint64_t)(b.nodes ? b.nodes : 1) * b.ns;
	qsort(b.rounds_ns, count, sizeof(*b.rounds_ns), by_size);
	printf("%llu %lld %llu %lld %lld %lld\n", (unsigned long long)count, (long long)wall_ns,
	       (unsigned long long)busy_ns, (long long)b.rounds_ns[count / 2],
	       (long long)b.rounds_ns[count * 99 / 100], (long long)b.rounds_ns[count - 1]);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	double seconds;
	int number = 0;

	parse(argc, argv);
	start();
	while (scanf(" run %lf", &seconds) == 1)
		run(seconds, number++);
	return 0;
}
