/*
 * Modules that are no text: what they take of the device is reserved before they are loaded.
 */
#include "client_take.h"

#include <pthread.h>

#include "../unit/image_build.h"

/* Machine code with variables of so many bytes and code of others. */
static struct image_build elf_of(uint64_t variable_bytes, uint64_t code_bytes)
{
	const struct image_section sections[] = { { ".text.k", code_bytes, 0 },
						  { ".nv.global", variable_bytes, 1 } };

	return image_build_elf(sections, 2);
}

/* As that in a fat binary, beside other architectures' that are larger. */
static struct image_build fatbin_of(const struct image_build *elf, uint64_t flags)
{
	struct image_build b = image_build_fatbin(), other = elf_of(UINT64_C(1) << 40, 1000);
	struct image_build packed = flags == IMAGE_ZSTD ? image_build_zstd(elf->at, elf->bytes) :
							  image_build_lz4(elf->at, elf->bytes);

	image_build_member(&b, IMAGE_ELF, 70, &other, 0, 0);
	image_build_member(&b, IMAGE_ELF, 90, flags ? &packed : elf, flags ? elf->bytes : 0, flags);
	free(other.at);
	free(packed.at);
	return b;
}

static const char *write_file(const struct image_build *b)
{
	static char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s.image", getenv("RATION_REGION"));
	f = fopen(path, "w");
	CHECK(f && fwrite(b->at, 1, b->bytes, f) == b->bytes && fclose(f) == 0);
	return path;
}

/* Loads it as a library that comes to the context. */
static CUresult bring_library(const char *how, const struct image_build *b)
{
	CUlibraryOption preserved = CU_LIBRARY_BINARY_IS_PRESERVED;
	void *yes = (void *)1, *no = NULL;
	CUlibrary library;
	CUmodule module;
	CUresult res;

	if (strstr(how, "library-file"))
		res = cuLibraryLoadFromFile(&library, write_file(b), NULL, NULL, 0, NULL, NULL, 0);
	else if (strstr(how, "library-preserved"))
		res = cuLibraryLoadData(&library, b->at, NULL, NULL, 0, &preserved, &yes, 1);
	else if (strstr(how, "library-copied"))
		res = cuLibraryLoadData(&library, b->at, NULL, NULL, 0, &preserved, &no, 1);
	else
		res = cuLibraryLoadData(&library, b->at, NULL, NULL, 0, NULL, NULL, 0);
	if (strstr(how, "library-copied"))
		memset(b->at, 0, b->bytes);
	return res == CUDA_SUCCESS ? cuLibraryGetModule(&module, library) : res;
}

/* Brings what takes so many bytes to the context, in the form and by the call that `how` names. */
static CUresult bring(const char *how, uint64_t variable_bytes, uint64_t code_bytes)
{
	struct image_build elf = elf_of(variable_bytes, code_bytes), b = elf;
	CUmodule module;
	CUresult res;

	if (strstr(how, "fatbin"))
		b = fatbin_of(&elf, strstr(how, "packed") ? IMAGE_PACKED :
				    strstr(how, "zstd")   ? IMAGE_ZSTD :
							    0);
	if (strstr(how, "library"))
		res = bring_library(how, &b);
	else if (strstr(how, "file"))
		res = cuModuleLoad(&module, write_file(&b));
	else
		res = cuModuleLoadData(&module, b.at);
	if (b.at != elf.at)
		free(b.at);
	free(elf.at);
	return res;
}

/* load HOW: one that fits, then one that does not, by its variables or its code. */
static void load(int argc, char **argv)
{
	uint64_t start;

	CHECK(argc == 1);
	client_start();
	OK(bring(argv[0], 12 * MIB, 100));
	start = client_charged(0);
	CHECK(start >= CLIENT_CONTEXT_BYTES + 12 * MIB);
	IS(bring(argv[0], 256 * MIB, 100), CUDA_ERROR_OUT_OF_MEMORY);
	if (getenv("CUDA_MODULE_LOADING"))
		IS(bring(argv[0], 0, 22 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	SAME(client_charged(0), start);
	OK(bring(argv[0], 1, 1));
	client_pause("loaded");
}

enum { LAZY_MODULES = 24 };

/* What is used: a module of no variables. */
struct lazy {
	CUmodule module;
	CUlibrary its; /* NULL: the program loaded it */
};

static CUfunction listed(CUmodule module)
{
	CUfunction functions[64];
	unsigned count;
	const char *name;

	OK(cuModuleGetFunctionCount(&count, module));
	CHECK(count <= 64);
	OK(cuModuleEnumerateFunctions(functions, count, module));
	for (unsigned i = 0; i < count; i++) {
		OK(cuFuncGetName(&name, functions[i]));
		if (strcmp(name, "empty") == 0)
			return functions[i];
	}
	CHECK(!"there is one");
	return NULL;
}

static CUresult instantiate(CUfunction function)
{
	CUDA_KERNEL_NODE_PARAMS params = client_kernel(function, NULL, NULL);
	CUgraphExec exec;
	CUgraphNode node;
	CUgraph graph;
	CUresult res;

	OK(cuGraphCreate(&graph, 0));
	res = cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &params);
	return res == CUDA_SUCCESS ? cuGraphInstantiateWithFlags(&exec, graph, 0) : res;
}

/* The first use of its code, in the way that `how` names. */
static CUresult use(const char *how, const struct lazy *lazy)
{
	CUfunction function;
	CUkernel kernel;
	int value;

	if (!strcmp(how, "get") || !strcmp(how, "library-get"))
		return cuModuleGetFunction(&function, lazy->module, "empty");
	if (!strcmp(how, "library-kernel") || !strcmp(how, "library-launch")) {
		OK(cuLibraryGetKernel(&kernel, lazy->its, "empty"));
		function = (CUfunction)(void *)kernel;
		return strstr(how, "kernel") ?
			       cuKernelGetFunction(&function, kernel) :
			       cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	}
	function = listed(lazy->module);
	if (!strcmp(how, "launch"))
		return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	if (!strcmp(how, "load"))
		return cuFuncLoad(function);
	if (!strcmp(how, "ask"))
		return cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, function);
	if (!strcmp(how, "set"))
		return cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
					  1024);
	if (!strcmp(how, "occupancy"))
		return cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, function, 32, 0);
	CHECK(!strcmp(how, "graph"));
	return instantiate(function);
}

static struct lazy make_lazy(const char *how, uint64_t code_bytes)
{
	struct image_build elf = elf_of(0, code_bytes);
	struct lazy lazy = { 0 };

	if (strstr(how, "library")) {
		OK(cuLibraryLoadData(&lazy.its, elf.at, NULL, NULL, 0, NULL, NULL, 0));
		OK(cuLibraryGetModule(&lazy.module, lazy.its));
	} else {
		OK(cuModuleLoadData(&lazy.module, elf.at));
	}
	free(elf.at);
	return lazy;
}

static void fill(void)
{
	CUdeviceptr addr;

	while (cuMemAlloc_v2(&addr, BLOCK_BYTES) == CUDA_SUCCESS)
		;
}

/*
 * lazy HOW ROOM: modules are loaded, the limit is filled, then the code of each is used. The first
 * ROOM are let in, and can be used again; the others are when those are gone.
 */
static void lazy(int argc, char **argv)
{
	struct lazy lazy[LAZY_MODULES];
	int in = 0, room;
	CUresult res;

	CHECK(argc == 2);
	room = atoi(argv[1]);
	client_start();
	for (int i = 0; i < LAZY_MODULES; i++)
		lazy[i] = make_lazy(argv[0], 1000);
	fill();
	for (int i = 0; i < LAZY_MODULES; i++) {
		res = use(argv[0], &lazy[i]);
		CHECK(res == CUDA_SUCCESS || res == CUDA_ERROR_OUT_OF_MEMORY);
		in += res == CUDA_SUCCESS;
		CHECK(client_charged(0) <= client_limit(0) || room == LAZY_MODULES);
	}
	SAME(in, room);
	OK(use(argv[0], &lazy[0]));
	OK(use("get", &lazy[0]));
	client_pause("used");
	for (int i = 0; i < room; i++)
		OK(lazy[i].its ? cuLibraryUnload(lazy[i].its) : cuModuleUnload(lazy[i].module));
	if (room < LAZY_MODULES)
		OK(use(argv[0], &lazy[room]));
}

/* lazy-large HOW: code that the limit has no room for is refused, and comes where it has. */
static void lazy_large(int argc, char **argv)
{
	struct lazy lazy;
	CUdeviceptr addr;

	CHECK(argc == 1);
	client_start();
	lazy = make_lazy(argv[0], 40 * MIB);
	OK(cuMemAlloc_v2(&addr, 80 * MIB));
	IS(use(argv[0], &lazy), CUDA_ERROR_OUT_OF_MEMORY);
	SAME(client_charged(0), CLIENT_CONTEXT_BYTES + 80 * MIB);
	OK(cuMemFree_v2(addr));
	OK(use(argv[0], &lazy));
	SAME(client_charged(0), CLIENT_CONTEXT_BYTES + 40 * MIB);
	OK(lazy.its ? cuLibraryUnload(lazy.its) : cuModuleUnload(lazy.module));
	SAME(client_charged(0), CLIENT_CONTEXT_BYTES);
	client_pause("used");
}

/* A library that says nothing of what it takes when that is asked: the program broke its image. */
static CUlibrary make_unread(uint64_t variable_bytes, uint64_t code_bytes, void **out_image)
{
	CUlibraryOption preserved = CU_LIBRARY_BINARY_IS_PRESERVED;
	struct image_build elf = elf_of(variable_bytes, code_bytes);
	void *yes = (void *)1;
	CUlibrary library;

	OK(cuLibraryLoadData(&library, elf.at, NULL, NULL, 0, &preserved, &yes, 1));
	memset(elf.at, 0, elf.bytes);
	*out_image = elf.at;
	return library;
}

/*
 * unread HOW: what took more than was known and passed the limit is refused each time, until there
 * is room for it.
 */
static void unread(int argc, char **argv)
{
	bool has_code = argc == 1 && strcmp(argv[0], "variables") != 0;
	struct lazy lazy = { 0 };
	CUdeviceptr addr;
	void *image;

	CHECK(argc == 1);
	client_start();
	lazy.its = make_unread(has_code ? 0 : 40 * MIB, has_code ? 40 * MIB : 0, &image);
	if (has_code)
		OK(cuLibraryGetModule(&lazy.module, lazy.its));
	OK(cuMemAlloc_v2(&addr, 80 * MIB));
	for (int i = 0; i < 3; i++) {
		IS(has_code ? use(argv[0], &lazy) : cuLibraryGetModule(&lazy.module, lazy.its),
		   CUDA_ERROR_OUT_OF_MEMORY);
		CHECK(has_code || !lazy.module);
		SAME(client_charged(0), CLIENT_CONTEXT_BYTES + 120 * MIB);
	}
	OK(cuMemFree_v2(addr));
	OK(has_code ? use(argv[0], &lazy) : cuLibraryGetModule(&lazy.module, lazy.its));
	SAME(client_charged(0), CLIENT_CONTEXT_BYTES + 40 * MIB);
	OK(cuMemAlloc_v2(&addr, 56 * MIB));
	OK(has_code ? use(argv[0], &lazy) : cuLibraryGetModule(&lazy.module, lazy.its));
	OK(cuLibraryUnload(lazy.its));
	free(image);
	SAME(client_charged(0), CLIENT_CONTEXT_BYTES + 56 * MIB);
	client_pause("used");
}

/* elsewhere: what was loaded beside another device's context takes more here. */
static void elsewhere(int argc, char **argv)
{
	struct image_build small = elf_of(4, 100), large = elf_of(300 * MIB, 100);
	struct image_build b = image_build_fatbin();
	CUcontext here, there;
	CUlibrary library;
	CUmodule module;

	(void)argc;
	(void)argv;
	image_build_member(&b, IMAGE_ELF, 80, &small, 0, 0);
	image_build_member(&b, IMAGE_ELF, 90, &large, 0, 0);
	OK(cuInit(0));
	OK(cuCtxCreate_v2(&here, 0, 0));
	OK(cuCtxCreate_v2(&there, 0, 1));
	OK(cuLibraryLoadData(&library, b.at, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuCtxSetCurrent(here));
	for (int i = 0; i < 2; i++)
		IS(cuLibraryGetModule(&module, library), CUDA_ERROR_OUT_OF_MEMORY);
	SAME(client_charged(0), CLIENT_CONTEXT_BYTES);
	free(small.at);
	free(large.at);
	free(b.at);
	client_pause("refused");
}

/* unknown ANSWER: what takes nobody knows how much is refused by a limit only. */
static void unknown(int argc, char **argv)
{
	CUmodule module;

	CHECK(argc == 1);
	client_start();
	IS(cuModuleLoadData(&module, ".version 6.0\n.target sm_50\n.global .f16x2 x[4];\n"),
	   (CUresult)atoi(argv[0]));
	client_pause("loaded");
}

/* The first use of a kernel in the context `there`, in the way that `how` names. */
static CUresult use_there(const char *how, CUkernel kernel, CUcontext there, CUstream stream)
{
	CUDA_KERNEL_NODE_PARAMS params = client_kernel(NULL, NULL, NULL);
	CUfunction function = (CUfunction)(void *)kernel;
	CUcontext popped;
	CUgraphNode node;
	CUgraph graph;
	CUresult res;

	if (!strcmp(how, "stream"))
		return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
	if (!strcmp(how, "node")) {
		params.kern = kernel;
		params.ctx = there;
		OK(cuGraphCreate(&graph, 0));
		return cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &params);
	}
	OK(cuCtxPushCurrent_v2(there));
	if (!strcmp(how, "launch"))
		res = cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	else
		res = cuKernelGetFunction(&function, kernel);
	OK(cuCtxPopCurrent_v2(&popped));
	return res;
}

/*
 * second HOW DEVICE: kernels that were launched in one context come to another one, whose device is
 * full; they are let in there when it is not.
 */
static void second(int argc, char **argv)
{
	CUkernel kernels[LAZY_MODULES];
	struct image_build elf = elf_of(0, 1000);
	CUcontext there, popped;
	CUlibrary library;
	CUdeviceptr last = 0;
	CUstream stream;
	uint64_t before;
	int in = 0, dev;
	CUresult res;

	CHECK(argc == 2);
	dev = atoi(argv[1]);
	client_start();
	for (int i = 0; i < LAZY_MODULES; i++) {
		OK(cuLibraryLoadData(&library, elf.at, NULL, NULL, 0, NULL, NULL, 0));
		OK(cuLibraryGetKernel(&kernels[i], library, "empty"));
		for (int k = 0; k < 200; k++)
			OK(cuLaunchKernel((CUfunction)(void *)kernels[i], 1, 1, 1, 1, 1, 1, 0, NULL,
					  NULL, NULL));
	}
	before = client_charged(0);
	OK(cuCtxCreate_v2(&there, 0, dev));
	OK(cuStreamCreate(&stream, 0));
	for (CUdeviceptr addr; cuMemAlloc_v2(&addr, BLOCK_BYTES) == CUDA_SUCCESS;)
		last = addr;
	OK(cuCtxPopCurrent_v2(&popped));
	for (int i = 0; i < LAZY_MODULES; i++) {
		res = use_there(argv[0], kernels[i], there, stream);
		CHECK(res == CUDA_SUCCESS || res == CUDA_ERROR_OUT_OF_MEMORY);
		in += res == CUDA_SUCCESS;
		CHECK(client_charged(dev) <= client_limit(dev));
	}
	/* The block that is kept back where there is code. */
	SAME(in, dev == 0);
	client_pause("used");
	if (dev)
		SAME(client_charged(0), before);
	OK(cuCtxPushCurrent_v2(there));
	OK(cuMemFree_v2(last));
	OK(cuCtxPopCurrent_v2(&popped));
	OK(use_there(argv[0], kernels[in], there, stream));
	OK(cuLaunchKernel((CUfunction)(void *)kernels[LAZY_MODULES - 1], 1, 1, 1, 1, 1, 1, 0, NULL,
			  NULL, NULL));
	free(elf.at);
}

/* An executable graph is made or changed, in the way that `how` names, to run that kernel there. */
static CUresult run_there(const char *how, CUkernel kernel, CUcontext there, CUkernel first)
{
	CUDA_KERNEL_NODE_PARAMS params = client_kernel(NULL, first, NULL);
	CUgraphNodeParams any = { .type = CU_GRAPH_NODE_TYPE_KERNEL };
	CUgraphExecUpdateResultInfo info;
	CUgraphNode node, child;
	CUgraph graph, next, whole;
	CUgraphExec exec;

	params.ctx = there;
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &params));
	OK(cuGraphCreate(&whole, 0));
	OK(cuGraphAddChildGraphNode(&child, whole, NULL, 0, graph));
	OK(cuGraphInstantiateWithFlags(&exec, !strcmp(how, "child") ? whole : graph, 0));
	params.kern = kernel;
	OK(cuGraphCreate(&next, 0));
	OK(cuGraphAddKernelNode_v2(&(CUgraphNode){ NULL }, next, NULL, 0, &params));
	if (!strcmp(how, "made"))
		return cuGraphInstantiateWithFlags(&exec, next, 0);
	if (!strcmp(how, "node"))
		return cuGraphExecKernelNodeSetParams_v2(exec, node, &params);
	if (!strcmp(how, "child"))
		return cuGraphExecChildGraphNodeSetParams(exec, child, next);
	if (!strcmp(how, "update"))
		return cuGraphExecUpdate_v2(exec, next, &info);
	any.kernel.kern = kernel;
	any.kernel.ctx = there;
	any.kernel.gridDimX = any.kernel.gridDimY = any.kernel.gridDimZ = 1;
	any.kernel.blockDimX = any.kernel.blockDimY = any.kernel.blockDimZ = 1;
	return cuGraphExecNodeSetParams(exec, node, &any);
}

/* node HOW: a graph's kernel that names another context comes to no other than that one. */
static void node_elsewhere(int argc, char **argv)
{
	struct image_build elf = elf_of(0, 3 * MIB);
	CUDA_KERNEL_NODE_PARAMS params = client_kernel(NULL, NULL, NULL);
	CUkernel kernels[LAZY_MODULES];
	CUcontext there, popped;
	CUlibrary library;
	CUgraph graph;

	CHECK(argc == 1);
	client_start();
	OK(cuCtxCreate_v2(&there, 0, 0));
	OK(cuCtxPopCurrent_v2(&popped));
	OK(cuGraphCreate(&graph, 0));
	for (int i = 0; i < LAZY_MODULES; i++) {
		OK(cuLibraryLoadData(&library, elf.at, NULL, NULL, 0, NULL, NULL, 0));
		OK(cuLibraryGetKernel(&kernels[i], library, "empty"));
		params.kern = kernels[i];
		params.ctx = there;
		OK(cuGraphAddKernelNode_v2(&(CUgraphNode){ NULL }, graph, NULL, 0, &params));
	}
	for (CUdeviceptr addr; cuMemAlloc_v2(&addr, BLOCK_BYTES) == CUDA_SUCCESS;)
		;
	for (int i = 1; i < LAZY_MODULES; i++)
		OK(run_there(argv[0], kernels[i], there, kernels[0]));
	client_pause("run");
	free(elf.at);
}

enum { CROWD = 4, CROWD_ROUNDS = 60, CROWD_LIBRARIES = 3 };

static CUlibrary shared[CROWD_LIBRARIES];

/*
 * A thread with contexts of its own, one after the other, in which it launches everybody's kernels
 * and its own, and fills what is left.
 */
static void *be_in_crowd(void *arg)
{
	int dev = (int)(uintptr_t)arg % 2;
	struct image_build elf = elf_of(0, 1000);
	CUcontext ctx;
	CUlibrary own;
	CUkernel kernel;
	CUresult res;

	for (int i = 0; i < CROWD_ROUNDS; i++) {
		CUdeviceptr addr = 0;

		if (i % 15 == 0)
			OK(cuCtxCreate_v2(&ctx, 0, dev));
		OK(cuLibraryLoadData(&own, elf.at, NULL, NULL, 0, NULL, NULL, 0));
		if (i % 3 == 0)
			cuMemAlloc_v2(&addr, 10 * MIB);
		for (int k = 0; k <= CROWD_LIBRARIES; k++) {
			OK(cuLibraryGetKernel(&kernel, k ? shared[k - 1] : own, "empty"));
			res = cuLaunchKernel((CUfunction)(void *)kernel, 1, 1, 1, 1, 1, 1, 0, NULL,
					     NULL, NULL);
			CHECK(res == CUDA_SUCCESS || res == CUDA_ERROR_OUT_OF_MEMORY);
			CHECK(client_charged(dev) <= client_limit(dev));
		}
		OK(cuCtxSynchronize());
		if (addr)
			OK(cuMemFree_v2(addr));
		OK(cuLibraryUnload(own));
		if (i % 15 == 14)
			OK(cuCtxDestroy_v2(ctx));
	}
	free(elf.at);
	return NULL;
}

/* crowd: threads, contexts on two devices, and libraries that come and go. */
static void crowd(int argc, char **argv)
{
	struct image_build elf = elf_of(0, 1000);
	pthread_t threads[CROWD];

	(void)argc;
	(void)argv;
	OK(cuInit(0));
	/* The threads find it. */
	SAME(client_charged(0), 0);
	for (int k = 0; k < CROWD_LIBRARIES; k++)
		OK(cuLibraryLoadData(&shared[k], elf.at, NULL, NULL, 0, NULL, NULL, 0));
	for (int i = 0; i < CROWD; i++)
		CHECK(pthread_create(&threads[i], NULL, be_in_crowd, (void *)(uintptr_t)i) == 0);
	for (int i = 0; i < CROWD; i++)
		pthread_join(threads[i], NULL);
	for (int k = 0; k < CROWD_LIBRARIES; k++)
		OK(cuLibraryUnload(shared[k]));
	client_pause("over");
	free(elf.at);
}

/* exact: a module may have the last of the limit, as an allocation may. */
static void exact(int argc, char **argv)
{
	struct image_build elf = elf_of(40 * MIB, 100);
	CUmodule module;
	CUdeviceptr addr;

	(void)argc;
	(void)argv;
	client_start();
	OK(cuMemAlloc_v2(&addr, 60 * MIB));
	OK(cuModuleLoadData(&module, elf.at));
	SAME(client_charged(0), client_limit(0));
	OK(cuModuleUnload(module));
	OK(cuMemAlloc_v2(&addr, 40 * MIB));
	client_pause("exact");
	free(elf.at);
}

static uint64_t free_now(void)
{
	size_t free_bytes, total_bytes;

	OK(cuMemGetInfo_v2(&free_bytes, &total_bytes));
	return free_bytes;
}

/* kept: what is kept back for code, and for small allocations, ends with the last of them. */
static void kept(int argc, char **argv)
{
	struct image_build elf = elf_of(1, 100);
	uint64_t all;
	CUkernel kernel;
	CUlibrary library;
	CUmodule module;
	CUdeviceptr addr;

	(void)argc;
	(void)argv;
	client_start();
	all = free_now();
	OK(cuModuleLoadData(&module, elf.at));
	SAME(all - free_now(), 2 * BLOCK_BYTES);
	OK(cuModuleUnload(module));
	SAME(free_now(), all);
	OK(cuLibraryLoadData(&library, elf.at, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetKernel(&kernel, library, "empty"));
	SAME(free_now(), all);
	OK(cuLaunchKernel((CUfunction)(void *)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	CHECK(free_now() <= all - 2 * BLOCK_BYTES);
	OK(cuLibraryUnload(library));
	SAME(free_now(), all);
	OK(cuMemAlloc_v2(&addr, 100));
	CHECK(free_now() < all);
	OK(cuMemFree_v2(addr));
	if (!client_is_movable())
		SAME(free_now(), all);
	OK(cuMemAlloc_v2(&addr, all));
	client_pause("kept");
	free(elf.at);
}

/* Loads it, as `how` names, to the context; the handle of a module or of a library. */
static void *load_lodger(const char *how, const struct image_build *b)
{
	CUlibrary library;
	CUmodule module;
	CUkernel kernel;

	if (!strstr(how, "library")) {
		OK(cuModuleLoadData(&module, b->at));
		return module;
	}
	OK(cuLibraryLoadData(&library, b->at, NULL, NULL, 0, NULL, NULL, 0));
	if (strstr(how, "launch")) {
		OK(cuLibraryGetKernel(&kernel, library, "empty"));
		OK(cuLaunchKernel((CUfunction)(void *)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL,
				  NULL));
	} else {
		OK(cuLibraryGetModule(&module, library));
	}
	return library;
}

static void unload_lodger(const char *how, void *handle)
{
	if (strstr(how, "library"))
		OK(cuLibraryUnload(handle));
	else
		OK(cuModuleUnload(handle));
}

enum { LODGERS = 20 };

/* Of two that each block has room for the second is not there: allocations, or what is loaded. */
static void open_blocks(CUdeviceptr addrs[LODGERS])
{
	CUdeviceptr seconds[LODGERS];

	for (int i = 0; i < LODGERS; i++) {
		OK(cuMemAlloc_v2(&addrs[i], MIB));
		OK(cuMemAlloc_v2(&seconds[i], MIB));
	}
	for (int i = 0; i < LODGERS; i++)
		OK(cuMemFree_v2(seconds[i]));
}

static void load_first(const char *how, const struct image_build *b, void *handles[LODGERS])
{
	void *seconds[LODGERS];

	for (int i = 0; i < LODGERS; i++) {
		handles[i] = load_lodger(how, b);
		seconds[i] = load_lodger(how, b);
	}
	for (int i = 0; i < LODGERS; i++)
		unload_lodger(how, seconds[i]);
}

/* The limit has room for so much and not for more, but for the block that is kept back. */
static void has_left(uint64_t bytes)
{
	CUdeviceptr addr;

	IS(cuMemAlloc_v2(&addr, bytes + BLOCK_BYTES), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemAlloc_v2(&addr, bytes - BLOCK_BYTES));
	OK(cuMemFree_v2(addr));
}

/*
 * lodgers HOW HELD: variables lie in blocks beside small allocations, which are freed then, and
 * come and go again: the blocks stay charged, HELD MiB with the code, while the modules are there.
 * HOW names what is loaded, and whether that is before the allocations, or to another context.
 */
static void lodgers(int argc, char **argv)
{
	struct image_build elf = elf_of(MIB, 100);
	CUdeviceptr addrs[LODGERS];
	void *handles[LODGERS];
	uint64_t start, left;
	CUcontext ctx;

	CHECK(argc == 2);
	client_start();
	if (strstr(argv[0], "second"))
		OK(cuCtxCreate_v2(&ctx, 0, 0));
	start = client_charged(0);
	left = client_limit(0) - start - (uint64_t)atoi(argv[1]) * MIB;
	if (strstr(argv[0], "first"))
		load_first(argv[0], &elf, handles);
	else
		open_blocks(addrs);
	for (int i = 0; i < LODGERS; i++) {
		if (strstr(argv[0], "first"))
			OK(cuMemAlloc_v2(&addrs[i], MIB));
		else
			handles[i] = load_lodger(argv[0], &elf);
	}
	for (int round = 0; round < 3; round++) {
		has_left(left);
		for (int i = 0; i < LODGERS; i++)
			OK(cuMemFree_v2(addrs[i]));
		has_left(left);
		for (int i = 0; i < LODGERS && round < 2; i++)
			OK(cuMemAlloc_v2(&addrs[i], MIB));
	}
	client_pause("freed");
	for (int i = 0; i < LODGERS; i++)
		unload_lodger(argv[0], handles[i]);
	SAME(client_charged(0), start);
	has_left(client_limit(0) - start + BLOCK_BYTES);
	client_pause("unloaded");
	free(elf.at);
}

/*
 * lodger-shown: what a variable might hold and does not is shown as free at once, and another of
 * the tenant gets it.
 */
static void lodger_shown(int argc, char **argv)
{
	struct image_build elf = elf_of(MIB, 100);
	CUdeviceptr large, small;
	CUmodule module;
	uint64_t before;

	(void)argc;
	(void)argv;
	client_start();
	OK(cuModuleLoadData(&module, elf.at));
	/* It may be in the variable's block. A refusal looks at the card. */
	OK(cuMemAlloc_v2(&large, MIB));
	IS(cuMemAlloc_v2(&small, client_limit(0)), CUDA_ERROR_OUT_OF_MEMORY);
	before = free_now();
	OK(cuMemAlloc_v2(&small, MIB));
	SAME(before - free_now(), BLOCK_BYTES);
	OK(cuMemFree_v2(small));
	SAME(free_now(), before);
	OK(cuMemAlloc_v2(&small, MIB));
	client_pause("there");
	OK(cuMemFree_v2(small));
	client_pause("freed");
	free(elf.at);
}

/* taker: has all but so many blocks of the limit; what is kept back is not to be had. */
static void taker(int argc, char **argv)
{
	CUdeviceptr addr;

	CHECK(argc == 1);
	client_start();
	client_pause("there");
	OK(cuMemAlloc_v2(&addr, client_limit(0) - (uint64_t)atoi(argv[0]) * BLOCK_BYTES));
	client_pause("taken");
}

/* untold: where the card cannot be asked, what was loaded is charged until it is gone. */
static void untold(int argc, char **argv)
{
	struct image_build elf = elf_of(40 * MIB, 100);
	CUmodule module, second;
	CUfunction function;
	CUlibrary library;
	CUcontext ctx;
	uint64_t start;

	(void)argc;
	(void)argv;
	client_start();
	start = client_charged(0);
	OK(cuModuleLoadData(&module, elf.at));
	SAME(client_charged(0), start + 40 * MIB);
	OK(cuModuleGetFunction(&function, module, "empty"));
	SAME(client_charged(0), start + 42 * MIB);
	OK(cuLibraryLoadData(&library, elf.at, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetModule(&second, library));
	SAME(client_charged(0), start + 82 * MIB);
	IS(cuModuleLoadData(&second, elf.at), CUDA_ERROR_OUT_OF_MEMORY);
	IS(cuModuleLoadData(&second, ""), CUDA_ERROR_INVALID_IMAGE);
	SAME(client_charged(0), start + 82 * MIB);
	OK(cuModuleUnload(module));
	SAME(client_charged(0), start + 40 * MIB);
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuModuleLoadData(&module, elf.at));
	SAME(client_charged(0), start + 80 * MIB);
	OK(cuCtxDestroy_v2(ctx));
	SAME(client_charged(0), start + 40 * MIB);
	OK(cuLibraryUnload(library));
	SAME(client_charged(0), start);
	client_pause("over");
	free(elf.at);
}

/* filler: leaves room for no more than another's context, then for more. */
static void filler(int argc, char **argv)
{
	CUdeviceptr large, rest;

	(void)argc;
	(void)argv;
	client_start();
	OK(cuMemAlloc_v2(&large, 60 * MIB));
	OK(cuMemAlloc_v2(&rest, client_limit(0) - client_charged(0) - CLIENT_CONTEXT_BYTES));
	client_pause("full");
	OK(cuMemFree_v2(large));
	client_pause("freed");
}

/* late: begins where nothing is left, and loads what it can when something is. */
static void late(int argc, char **argv)
{
	struct image_build elf = elf_of(30 * MIB, 100);
	CUmodule module;
	CUcontext ctx;
	int in = 0;

	(void)argc;
	(void)argv;
	OK(cuInit(0));
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	client_pause("there");
	for (int i = 0; i < 8; i++)
		in += cuModuleLoadData(&module, elf.at) == CUDA_SUCCESS;
	CHECK(in >= 1 && in <= 2);
	client_pause("loaded");
	free(elf.at);
}

int main(int argc, char **argv)
{
	static const struct client_case cases[] = {
		{ "load", load },
		{ "lazy", lazy },
		{ "lazy-large", lazy_large },
		{ "unread", unread },
		{ "elsewhere", elsewhere },
		{ "unknown", unknown },
		{ "second", second },
		{ "node", node_elsewhere },
		{ "crowd", crowd },
		{ "exact", exact },
		{ "kept", kept },
		{ "untold", untold },
		{ "filler", filler },
		{ "late", late },
		{ "lodgers", lodgers },
		{ "lodger-shown", lodger_shown },
		{ "taker", taker },
		{ 0 },
	};

	return client_main(argc, argv, cases);
}
