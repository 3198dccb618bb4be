/* Launches under a limit of GPU time, and what programs do meanwhile. */
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "client.h"

#define SPIN                                                                                    \
	".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry spin(.param .u64 ns)\n" \
	"{\n\tret;\n}\n"
#define USEC 1000ull
#define MSEC 1000000ull

static CUcontext ctx;
static CUfunction spin;

static void start_in_current(void)
{
	CUmodule module;

	OK(cuModuleLoadData(&module, SPIN));
	OK(cuModuleGetFunction(&spin, module, "spin"));
}

static void start(void)
{
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	start_in_current();
}

static void launch(CUstream stream, unsigned long long ns)
{
	void *params[] = { &ns };

	OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static CUstream new_stream(void)
{
	CUstream stream;

	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

static CUgraphExec graph_of(unsigned long long ns)
{
	void *params[] = { &ns };
	CUDA_KERNEL_NODE_PARAMS node = client_kernel(spin, NULL, params);
	CUgraphExec exec;
	CUgraphNode added;
	CUgraph graph;

	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddKernelNode_v2(&added, graph, NULL, 0, &node));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	return exec;
}

/*
 * The first forms of all take their parameters by calls that the software GPU has not: it refuses
 * them, after whoever owes was held.
 */
static bool is_of_once(const char *form)
{
	return !strcmp(form, "launch") || !strncmp(form, "grid", 4);
}

static bool launch_as_once(const char *form)
{
	if (strcmp(form, "launch") == 0)
		cuLaunch(spin);
	else if (strcmp(form, "grid") == 0)
		cuLaunchGrid(spin, 1, 1);
	else if (strcmp(form, "grid_async") == 0)
		cuLaunchGridAsync(spin, 1, 1, NULL);
	else
		return false;
	return true;
}

/* One thread of a function, in a stream of its own. */
static CUDA_LAUNCH_PARAMS one_thread(CUfunction function, void **params)
{
	return (CUDA_LAUNCH_PARAMS){ .function = function,
				     .gridDimX = 1,
				     .gridDimY = 1,
				     .gridDimZ = 1,
				     .blockDimX = 1,
				     .blockDimY = 1,
				     .blockDimZ = 1,
				     .hStream = new_stream(),
				     .kernelParams = params };
}

static void launch_in_devices(unsigned long long ns)
{
	void *params[] = { &ns };
	CUDA_LAUNCH_PARAMS launches = one_thread(spin, params);

	OK(cuLaunchCooperativeKernelMultiDevice(&launches, 1, 0));
}

/* Work in the form of this name. */
static void launch_as(const char *form, unsigned long long ns)
{
	CUlaunchConfig config = { .gridDimX = 1,
				  .gridDimY = 1,
				  .gridDimZ = 1,
				  .blockDimX = 1,
				  .blockDimY = 1,
				  .blockDimZ = 1 };
	void *params[] = { &ns };

	if (strcmp(form, "kernel") == 0)
		launch(NULL, ns);
	else if (strcmp(form, "kernel_ptsz") == 0)
		OK(cuLaunchKernel_ptsz(spin, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	else if (strcmp(form, "ex") == 0)
		OK(cuLaunchKernelEx(&config, spin, params, NULL));
	else if (strcmp(form, "ex_ptsz") == 0)
		OK(cuLaunchKernelEx_ptsz(&config, spin, params, NULL));
	else if (strcmp(form, "cooperative") == 0)
		OK(cuLaunchCooperativeKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, params));
	else if (strcmp(form, "cooperative_ptsz") == 0)
		OK(cuLaunchCooperativeKernel_ptsz(spin, 1, 1, 1, 1, 1, 1, 0, NULL, params));
	else if (strcmp(form, "multi") == 0)
		launch_in_devices(ns);
	else if (strcmp(form, "graph") == 0)
		OK(cuGraphLaunch(graph_of(ns), NULL));
	else {
		CHECK(strcmp(form, "graph_ptsz") == 0);
		OK(cuGraphLaunch_ptsz(graph_of(ns), NULL));
	}
}

/*
 * Two launches, of the form that is named: the second has to wait for what the first owes, which
 * is for ever here.
 */
static void owe_and_pass(const char *form)
{
	client_pause("first");
	launch_as(is_of_once(form) ? "kernel" : form, 100 * MSEC);
	OK(cuCtxSynchronize());
	client_pause("owes");
	if (!launch_as_once(form))
		launch_as(form, 20 * USEC);
	OK(cuCtxSynchronize());
	client_pause("passed");
}

/* More contexts than are kept at a time: each is used and ended again. */
enum { CONTEXTS = 80 };

static void use_current(void)
{
	CUfunction function = spin;

	start_in_current();
	launch(NULL, 20 * USEC);
	OK(cuCtxSynchronize());
	spin = function;
}

static void wear_detached(void)
{
	for (int i = 0; i < CONTEXTS; i++) {
		CUcontext own;

		OK(cuCtxCreate_v2(&own, 0, 0));
		use_current();
		OK(cuCtxDetach(own));
	}
}

static void wear_green(void)
{
	CUdevResourceDesc desc;
	CUdevResource all;

	OK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
	OK(cuDevResourceGenerateDesc(&desc, &all, 1));
	for (int i = 0; i < CONTEXTS; i++) {
		CUgreenCtx green;
		CUcontext own;

		OK(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
		OK(cuCtxFromGreenCtx(&own, green));
		OK(cuCtxSetCurrent(own));
		use_current();
		OK(cuCtxSetCurrent(ctx));
		OK(cuGreenCtxDestroy(green));
	}
}

/* Each is used, and all stay. */
static void wear_kept(void)
{
	for (int i = 0; i < CONTEXTS; i++) {
		CUcontext own;

		OK(cuCtxCreate_v2(&own, 0, 0));
		use_current();
	}
}

/*
 * worn detached|green|kept: as held() in another context, after many have come and gone or beside
 * many.
 */
static void worn(int argc, char **argv)
{
	start();
	if (argc > 0 && !strcmp(argv[0], "green"))
		wear_green();
	else if (argc > 0 && !strcmp(argv[0], "kept"))
		wear_kept();
	else
		wear_detached();
	if (argc > 0 && !strcmp(argv[0], "kept"))
		start_in_current();
	else
		start();
	launch(NULL, 20 * USEC);
	OK(cuCtxSynchronize());
	owe_and_pass("kernel");
}

static void held(int argc, char **argv)
{
	start();
	launch(NULL, 20 * USEC);
	OK(cuCtxSynchronize());
	owe_and_pass(argc > 0 ? argv[0] : "kernel");
}

/*
 * elsewhere DEVICE: as held(), with a library's kernel that goes into a stream of another context,
 * which is never current.
 */
static void elsewhere(int argc, char **argv)
{
	CUcontext there, popped;
	CUlibrary library;
	CUstream stream;
	CUkernel kernel;

	CHECK(argc == 1);
	OK(cuInit(0));
	OK(cuCtxCreate_v2(&there, 0, atoi(argv[0])));
	stream = new_stream();
	OK(cuCtxPopCurrent_v2(&popped));
	start();
	OK(cuLibraryLoadData(&library, SPIN, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetKernel(&kernel, library, "spin"));
	spin = (CUfunction)(void *)kernel;
	launch(stream, 20 * USEC);
	OK(cuStreamSynchronize(stream));
	client_pause("first");
	launch(stream, 100 * MSEC);
	OK(cuStreamSynchronize(stream));
	client_pause("owes");
	launch(stream, 20 * USEC);
	OK(cuStreamSynchronize(stream));
	client_pause("passed");
}

/* More streams than are measured at a time: each is used and ended again. */
enum { STREAMS = 300 };

/*
 * wear [left|captured]: as held() in a new stream, after many. What is owed for is in one that is
 * ended with it under way, with `left`; while it is captured besides, with `captured`.
 */
static void wear(int argc, char **argv)
{
	CUstream streams[STREAMS], last, next;

	start();
	for (int i = 0; i < STREAMS; i++)
		streams[i] = new_stream();
	/* While they live, so that it has another handle than each of them. */
	last = new_stream();
	next = new_stream();
	for (int i = 0; i < STREAMS; i++)
		launch(streams[i], 20 * USEC);
	OK(cuCtxSynchronize());
	for (int i = 0; i < STREAMS; i++)
		OK(cuStreamDestroy_v2(streams[i]));
	client_pause("first");
	launch(last, 100 * MSEC);
	if (argc > 0 && !strcmp(argv[0], "captured"))
		OK(cuStreamBeginCapture_v2(last, CU_STREAM_CAPTURE_MODE_RELAXED));
	if (argc > 0 && strcmp(argv[0], "waited"))
		OK(cuStreamDestroy_v2(last));
	OK(cuCtxSynchronize());
	client_pause("owes");
	launch(next, 20 * USEC);
	OK(cuCtxSynchronize());
	client_pause("passed");
}

/* The same in a child that was made before the driver was started. */
static void forked(int argc, char **argv)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
		held(argc, argv);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

/* All forms of work, on all kinds of streams. */
static void forms(int argc, char **argv)
{
	CUstream streams[] = { NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, NULL };
	unsigned long long ns = 10 * USEC;
	void *params[] = { &ns };
	CUdeviceptr a, b;
	CUevent event;

	(void)argc;
	(void)argv;
	start();
	streams[3] = new_stream();
	OK(cuMemAlloc_v2(&a, MIB));
	OK(cuMemAlloc_v2(&b, MIB));
	OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
	for (int round = 0; round < 50; round++)
		for (int i = 0; i < 4; i++) {
			CUlaunchConfig config = { .gridDimX = 1,
						  .gridDimY = 1,
						  .gridDimZ = 1,
						  .blockDimX = 1,
						  .blockDimY = 1,
						  .blockDimZ = 1,
						  .hStream = streams[i] };

			launch(streams[i], ns);
			OK(cuLaunchKernel_ptsz(spin, 1, 1, 1, 1, 1, 1, 0, streams[i], params,
					       NULL));
			OK(cuLaunchKernelEx(&config, spin, params, NULL));
			OK(cuMemsetD8Async(a, 1, MIB, streams[i]));
			OK(cuMemcpyDtoDAsync_v2(b, a, MIB, streams[i]));
			OK(cuEventRecord(event, streams[i]));
			while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
				;
			OK(cuStreamSynchronize(streams[i]));
			OK(cuStreamQuery(streams[i]));
		}
	/* What the driver refuses is refused, and costs nothing. */
	IS(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL),
	   CUDA_ERROR_INVALID_HANDLE);
	IS(cuLaunchKernelEx(NULL, spin, params, NULL), CUDA_ERROR_INVALID_VALUE);
	OK(cuCtxSynchronize());
}

static void *launch_meanwhile(void *arg)
{
	CUstream stream;

	OK(cuCtxSetCurrent(ctx));
	stream = new_stream();
	while (!__atomic_load_n((int *)arg, __ATOMIC_ACQUIRE))
		launch(stream, 5 * USEC);
	OK(cuStreamSynchronize(stream));
	return NULL;
}

/* A capture in the strictest mode, beside a thread that launches: nothing of ours gets into it. */
static void capture(int argc, char **argv)
{
	CUstream stream;
	pthread_t other;
	int stop = 0;

	(void)argc;
	(void)argv;
	start();
	stream = new_stream();
	launch(stream, 10 * USEC);
	CHECK(pthread_create(&other, NULL, launch_meanwhile, &stop) == 0);
	for (int i = 0; i < 20; i++) {
		CUgraphExec exec;
		CUgraph graph;
		size_t nodes = 0;

		OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
		for (int k = 0; k < 30; k++)
			launch(stream, 2 * USEC);
		OK(cuStreamEndCapture(stream, &graph));
		OK(cuGraphGetNodes(graph, NULL, &nodes));
		SAME(nodes, 30);
		OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
		for (int k = 0; k < 5; k++)
			OK(cuGraphLaunch(exec, stream));
		OK(cuStreamSynchronize(stream));
		OK(cuGraphExecDestroy(exec));
		OK(cuGraphDestroy(graph));
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	CHECK(pthread_join(other, NULL) == 0);
}

/* Streams and contexts that end with work in them, and a device that is reset. */
static void ends(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	start();
	for (int i = 0; i < 200; i++) {
		CUstream stream = new_stream();

		for (int k = 0; k < 5; k++)
			launch(stream, 20 * USEC);
		OK(cuStreamDestroy_v2(stream));
	}
	for (int i = 0; i < 10; i++) {
		OK(cuDevicePrimaryCtxReset_v2(0));
		start();
		launch(NULL, 50 * USEC);
		launch(new_stream(), 50 * USEC);
	}
	OK(cuCtxSynchronize());
}

static void *short_life(void *arg)
{
	OK(cuCtxSetCurrent(ctx));
	launch((CUstream)arg, 5 * USEC);
	launch(CU_STREAM_PER_THREAD, 5 * USEC);
	return NULL;
}

/*
 * More threads than a stream has places for, one after the other and several at once; and
 * children.
 */
static void threads(int argc, char **argv)
{
	CUstream stream;
	pthread_t ids[12];
	int status;

	(void)argc;
	(void)argv;
	start();
	stream = new_stream();
	for (int round = 0; round < 10; round++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(cuCtxSynchronize() == CUDA_SUCCESS);
		for (int i = 0; i < 12; i++)
			CHECK(pthread_create(&ids[i], NULL, short_life, stream) == 0);
		for (int i = 0; i < 12; i++)
			CHECK(pthread_join(ids[i], NULL) == 0);
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	}
	OK(cuCtxSynchronize());
}

static void sleep_a_second(void *unused)
{
	struct timespec second = { .tv_sec = 1 };

	(void)unused;
	nanosleep(&second, NULL);
}

static void sleep_in_callback(CUstream stream, CUresult status, void *unused)
{
	(void)stream;
	(void)status;
	sleep_a_second(unused);
}

/* A launch behind something that takes a second; counted, it would be owed for a hundred at 1 %. */
static void launch_behind(CUstream stream, const char *what)
{
	launch(stream, 20 * USEC);
	OK(cuStreamSynchronize(stream));
	launch(stream, 20 * USEC);
	OK(cuStreamSynchronize(stream));
	client_say(what, 1);
}

/* What a stream waits for is not the device's time. Two devices. */
static void waits(int argc, char **argv)
{
	CUstream stream, other, far;
	CUcontext far_ctx;
	CUdeviceptr word;
	CUevent event;

	(void)argc;
	(void)argv;
	start();
	stream = new_stream();
	other = new_stream();
	OK(cuMemAlloc_v2(&word, 4));
	launch(stream, 20 * USEC);
	OK(cuStreamSynchronize(stream));

	OK(cuLaunchHostFunc(stream, sleep_a_second, NULL));
	launch_behind(stream, "function");
	OK(cuStreamAddCallback(stream, sleep_in_callback, NULL, 0));
	launch_behind(stream, "callback");

	OK(cuStreamWriteValue32_v2(other, word, 0, 0));
	OK(cuStreamSynchronize(other));
	OK(cuStreamWaitValue32_v2(stream, word, 1, CU_STREAM_WAIT_VALUE_EQ));
	launch(stream, 20 * USEC);
	sleep_a_second(NULL);
	OK(cuStreamWriteValue32_v2(other, word, 1, 0));
	launch_behind(stream, "value");

	OK(cuDevicePrimaryCtxRetain(&far_ctx, 1));
	OK(cuCtxSetCurrent(far_ctx));
	far = new_stream();
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	OK(cuLaunchHostFunc(far, sleep_a_second, NULL));
	OK(cuEventRecord(event, far));
	OK(cuCtxSetCurrent(ctx));
	OK(cuStreamWaitEvent(stream, event, 0));
	launch_behind(stream, "event");
}

enum { FAR_LAUNCHES = 200 };

static CUcontext contexts[2];
static CUfunction spins[2];

/* Launches that take both devices at once, in an order of the thread's own. */
static void *launch_on_both(void *arg)
{
	unsigned long long ns = 20 * USEC;
	void *params[] = { &ns };
	CUDA_LAUNCH_PARAMS launches[2];

	for (int i = 0; i < 2; i++) {
		int at = arg ? 1 - i : i;

		OK(cuCtxSetCurrent(contexts[at]));
		launches[i] = one_thread(spins[at], params);
	}
	for (int i = 0; i < FAR_LAUNCHES; i++) {
		OK(cuLaunchCooperativeKernelMultiDevice(launches, 2, 0));
		/* What the driver refuses has taken nothing. */
		IS(cuLaunchCooperativeKernelMultiDevice(launches, 2, 4), CUDA_ERROR_INVALID_VALUE);
	}
	for (int i = 0; i < 2; i++)
		OK(cuStreamSynchronize(launches[i].hStream));
	return NULL;
}

/*
 * Two threads that each want both devices, one after the other, each while the other has one:
 * nobody waits for ever. Beside them work on one device, and captures, which shut the gate for a
 * moment.
 */
static void both(int argc, char **argv)
{
	CUmodule module;
	pthread_t threads[3];
	int stop = 0;

	(void)argc;
	(void)argv;
	start();
	contexts[0] = ctx;
	spins[0] = spin;
	OK(cuDevicePrimaryCtxRetain(&contexts[1], 1));
	OK(cuCtxSetCurrent(contexts[1]));
	OK(cuModuleLoadData(&module, SPIN));
	OK(cuModuleGetFunction(&spins[1], module, "spin"));
	OK(cuCtxSetCurrent(ctx));
	for (int i = 0; i < 2; i++)
		CHECK(pthread_create(&threads[i], NULL, launch_on_both, i ? &stop : NULL) == 0);
	CHECK(pthread_create(&threads[2], NULL, launch_meanwhile, &stop) == 0);
	for (int i = 0; i < 20; i++) {
		CUstream stream = new_stream();
		CUgraph graph;

		OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
		launch(stream, 2 * USEC);
		OK(cuStreamEndCapture(stream, &graph));
		OK(cuGraphDestroy(graph));
		OK(cuStreamDestroy_v2(stream));
	}
	for (int i = 0; i < 2; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	CHECK(pthread_join(threads[2], NULL) == 0);
}

/* Launches until standard input says so. */
static void busy(int argc, char **argv)
{
	unsigned long long ns = argc > 0 ? strtoull(argv[0], NULL, 10) : 100 * USEC;

	start();
	launch(NULL, ns);
	OK(cuCtxSynchronize());
	client_say("launched", 1);
	for (int i = 0; i < 200; i++)
		launch(NULL, ns);
	OK(cuCtxSynchronize());
	client_pause("done");
}

int main(int argc, char **argv)
{
	static const struct client_case cases[] = {
		{ "held", held },
		{ "worn", worn },
		{ "elsewhere", elsewhere },
		{ "forked", forked },
		{ "forms", forms },
		{ "capture", capture },
		{ "ends", ends },
		{ "threads", threads },
		{ "waits", waits },
		{ "both", both },
		{ "busy", busy },
		{ "wear", wear },
		{ 0 },
	};

	return client_main(argc, argv, cases);
}
