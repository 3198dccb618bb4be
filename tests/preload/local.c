/* Local memory: a context's area grows at launches that need more than it has. */
#include "client.h"

#include <pthread.h>
#include <sys/wait.h>

/* Images whose kernels need so many bytes for each thread, as the software GPU reads it. */
#define KERNEL(name, params, bytes)                                                            \
	".visible .entry " name "(" params ")\n{\n\t.local .align 8 .b8 depot_" name "[" bytes \
	"];\n\tret;\n}\n"
#define LARGE ".global .align 8 .b8 large[268435456];\n"
#define IMAGE(empty, spin)                                                           \
	".version 6.0\n.target sm_50\n.address_size 64\n" KERNEL("empty", "", empty) \
		KERNEL("spin", ".param .u64 ns", spin)

static const char image[] = IMAGE("8192", "4096");
static const char small[] = IMAGE("64", "8");

/* With a variable that takes more than the limit leaves. */
static const char large_library[] = IMAGE("64", "8") LARGE;

/* Of the software GPU's 16 multiprocessors. */
#define AREA_BYTES(thread) (((uint64_t)(thread)-1024) * 2048 * 16)

static CUresult launch(CUfunction func)
{
	uint64_t ns = 1000;
	void *params[] = { &ns };

	return cuLaunchKernel(func, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
}

static CUfunction function(const char *text, const char *name)
{
	CUmodule module;
	CUfunction func;

	OK(cuModuleLoadData(&module, text));
	OK(cuModuleGetFunction(&func, module, name));
	return func;
}

/* Too large for the limit: refused, nothing is launched and nothing charged; smaller ones go on. */
static void refused(int argc, char **argv)
{
	CUfunction large, medium, tiny;
	uint64_t before;

	(void)argc;
	(void)argv;
	client_start();
	large = function(image, "empty");
	medium = function(image, "spin");
	tiny = function(small, "empty");
	OK(launch(tiny));
	before = client_charged(0);
	IS(launch(large), CUDA_ERROR_OUT_OF_MEMORY);
	IS(launch(large), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuCtxSynchronize());
	CHECK(client_charged(0) <= before + BLOCK_BYTES);
	client_pause("refused");
	OK(launch(medium));
	OK(cuCtxSynchronize());
	client_pause("medium");
	IS(launch(large), CUDA_ERROR_OUT_OF_MEMORY);
	OK(launch(medium));
	OK(launch(tiny));
}

/* The most counts, not the sum. */
static void most(int argc, char **argv)
{
	CUfunction large, medium, tiny;
	uint64_t start, charged;
	CUcontext ctx;

	(void)argc;
	(void)argv;
	OK(cuInit(0));
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	large = function(image, "empty");
	medium = function(image, "spin");
	tiny = function(small, "empty");
	OK(launch(tiny));
	OK(launch(medium));
	start = client_charged(0);
	OK(launch(tiny));
	OK(launch(medium));
	CHARGED_IS(0, start);
	OK(launch(large));
	charged = client_charged(0);
	CHECK(charged >= start + AREA_BYTES(8192) - AREA_BYTES(4096));
	CHECK(charged <= start + AREA_BYTES(8192) - AREA_BYTES(4096) + 2 * BLOCK_BYTES);
	OK(launch(medium));
	OK(launch(large));
	CHARGED_IS(0, charged);
	client_pause("large");
	OK(cuCtxDestroy_v2(ctx));
	CHARGED_IS(0, 0);
}

/* A launch that is too large for the limit and one that fits, by every form. */
static CUresult launch_as(const char *form, CUfunction func)
{
	CUlaunchConfig config = { .gridDimX = 1,
				  .gridDimY = 1,
				  .gridDimZ = 1,
				  .blockDimX = 1,
				  .blockDimY = 1,
				  .blockDimZ = 1 };
	uint64_t ns = 1000;
	void *params[] = { &ns };

	if (!strcmp(form, "plain"))
		return launch(func);
	if (!strcmp(form, "thread"))
		return cuLaunchKernel_ptsz(func, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
	if (!strcmp(form, "extended"))
		return cuLaunchKernelEx(&config, func, params, NULL);
	return cuLaunchCooperativeKernel(func, 1, 1, 1, 1, 1, 1, 0, NULL, params);
}

static CUfunction kernel(const char *name)
{
	CUlibrary library;
	CUkernel found;

	OK(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetKernel(&found, library, name));
	return (CUfunction)(void *)found;
}

static CUfunction kernel_function(const char *name)
{
	CUfunction func;

	OK(cuKernelGetFunction(&func, (CUkernel)(void *)kernel(name)));
	return func;
}

static CUfunction listed(const char *name)
{
	CUfunction functions[64];
	unsigned int count = 0;
	const char *found;
	CUmodule module;

	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunctionCount(&count, module));
	CHECK(count > 0 && count <= 64);
	OK(cuModuleEnumerateFunctions(functions, count, module));
	for (unsigned int i = 0; i < count; i++) {
		OK(cuFuncGetName(&found, functions[i]));
		if (!strcmp(found, name))
			return functions[i];
	}
	CHECK(false);
	return NULL;
}

static void forms(int argc, char **argv)
{
	CUfunction large, medium;

	CHECK(argc == 2);
	client_start();
	if (!strcmp(argv[1], "kernel")) {
		large = kernel("empty");
		medium = kernel("spin");
	} else if (!strcmp(argv[1], "function")) {
		large = kernel_function("empty");
		medium = kernel_function("spin");
	} else {
		large = listed("empty");
		medium = listed("spin");
	}
	IS(launch_as(argv[0], large), CUDA_ERROR_OUT_OF_MEMORY);
	OK(launch_as(argv[0], medium));
	IS(launch_as(argv[0], large), CUDA_ERROR_OUT_OF_MEMORY);
	client_pause("medium");
}

/* A kernel is launched for the first time in each context. */
static void contexts(int argc, char **argv)
{
	CUcontext first, second;
	uint64_t with_one;
	CUfunction medium;

	(void)argc;
	(void)argv;
	OK(cuInit(0));
	OK(cuCtxCreate_v2(&first, 0, 0));
	medium = kernel("spin");
	OK(launch(medium));
	OK(launch(medium));
	with_one = client_charged(0);
	OK(cuCtxCreate_v2(&second, 0, 0));
	IS(launch(medium), CUDA_ERROR_OUT_OF_MEMORY);
	client_pause("one");
	OK(cuCtxDestroy_v2(first));
	/* The library came to the second before the launch was refused. */
	SAME(client_charged(0), with_one - AREA_BYTES(4096));
	OK(launch(medium));
	client_pause("other");
}

static CUcontext shared;
static CUfunction shared_function;
static pthread_barrier_t barrier;

static void *launch_first(void *arg)
{
	(void)arg;
	OK(cuCtxSetCurrent(shared));
	pthread_barrier_wait(&barrier);
	OK(launch(shared_function));
	return NULL;
}

/* Two at once need one area. */
static void together(int argc, char **argv)
{
	pthread_t threads[4];

	(void)argc;
	(void)argv;
	shared = client_start();
	shared_function = function(image, "spin");
	pthread_barrier_init(&barrier, NULL, 4);
	for (int i = 0; i < 4; i++)
		CHECK(pthread_create(&threads[i], NULL, launch_first, NULL) == 0);
	for (int i = 0; i < 4; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	OK(cuCtxSynchronize());
	client_pause("launched");
}

/* What the driver refuses is given back. */
static void failed(int argc, char **argv)
{
	CUfunction medium, tiny;
	uint64_t before;

	(void)argc;
	(void)argv;
	client_start();
	medium = function(image, "spin");
	tiny = function(small, "empty");
	OK(launch(tiny));
	OK(cuLaunchKernel(tiny, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	before = client_charged(0);
	IS(launch(medium), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
	CHECK(client_charged(0) <= before + BLOCK_BYTES);
	OK(launch(medium));
	CHECK(client_charged(0) >= before + AREA_BYTES(4096));
}

/* The stack's limit sets the area. */
static void stack(int argc, char **argv)
{
	CUfunction medium;
	uint64_t start, charged;

	(void)argc;
	(void)argv;
	client_start();
	medium = function(image, "spin");
	OK(launch(function(small, "empty")));
	/* Which looks at the card. */
	OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
	start = client_charged(0);
	IS(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 8192), CUDA_ERROR_OUT_OF_MEMORY);
	CHARGED_IS(0, start);
	OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
	charged = client_charged(0);
	SAME(charged, start + AREA_BYTES(4096));
	OK(launch(medium));
	CHECK(client_charged(0) <= charged + BLOCK_BYTES);
	/* It is launched for the first time again. */
	OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
	CHECK(client_charged(0) <= start + BLOCK_BYTES);
	client_pause("shrunk");
	OK(launch(medium));
	CHECK(client_charged(0) >= start + AREA_BYTES(4096));
	client_pause("grown");
}

/* repeated: what was launched again and again is looked at anew when its area was given back. */
static void repeated(int argc, char **argv)
{
	CUfunction medium, tiny;
	CUdeviceptr addr;

	(void)argc;
	(void)argv;
	client_start();
	medium = function(image, "spin");
	tiny = function(small, "spin");
	OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
	for (int i = 0; i < 3000; i++) {
		OK(launch(medium));
		OK(launch(tiny));
	}
	OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
	while (cuMemAlloc_v2(&addr, BLOCK_BYTES) == CUDA_SUCCESS)
		;
	for (int i = 0; i < 100; i++)
		OK(launch(tiny));
	IS(launch(medium), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(client_charged(0) <= client_limit(0));
	client_pause("refused");
}

static CUgraph capture(CUfunction func)
{
	uint64_t ns = 1000;
	void *params[] = { &ns };
	CUstream stream;
	CUgraph graph;

	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cuLaunchKernel(func, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
	OK(cuStreamEndCapture(stream, &graph));
	return graph;
}

static CUgraph made(CUfunction func)
{
	CUDA_KERNEL_NODE_PARAMS params = client_kernel(func, NULL, NULL);
	uint64_t ns = 1000;
	CUgraphNode node;
	CUgraph graph;

	params.kernelParams = (void *[]){ &ns };
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &params));
	return graph;
}

/* The kernels of a graph, by capture or by nodes. */
static void graph(int argc, char **argv)
{
	CUgraph (*graph_of)(CUfunction) = made;
	CUgraphExec exec;
	uint64_t start;

	CHECK(argc == 1);
	client_start();
	/* Captured, what fits the limit alone is reserved for a moment. */
	if (!strcmp(argv[0], "captured"))
		graph_of = capture;
	else
		IS(cuGraphInstantiateWithFlags(&exec, made(function(image, "empty")), 0),
		   CUDA_ERROR_OUT_OF_MEMORY);
	OK(launch(function(small, "empty")));
	start = client_charged(0);
	OK(cuGraphInstantiateWithFlags(&exec, graph_of(function(image, "spin")), 0));
	CHECK(client_charged(0) >= start + AREA_BYTES(4096));
	client_pause("instantiated");
	OK(cuGraphLaunch(exec, NULL));
	OK(cuGraphLaunch(exec, NULL));
	OK(cuCtxSynchronize());
	client_pause("launched");
	OK(cuGraphExecDestroy(exec));
}

/* An executable graph of a kernel that needs nothing. */
static CUgraphExec tiny_graph(CUgraphNode *out_node)
{
	CUgraph graph = made(function(small, "empty"));
	size_t count = 1;
	CUgraphExec exec;

	OK(cuGraphGetNodes(graph, out_node, &count));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, NULL));
	return exec;
}

/* Brings a kernel to it, by one of the ways there are. */
static CUresult bring(const char *how, CUgraphExec exec, CUgraphNode node, CUfunction func)
{
	uint64_t ns = 1000;
	void *kernel_params[] = { &ns };
	CUgraphExecUpdateResultInfo info;
	CUgraphExecUpdateResult result;
	CUDA_KERNEL_NODE_PARAMS params;
	CUgraphNode at;
	CUgraph graph;
	CUresult res;

	OK(cuGraphKernelNodeGetParams_v2(node, &params));
	params.func = func;
	params.kernelParams = kernel_params;
	if (!strcmp(how, "node"))
		return cuGraphExecKernelNodeSetParams_v2(exec, node, &params);
	if (!strcmp(how, "node-v1"))
		return cuGraphExecKernelNodeSetParams(exec, node, (void *)&params);
	graph = made(function(small, "empty"));
	OK(cuGraphGetNodes(graph, &at, &(size_t){ 1 }));
	/* A library comes with this already. */
	res = cuGraphKernelNodeSetParams_v2(at, &params);
	if (res != CUDA_SUCCESS)
		return res;
	return !strcmp(how, "update") ? cuGraphExecUpdate_v2(exec, graph, &info) :
					cuGraphExecUpdate(exec, graph, &at, &result);
}

/* An executable graph that is given kernels which need more. */
static void updated(int argc, char **argv)
{
	CUgraphNode node;
	CUgraphExec exec;
	uint64_t start;

	CHECK(argc == 1);
	client_start();
	exec = tiny_graph(&node);
	IS(bring(argv[0], exec, node, function(image, "empty")), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuGraphLaunch(exec, NULL));
	OK(cuCtxSynchronize());
	client_pause("refused");
	start = client_charged(0);
	OK(bring(argv[0], exec, node, function(image, "spin")));
	CHECK(client_charged(0) >= start + AREA_BYTES(4096));
	OK(cuGraphLaunch(exec, NULL));
	OK(cuCtxSynchronize());
	client_pause("launched");
}

/* A kernel whose library is to come to the context with it and has no room there. */
static void let_in(int argc, char **argv)
{
	CUlibrary library;
	CUgraphNode node;
	CUgraphExec exec;
	CUkernel kernel;

	CHECK(argc == 1);
	client_start();
	exec = tiny_graph(&node);
	OK(cuLibraryLoadData(&library, large_library, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetKernel(&kernel, library, "empty"));
	IS(bring(argv[0], exec, node, (CUfunction)kernel), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuGraphLaunch(exec, NULL));
	OK(cuCtxSynchronize());
	client_pause("refused");
}

/* less HOW: a graph that needs less than it did lets the area grow by less. */
static void less(int argc, char **argv)
{
	CUfunction medium = (client_start(), function(image, "spin"));
	CUgraph graph = made(medium);
	CUgraphNode node;
	CUgraphExec exec;
	CUdeviceptr addr;
	CUresult res;

	CHECK(argc == 1);
	OK(cuGraphGetNodes(graph, &node, &(size_t){ 1 }));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(bring(argv[0], exec, node, function(small, "empty")));
	OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
	OK(cuGraphLaunch(exec, NULL));
	OK(cuCtxSynchronize());
	while (cuMemAlloc_v2(&addr, BLOCK_BYTES) == CUDA_SUCCESS)
		;
	res = launch(medium);
	CHECK(res == CUDA_SUCCESS || res == CUDA_ERROR_OUT_OF_MEMORY);
	client_pause("launched");
}

/* refused-change: what the driver refused to change needs what it did. */
static void refused_change(int argc, char **argv)
{
	CUgraphNode node;
	CUgraphExec exec;
	CUfunction medium;
	CUdeviceptr addr;

	(void)argc;
	(void)argv;
	client_start();
	exec = tiny_graph(&node);
	medium = function(image, "spin");
	IS(bring("node", exec, node, medium), CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphLaunch(exec, NULL));
	OK(cuCtxSynchronize());
	while (cuMemAlloc_v2(&addr, BLOCK_BYTES) == CUDA_SUCCESS)
		;
	IS(launch(medium), CUDA_ERROR_OUT_OF_MEMORY);
	client_pause("refused");
}

/* The graph goes into the stream of another context, in the way that `how` names. */
static CUresult pass(const char *how, CUgraph of, CUgraphExec exec, CUstream stream)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS params = { .flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD,
						 .hUploadStream = stream };

	if (!strcmp(how, "upload"))
		return cuGraphUpload(exec, stream);
	if (!strcmp(how, "launch"))
		return cuGraphLaunch(exec, stream);
	return cuGraphInstantiateWithParams(&exec, of, &params);
}

enum { STREAMS = 4 };

/* streams HOW HANDLE: one graph goes into the streams of other contexts than its own. */
static void streams(int argc, char **argv)
{
	CUcontext ctx, popped;
	CUstream stream[STREAMS];
	CUgraphExec exec;
	CUdeviceptr addr;
	CUgraph of;

	CHECK(argc == 2);
	client_start();
	for (int i = 0; i < STREAMS; i++) {
		OK(cuCtxCreate_v2(&ctx, 0, 0));
		OK(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
		OK(cuCtxPopCurrent_v2(&popped));
	}
	of = made(!strcmp(argv[1], "kernel") ? kernel("spin") : function(image, "spin"));
	OK(cuGraphInstantiateWithFlags(&exec, of, 0));
	OK(cuGraphLaunch(exec, NULL));
	OK(cuCtxSynchronize());
	while (cuMemAlloc_v2(&addr, BLOCK_BYTES) == CUDA_SUCCESS)
		;
	for (int i = 0; i < 2 * STREAMS; i++)
		IS(pass(argv[0], of, exec, stream[i / 2]), CUDA_ERROR_OUT_OF_MEMORY);
	client_pause("passed");
}

/* mixed: of a graph's nodes, the one that needs less is of another context. */
static void mixed(int argc, char **argv)
{
	CUDA_KERNEL_NODE_PARAMS params = client_kernel(NULL, NULL, NULL);
	uint64_t ns = 1000;
	CUcontext there, here;
	CUgraphExec exec;
	CUdeviceptr addr;
	CUgraphNode node;
	CUgraph graph;

	(void)argc;
	(void)argv;
	here = client_start();
	graph = made(kernel("empty"));
	OK(cuCtxCreate_v2(&there, 0, 0));
	params.kern = (CUkernel)(void *)kernel("spin");
	params.ctx = there;
	params.kernelParams = (void *[]){ &ns };
	OK(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &params));
	OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
	OK(cuCtxSetCurrent(here));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (int i = 0; i < 2; i++) {
		OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
		if (i == 0)
			OK(cuGraphLaunch(exec, NULL));
		OK(cuCtxSynchronize());
	}
	while (cuMemAlloc_v2(&addr, BLOCK_BYTES) == CUDA_SUCCESS)
		;
	IS(cuGraphLaunch(exec, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	client_pause("refused");
	OK(cuCtxDestroy_v2(there));
	OK(cuGraphLaunch(exec, NULL));
}

/* Not unloaded: its functions are launched for the first time as before. */
static void stays(int argc, char **argv)
{
	bool is_library = argc > 0 && !strcmp(argv[0], "library");
	CUfunction large, medium;
	CUlibrary library;
	CUmodule module;

	client_start();
	if (is_library) {
		OK(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
		OK(cuLibraryGetKernel((CUkernel *)&large, library, "empty"));
		OK(cuLibraryGetKernel((CUkernel *)&medium, library, "spin"));
		IS(cuLibraryUnload(library), CUDA_ERROR_UNKNOWN);
	} else {
		OK(cuModuleLoadData(&module, image));
		OK(cuModuleGetFunction(&large, module, "empty"));
		OK(cuModuleGetFunction(&medium, module, "spin"));
		IS(cuModuleUnload(module), CUDA_ERROR_UNKNOWN);
	}
	IS(launch(large), CUDA_ERROR_OUT_OF_MEMORY);
	OK(launch(medium));
	OK(cuCtxSynchronize());
	client_pause("medium");
}

/* A child begins with nothing of it. */
static void forked(int argc, char **argv)
{
	CUfunction medium;
	int status;
	pid_t pid;

	(void)argc;
	(void)argv;
	medium = (client_start(), function(image, "spin"));
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		_exit(launch(medium) == CUDA_SUCCESS);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	OK(launch(medium));
	client_pause("launched");
}

static const struct client_case cases[] = {
	{ "refused", refused },   { "most", most },         { "forms", forms },
	{ "contexts", contexts }, { "together", together }, { "failed", failed },
	{ "stack", stack },       { "repeated", repeated }, { "graph", graph },
	{ "less", less },         { "mixed", mixed },       { "refused-change", refused_change },
	{ "streams", streams },   { "updated", updated },   { "forked", forked },
	{ "let-in", let_in },     { "stays", stays },       { NULL, NULL },
};

int main(int argc, char **argv)
{
	return client_main(argc, argv, cases);
}
