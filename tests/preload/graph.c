/*
 * Memory that graphs allocate, under a limit. Which case does what is said at it.
 */
#include <pthread.h>

#include "client.h"

#define CONTEXT_BYTES (64 * MIB)

enum frees { KEEPS, FREES };

static __thread CUdeviceptr address; /* of the graph made last */

/* A graph that allocates `bytes`, and frees them or not. */
static CUgraph make(uint64_t bytes, enum frees frees)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = {
		.poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			       .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } },
		.bytesize = bytes,
	};
	CUgraphNode alloc, release;
	CUgraph graph;

	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemAllocNode(&alloc, graph, NULL, 0, &params));
	address = params.dptr;
	if (frees == FREES)
		OK(cuGraphAddMemFreeNode(&release, graph, &alloc, 1, address));
	return graph;
}

static CUresult instantiate(CUgraph graph, CUgraphExec *out_exec)
{
	return cuGraphInstantiateWithFlags(out_exec, graph, 0);
}

static CUgraphExec new_exec(uint64_t bytes, enum frees frees)
{
	CUgraphExec exec;

	OK(instantiate(make(bytes, frees), &exec));
	return exec;
}

static void run(CUgraphExec exec)
{
	OK(cuGraphLaunch(exec, NULL));
	OK(cuStreamSynchronize(NULL));
}

static uint64_t store_bytes(void)
{
	cuuint64_t bytes;

	OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes));
	return bytes;
}

/* reserve: an instantiated graph has its memory, launched or not. */
static void reserve(int argc, char **argv)
{
	CUgraphExec exec, other;
	CUgraph graph;

	(void)argc;
	(void)argv;
	client_start();
	graph = make(100 * MIB, FREES);
	CHARGED_IS(0, CONTEXT_BYTES);
	OK(instantiate(graph, &exec));
	CHARGED_IS(0, CONTEXT_BYTES + 128 * MIB);
	IS(instantiate(make(client_limit(0) - CONTEXT_BYTES - 99 * MIB, FREES), &other),
	   CUDA_ERROR_OUT_OF_MEMORY);
	CHARGED_IS(0, CONTEXT_BYTES + 128 * MIB);
	OK(cuGraphExecDestroy(exec));
	CHARGED_IS(0, CONTEXT_BYTES);
	OK(instantiate(graph, &exec));
	run(exec);
	CHARGED_IS(0, CONTEXT_BYTES + store_bytes());
	client_pause("launched");
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	CHARGED_IS(0, CONTEXT_BYTES + store_bytes());
	OK(cuDeviceGraphMemTrim(0));
	CHARGED_IS(0, CONTEXT_BYTES);
	client_pause("trimmed");
}

/* again: what was trimmed away is taken again by the next launch. */
static void again(int argc, char **argv)
{
	CUgraphExec exec;
	CUdeviceptr p;

	(void)argc;
	(void)argv;
	client_start();
	exec = new_exec(96 * MIB, FREES);
	for (int i = 0; i < 3; i++) {
		run(exec);
		CHARGED_IS(0, CONTEXT_BYTES + store_bytes());
		CHECK(store_bytes() >= 96 * MIB);
		run(exec);
		CHARGED_IS(0, CONTEXT_BYTES + store_bytes());
		OK(cuDeviceGraphMemTrim(0));
		CHARGED_IS(0, CONTEXT_BYTES);
	}
	OK(cuMemAlloc_v2(&p, client_limit(0) - CONTEXT_BYTES - 90 * MIB));
	IS(cuGraphLaunch(exec, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(client_charged(0) <= client_limit(0));
	client_pause("refused");
	IS(cuGraphUpload(exec, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemFree_v2(p));
	OK(cuGraphUpload(exec, NULL));
	OK(cuStreamSynchronize(NULL));
	CHARGED_IS(0, CONTEXT_BYTES + store_bytes());
	run(exec);
	OK(cuGraphExecDestroy(exec));
	OK(cuDeviceGraphMemTrim(0));
	CHARGED_IS(0, CONTEXT_BYTES);
}

/* uploaded: at once into another stream than that of a graph whose memory the store has. */
static void uploaded(int argc, char **argv)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS params = { .flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD };
	CUgraphExec exec, other = (CUgraphExec)1;
	CUstream stream;
	CUgraph graph;
	CUdeviceptr p;

	(void)argc;
	(void)argv;
	client_start();
	exec = new_exec(96 * MIB, FREES);
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&params.hUploadStream, CU_STREAM_NON_BLOCKING));
	OK(cuGraphLaunch(exec, stream));
	graph = make(96 * MIB, FREES);
	OK(cuMemAlloc_v2(&p, client_limit(0) - CONTEXT_BYTES - 130 * MIB));
	IS(cuGraphInstantiateWithParams(&other, graph, &params), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(other == (CUgraphExec)1);
	SAME(params.result_out, CUDA_GRAPH_INSTANTIATE_ERROR);
	SAME(params.flags, CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD);
	OK(cuMemFree_v2(p));
	OK(cuGraphInstantiateWithParams(&other, graph, &params));
	SAME(params.result_out, CUDA_GRAPH_INSTANTIATE_SUCCESS);
	CHARGED_IS(0, CONTEXT_BYTES + store_bytes());
	OK(cuGraphLaunch(other, params.hUploadStream));
	OK(cuCtxSynchronize());
	CHARGED_IS(0, CONTEXT_BYTES + store_bytes());
	client_pause("uploaded");
}

/* idle: what graphs have is not taken from under them, also when others are refused for it. */
static void idle(int argc, char **argv)
{
	CUgraphExec exec;
	CUdeviceptr p;

	(void)argc;
	(void)argv;
	client_start();
	exec = new_exec(96 * MIB, FREES);
	run(exec);
	IS(cuMemAlloc_v2(&p, client_limit(0) - CONTEXT_BYTES - 90 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemAlloc_v2(&p, client_limit(0) - CONTEXT_BYTES - store_bytes()));
	run(exec);
	run(exec);
	OK(cuMemFree_v2(p));
}

/* kept: memory that a graph leaves is freed by the program, in either way. */
static void kept(int argc, char **argv)
{
	CUgraphExec exec;
	CUdeviceptr p;

	(void)argc;
	(void)argv;
	client_start();
	for (int i = 0; i < 4; i++) {
		exec = new_exec(64 * MIB, KEEPS);
		p = address;
		run(exec);
		CHECK(client_charged(0) >= CONTEXT_BYTES + 64 * MIB);
		OK(i % 2 ? cuMemFree_v2(p) : cuMemFreeAsync(p, NULL));
		OK(cuStreamSynchronize(NULL));
		OK(cuGraphExecDestroy(exec));
		OK(cuDeviceGraphMemTrim(0));
		CHARGED_IS(0, CONTEXT_BYTES);
	}
}

/*
 * units: each graph that keeps memory takes units of its own; the limit is not a multiple of them.
 */
static void units(int argc, char **argv)
{
	CUgraphExec exec = NULL;
	int got = 0;

	(void)argc;
	(void)argv;
	client_start();
	while (instantiate(make(2 * MIB, KEEPS), &exec) == CUDA_SUCCESS) {
		run(exec);
		got++;
		CHARGED_IS(0, CONTEXT_BYTES + store_bytes());
		CHECK(client_charged(0) <= client_limit(0));
	}
	CHECK(got > 0);
	client_pause("refused");
}

/*
 * shared: graphs that ran in the same memory do not get more of it at once than the limit allows.
 */
static void run_shared(int argc, char **argv)
{
	CUgraphExec execs[4];
	CUresult res;
	CUdeviceptr p;

	(void)argc;
	(void)argv;
	client_start();
	for (int i = 0; i < 4; i++) {
		execs[i] = new_exec(64 * MIB, FREES);
		run(execs[i]);
	}
	CHARGED_IS(0, CONTEXT_BYTES + store_bytes());
	CHECK(store_bytes() < 4 * 64 * MIB);
	OK(cuMemAlloc_v2(&p, client_limit(0) - client_charged(0)));
	for (int i = 0; i < 4; i++) {
		res = cuGraphLaunch(execs[i], NULL);
		CHECK(res == CUDA_SUCCESS || res == CUDA_ERROR_OUT_OF_MEMORY);
		CHECK(client_charged(0) <= client_limit(0));
	}
	OK(cuMemFree_v2(p));
	for (int i = 0; i < 4; i++)
		run(execs[i]);
}

/* anew: a graph whose memory the store has is made again and again. */
static void anew(int argc, char **argv)
{
	CUgraphExec exec;

	(void)argc;
	(void)argv;
	client_start();
	for (int i = 0; i < 4; i++) {
		exec = new_exec(100 * MIB, FREES);
		run(exec);
		CHARGED_IS(0, CONTEXT_BYTES + 128 * MIB);
		OK(cuGraphExecDestroy(exec));
	}
}

/* inside: graphs in graphs, and clones. */
static void inside(int argc, char **argv)
{
	CUgraph outer, clone;
	CUgraphNode node;
	CUgraphExec exec;

	(void)argc;
	(void)argv;
	client_start();
	OK(cuGraphCreate(&outer, 0));
	if (cuGraphAddChildGraphNode(&node, outer, NULL, 0, make(50 * MIB, FREES)) ==
		    CUDA_SUCCESS &&
	    instantiate(outer, &exec) == CUDA_SUCCESS) {
		CHARGED_IS(0, CONTEXT_BYTES + 64 * MIB);
		OK(cuGraphExecDestroy(exec));
	}
	if (cuGraphClone(&clone, make(50 * MIB, FREES)) == CUDA_SUCCESS &&
	    instantiate(clone, &exec) == CUDA_SUCCESS) {
		CHARGED_IS(0, CONTEXT_BYTES + 64 * MIB);
		OK(cuGraphExecDestroy(exec));
	}
	CHARGED_IS(0, CONTEXT_BYTES);
}

/* captured: allocations of a stream that became a graph. */
static void captured(int argc, char **argv)
{
	CUstream stream;
	CUgraphExec exec;
	CUgraph graph;
	CUdeviceptr p;

	(void)argc;
	(void)argv;
	client_start();
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cuMemAllocAsync(&p, 80 * MIB, stream));
	OK(cuMemFreeAsync(p, stream));
	OK(cuStreamEndCapture(stream, &graph));
	CHARGED_IS(0, CONTEXT_BYTES);
	OK(instantiate(graph, &exec));
	CHARGED_IS(0, CONTEXT_BYTES + 96 * MIB);
	OK(cuGraphLaunch(exec, stream));
	OK(cuStreamSynchronize(stream));
	CHARGED_IS(0, CONTEXT_BYTES + store_bytes());
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuDeviceGraphMemTrim(0));
	CHARGED_IS(0, CONTEXT_BYTES);
}

/* shared: many graphs that run one after the other share what the store has. */
static void shared(int argc, char **argv)
{
	CUgraphExec exec[4];

	(void)argc;
	(void)argv;
	client_start();
	for (int i = 0; i < 4; i++) {
		exec[i] = new_exec(32 * MIB, FREES);
		run(exec[i]);
		CHARGED_IS(0, CONTEXT_BYTES + store_bytes());
	}
	for (int i = 0; i < 8; i++)
		run(exec[i % 4]);
	CHARGED_IS(0, CONTEXT_BYTES + store_bytes());
	for (int i = 0; i < 4; i++)
		OK(cuGraphExecDestroy(exec[i]));
	OK(cuDeviceGraphMemTrim(0));
	CHARGED_IS(0, CONTEXT_BYTES);
}

/* faults: whichever call fails, nothing stays charged in the end. */
static void faults(int argc, char **argv)
{
	CUgraphExec exec = NULL;
	CUgraph graph;

	(void)argc;
	(void)argv;
	client_start();
	graph = make(64 * MIB, FREES);
	for (int i = 0; i < 4 && !exec; i++)
		if (instantiate(graph, &exec) != CUDA_SUCCESS)
			exec = NULL;
	for (int i = 0; i < 4; i++)
		cuGraphLaunch(exec, NULL);
	OK(cuStreamSynchronize(NULL));
	for (int i = 0; i < 4 && cuGraphExecDestroy(exec) != CUDA_SUCCESS; i++)
		;
	for (int i = 0; i < 4; i++)
		cuDeviceGraphMemTrim(0);
	CHARGED_IS(0, CONTEXT_BYTES);
}

enum { HELD = 6 };

/* An executable graph, and what it keeps; or memory of a pool. */
struct thing {
	CUgraphExec exec;
	CUgraph graph;
	CUdeviceptr kept, piece;
};

static bool begin_thing(struct thing *t, CUstream stream, unsigned *seed)
{
	enum frees frees = rand_r(seed) % 2 ? FREES : KEEPS;
	uint64_t bytes = MIB * (1 + (unsigned)rand_r(seed) % 100);

	*t = (struct thing){ NULL };
	if (rand_r(seed) % 2)
		return cuMemAllocAsync(&t->piece, bytes, stream) == CUDA_SUCCESS;
	t->graph = make(bytes, frees);
	if (instantiate(t->graph, &t->exec) != CUDA_SUCCESS) {
		OK(cuGraphDestroy(t->graph));
		return false;
	}
	for (int i = rand_r(seed) % 3; i > 0; i--)
		if (cuGraphLaunch(t->exec, stream) == CUDA_SUCCESS && frees == KEEPS)
			t->kept = address;
	if (rand_r(seed) % 3 == 0)
		cuGraphUpload(t->exec, stream);
	if (rand_r(seed) % 4 == 0)
		OK(cuDeviceGraphMemTrim(0));
	return true;
}

static void end_thing(struct thing *t, CUstream stream, bool is_freed_first)
{
	if (t->piece)
		OK(cuMemFreeAsync(t->piece, stream));
	if (t->kept && is_freed_first)
		OK(cuMemFreeAsync(t->kept, stream));
	if (t->exec)
		OK(cuGraphExecDestroy(t->exec));
	if (t->graph)
		OK(cuGraphDestroy(t->graph));
	if (t->kept && !is_freed_first)
		OK(cuMemFreeAsync(t->kept, stream));
	*t = (struct thing){ NULL };
}

static _Atomic bool is_over;

static void *make_and_run(void *ctx)
{
	struct thing things[HELD] = { { NULL } };
	bool is_there[HELD] = { false };
	CUstream stream;
	unsigned seed;

	OK(cuCtxSetCurrent(ctx));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	seed = (unsigned)(uintptr_t)stream;
	while (!is_over) {
		int i = rand_r(&seed) % HELD;

		if (is_there[i])
			end_thing(&things[i], stream, rand_r(&seed) % 2);
		is_there[i] = !is_there[i] && begin_thing(&things[i], stream, &seed);
	}
	for (int i = 0; i < HELD; i++)
		if (is_there[i])
			end_thing(&things[i], stream, true);
	OK(cuStreamSynchronize(stream));
	return NULL;
}

/* crowd SECONDS: threads make, launch, upload, trim and destroy graphs of both kinds. */
static void crowd(int argc, char **argv)
{
	enum { THREADS = 4 };
	pthread_t threads[THREADS];
	CUcontext ctx = client_start();
	CUmemoryPool pool;

	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, make_and_run, ctx) == 0);
	usleep((useconds_t)(1e6 * (argc > 0 ? atof(argv[0]) : 1)));
	is_over = true;
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	OK(cuDeviceGraphMemTrim(0));
	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	OK(cuMemPoolTrimTo(pool, 0));
	CHARGED_IS(0, CONTEXT_BYTES);
}

int main(int argc, char **argv)
{
	static const struct client_case cases[] = {
		{ "reserve", reserve },
		{ "again", again },
		{ "uploaded", uploaded },
		{ "idle", idle },
		{ "kept", kept },
		{ "units", units },
		{ "run-shared", run_shared },
		{ "anew", anew },
		{ "inside", inside },
		{ "captured", captured },
		{ "shared", shared },
		{ "faults", faults },
		{ "crowd", crowd },
		{ 0 },
	};

	return client_main(argc, argv, cases);
}
