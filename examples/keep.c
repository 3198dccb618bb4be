/*
 * Keeps buffers on the device and adds to them all the while, from several threads; in the end each
 * byte is compared with what it should be. See `help`.
 */
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "kernels.h"
#include "options.h"

static const char help[] =
	"Usage: keep [--size SIZE] [--threads N] [--depth N] [--graph] [--rest MS]\n"
	"Each of N threads (2) keeps a buffer of SIZE bytes (8m) on the device and adds one to each\n"
	"number in it, by kernels in a stream of its own or, with --graph, by a graph that was\n"
	"captured once, up to --depth (8) rounds before it waits for them, and --rest (0)\n"
	"milliseconds more. Says \"ready\", then how many rounds were done for each line that it\n"
	"reads. At the end of its input it compares all numbers with the rounds, and says \"ok\" or\n"
	"what differs.\n";

struct keeper {
	pthread_t thread;
	CUdeviceptr buffer, one;
	_Atomic uint64_t rounds; /* done */
};

static struct {
	uint64_t bytes, threads, depth, rest_ms;
	bool has_graph;
	CUcontext ctx;
	CUfunction add;
} keep = { 8 * MIB, 2, 8, 0, false, NULL, NULL };

static _Atomic bool is_over;

static void launch(struct keeper *k, CUstream stream)
{
	uint64_t words = keep.bytes / 4;
	void *params[] = { &k->buffer, &k->buffer, &k->one, &words };

	CHECK(cuLaunchKernel(keep.add, 64, 1, 1, 256, 1, 1, 0, stream, params, NULL));
}

static CUgraphExec capture(struct keeper *k, CUstream stream)
{
	CUgraphExec exec;
	CUgraph graph;

	CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	launch(k, stream);
	CHECK(cuStreamEndCapture(stream, &graph));
	CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CHECK(cuGraphDestroy(graph));
	return exec;
}

static void *add_all_the_while(void *arg)
{
	struct keeper *k = arg;
	CUgraphExec exec = NULL;
	CUstream stream;

	CHECK(cuCtxSetCurrent(keep.ctx));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	if (keep.has_graph)
		exec = capture(k, stream);
	while (!atomic_load(&is_over)) {
		for (uint64_t i = 0; i < keep.depth; i++) {
			if (exec)
				CHECK(cuGraphLaunch(exec, stream));
			else
				launch(k, stream);
		}
		CHECK(cuStreamSynchronize(stream));
		atomic_fetch_add(&k->rounds, keep.depth);
		if (keep.rest_ms)
			usleep((useconds_t)keep.rest_ms * 1000);
	}
	return NULL;
}

static void compare(const struct keeper *k, unsigned number)
{
	uint64_t words = keep.bytes / 4, rounds = atomic_load(&k->rounds);
	float *got = malloc(keep.bytes);

	CHECK(cuMemcpyDtoH_v2(got, k->buffer, keep.bytes));
	for (uint64_t i = 0; i < words; i++) {
		if ((uint64_t)got[i] == rounds)
			continue;
		printf("buffer %u: number %llu is %.0f, not %llu\n", number, (unsigned long long)i,
		       (double)got[i], (unsigned long long)rounds);
		exit(1);
	}
	free(got);
}

static void start(struct keeper *k)
{
	CHECK(cuMemAlloc_v2(&k->buffer, keep.bytes));
	CHECK(cuMemAlloc_v2(&k->one, keep.bytes));
	CHECK(cuMemsetD32_v2(k->buffer, 0, keep.bytes / 4));
	CHECK(cuMemsetD32_v2(k->one, 0x3f800000, keep.bytes / 4));
	CHECK(cuCtxSynchronize());
}

static void read_options(int argc, char **argv)
{
	static const struct option table[] = {
		{ "size", required_argument, NULL, 's' },
		{ "threads", required_argument, NULL, 't' },
		{ "depth", required_argument, NULL, 'd' },
		{ "graph", no_argument, NULL, 'g' },
		{ "rest", required_argument, NULL, 'r' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", table, NULL)) >= 0) {
		switch (c) {
		case 's':
			keep.bytes = options_size("--size", optarg) / 4 * 4;
			break;
		case 't':
			keep.threads = options_number("--threads", optarg, 1, 64);
			break;
		case 'd':
			keep.depth = options_number("--depth", optarg, 1, 1000);
			break;
		case 'g':
			keep.has_graph = true;
			break;
		case 'r':
			keep.rest_ms = options_number("--rest", optarg, 0, 1000);
			break;
		case 'h':
			fputs(help, stdout);
			exit(0);
		default:
			fputs(help, stderr);
			exit(2);
		}
	}
}

int main(int argc, char **argv)
{
	struct keeper *keepers;
	CUmodule module;
	CUdevice dev;
	int c;

	read_options(argc, argv);
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuDevicePrimaryCtxRetain(&keep.ctx, dev));
	CHECK(cuCtxSetCurrent(keep.ctx));
	CHECK(cuModuleLoadData(&module, kernels_ptx));
	CHECK(cuModuleGetFunction(&keep.add, module, "add"));
	keepers = calloc(keep.threads, sizeof(*keepers));
	for (uint64_t i = 0; i < keep.threads; i++)
		start(&keepers[i]);
	for (uint64_t i = 0; i < keep.threads; i++)
		pthread_create(&keepers[i].thread, NULL, add_all_the_while, &keepers[i]);
	puts("ready");
	fflush(stdout);
	while ((c = getchar()) != EOF) {
		uint64_t rounds = 0;

		for (uint64_t i = 0; i < keep.threads; i++)
			rounds += atomic_load(&keepers[i].rounds);
		if (c == '\n')
			printf("%llu\n", (unsigned long long)rounds);
		fflush(stdout);
	}
	atomic_store(&is_over, true);
	for (uint64_t i = 0; i < keep.threads; i++)
		pthread_join(keepers[i].thread, NULL);
	for (unsigned i = 0; i < keep.threads; i++)
		compare(&keepers[i], i);
	puts("ok");
	return 0;
}
