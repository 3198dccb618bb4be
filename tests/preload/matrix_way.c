#include "matrix_way.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)
#define BLOCK_BYTES (2 * MIB)

/* Texels of four floats. */
enum { CHANNELS = 4, TEXEL_BYTES = 16, ROW_TEXELS = 1024, SIDE_TEXELS = 64, PITCH_WIDTH = 65000 };

static CUmemoryPool pool; /* of the ways with a pool */

static const CUmemLocation device0 = { .type = CU_MEM_LOCATION_TYPE_DEVICE };

static CUresult take_linear(uint64_t bytes, struct matrix_piece *p)
{
	return cuMemAlloc_v2(&p->address, bytes);
}

static CUresult give_linear(struct matrix_piece *p)
{
	return cuMemFree_v2(p->address);
}

static CUresult take_pitch(uint64_t bytes, struct matrix_piece *p)
{
	size_t pitch_bytes;

	return cuMemAllocPitch_v2(&p->address, &pitch_bytes, PITCH_WIDTH,
				  (bytes + PITCH_WIDTH - 1) / PITCH_WIDTH, 4);
}

static CUresult take_managed(uint64_t bytes, struct matrix_piece *p)
{
	return cuMemAllocManaged(&p->address, bytes, CU_MEM_ATTACH_GLOBAL);
}

static CUresult take_managed_host(uint64_t bytes, struct matrix_piece *p)
{
	return cuMemAllocManaged(&p->address, bytes, CU_MEM_ATTACH_HOST);
}

static CUresult take_async(uint64_t bytes, struct matrix_piece *p)
{
	return cuMemAllocAsync(&p->address, bytes, NULL);
}

static CUresult take_async_ptsz(uint64_t bytes, struct matrix_piece *p)
{
	return cuMemAllocAsync_ptsz(&p->address, bytes, NULL);
}

static CUresult take_from_pool(uint64_t bytes, struct matrix_piece *p)
{
	return cuMemAllocFromPoolAsync(&p->address, bytes, pool, NULL);
}

static CUresult take_from_pool_ptsz(uint64_t bytes, struct matrix_piece *p)
{
	return cuMemAllocFromPoolAsync_ptsz(&p->address, bytes, pool, NULL);
}

static CUresult give_async(struct matrix_piece *p)
{
	return cuMemFreeAsync(p->address, NULL);
}

static CUresult give_async_ptsz(struct matrix_piece *p)
{
	return cuMemFreeAsync_ptsz(p->address, NULL);
}

static CUresult use_default_pool(void)
{
	return cuDeviceGetDefaultMemPool(&pool, 0);
}

static CUresult make_pool(void)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = device0 };

	return cuMemPoolCreate(&pool, &props);
}

static CUresult make_keeping_pool(void)
{
	cuuint64_t all = UINT64_MAX;
	CUresult res = make_pool();

	return res == CUDA_SUCCESS ?
		       cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all) :
		       res;
}

static CUresult make_managed_pool(void)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_MANAGED, .location = device0 };

	return cuMemPoolCreate(&pool, &props);
}

static CUresult trim_pool(void)
{
	CUresult res = cuCtxSynchronize();

	return res == CUDA_SUCCESS ? cuMemPoolTrimTo(pool, 0) : res;
}

static CUresult take_handle(uint64_t bytes, struct matrix_piece *p)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = device0 };
	CUmemGenericAllocationHandle handle;
	CUresult res = cuMemCreate(&handle, bytes, &prop, 0);

	p->handle = handle;
	return res;
}

static CUresult give_handle(struct matrix_piece *p)
{
	return cuMemRelease(p->handle);
}

static CUresult give_array(struct matrix_piece *p)
{
	return cuArrayDestroy(p->object);
}

/* A row of at most 2 MiB. */
static CUresult take_array_1d(uint64_t bytes, struct matrix_piece *p)
{
	CUDA_ARRAY_DESCRIPTOR d = { .Width = bytes / TEXEL_BYTES,
				    .Format = CU_AD_FORMAT_FLOAT,
				    .NumChannels = CHANNELS };
	CUarray array = NULL;
	CUresult res = cuArrayCreate_v2(&array, &d);

	p->object = array;
	return res;
}

static CUresult take_array_2d(uint64_t bytes, struct matrix_piece *p)
{
	CUDA_ARRAY_DESCRIPTOR d = { .Width = ROW_TEXELS,
				    .Height = bytes / TEXEL_BYTES / ROW_TEXELS,
				    .Format = CU_AD_FORMAT_FLOAT,
				    .NumChannels = CHANNELS };
	CUarray array = NULL;
	CUresult res = cuArrayCreate_v2(&array, &d);

	p->object = array;
	return res;
}

/* Slices of 64 x 64 texels: a box, or layers. */
static CUDA_ARRAY3D_DESCRIPTOR slices(uint64_t bytes, unsigned flags)
{
	return (CUDA_ARRAY3D_DESCRIPTOR){ .Width = SIDE_TEXELS,
					  .Height = SIDE_TEXELS,
					  .Depth = bytes / TEXEL_BYTES / SIDE_TEXELS / SIDE_TEXELS,
					  .Format = CU_AD_FORMAT_FLOAT,
					  .NumChannels = CHANNELS,
					  .Flags = flags };
}

static CUresult take_3d(uint64_t bytes, unsigned flags, struct matrix_piece *p)
{
	CUDA_ARRAY3D_DESCRIPTOR d = slices(bytes, flags);
	CUarray array = NULL;
	CUresult res = cuArray3DCreate_v2(&array, &d);

	p->object = array;
	return res;
}

static CUresult take_array_3d(uint64_t bytes, struct matrix_piece *p)
{
	return take_3d(bytes, 0, p);
}

static CUresult take_array_layered(uint64_t bytes, struct matrix_piece *p)
{
	return take_3d(bytes, CUDA_ARRAY3D_LAYERED, p);
}

/* All levels there can be; the first has all the bytes. */
static CUresult take_mipmap(uint64_t bytes, struct matrix_piece *p)
{
	CUDA_ARRAY3D_DESCRIPTOR d = slices(bytes, 0);
	CUmipmappedArray mipmap = NULL;
	CUresult res = cuMipmappedArrayCreate(&mipmap, &d, 7);

	p->object = mipmap;
	return res;
}

static CUresult give_mipmap(struct matrix_piece *p)
{
	return cuMipmappedArrayDestroy(p->object);
}

/* A graph that allocates and does not free, launched once. */
static CUresult take_graph(uint64_t bytes, struct matrix_piece *p)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = {
		.poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = device0 },
		.bytesize = bytes,
	};
	CUgraph graph = NULL;
	CUgraphExec exec = NULL;
	CUgraphNode node;
	CUresult res = cuGraphCreate(&graph, 0);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params);
	if (res == CUDA_SUCCESS)
		res = cuGraphInstantiateWithFlags(&exec, graph, 0);
	if (res == CUDA_SUCCESS)
		res = cuGraphLaunch(exec, NULL);
	if (res == CUDA_SUCCESS)
		res = cuStreamSynchronize(NULL);
	if (res != CUDA_SUCCESS) {
		if (exec)
			cuGraphExecDestroy(exec);
		cuGraphDestroy(graph);
		return res;
	}
	p->address = params.dptr;
	p->object = graph;
	p->second = exec;
	return res;
}

static CUresult give_graph(struct matrix_piece *p)
{
	CUresult res = cuMemFreeAsync(p->address, NULL);

	if (res == CUDA_SUCCESS)
		res = cuGraphExecDestroy(p->second);
	return res == CUDA_SUCCESS ? cuGraphDestroy(p->object) : res;
}

static CUresult trim_graphs(void)
{
	CUresult res = cuCtxSynchronize();

	return res == CUDA_SUCCESS ? cuDeviceGraphMemTrim(0) : res;
}

/* A new context is current to its maker: the next one needs the old one below it. */
static CUresult keep_context(CUresult res, CUcontext ctx, struct matrix_piece *p)
{
	CUcontext popped;

	p->object = ctx;
	return res == CUDA_SUCCESS ? cuCtxPopCurrent_v2(&popped) : res;
}

static CUresult take_context(uint64_t bytes, struct matrix_piece *p)
{
	CUcontext ctx = NULL;
	CUresult res = cuCtxCreate_v2(&ctx, 0, 0);

	(void)bytes;
	return keep_context(res, ctx, p);
}

static CUresult take_context_v4(uint64_t bytes, struct matrix_piece *p)
{
	CUctxCreateParams params = { 0 };
	CUcontext ctx = NULL;
	CUresult res = cuCtxCreate_v4(&ctx, &params, 0, 0);

	(void)bytes;
	return keep_context(res, ctx, p);
}

static CUresult give_context(struct matrix_piece *p)
{
	return cuCtxDestroy_v2(p->object);
}

static CUresult take_green(uint64_t bytes, struct matrix_piece *p)
{
	CUdevResource sms;
	CUdevResourceDesc desc;
	CUgreenCtx green = NULL;
	CUresult res = cuDeviceGetDevResource(0, &sms, CU_DEV_RESOURCE_TYPE_SM);

	(void)bytes;
	if (res == CUDA_SUCCESS)
		res = cuDevResourceGenerateDesc(&desc, &sms, 1);
	if (res == CUDA_SUCCESS)
		res = cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM);
	p->object = green;
	return res;
}

static CUresult give_green(struct matrix_piece *p)
{
	return cuGreenCtxDestroy(p->object);
}

/* A module with a variable of 16 MiB. */
static const char module_image[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
				   ".visible .global .align 4 .b8 room[16777216];\n"
				   ".visible .entry empty()\n{\n\tret;\n}\n";

/* The same, managed, and touched by the device. */
static const char managed_image[] =
	".version 6.0\n.target sm_50\n.address_size 64\n"
	".visible .global .attribute(.managed) .align 4 .b8 room[16777216];\n"
	".visible .entry empty()\n{\n\tret;\n}\n";

static CUresult load(const char *image, struct matrix_piece *p)
{
	CUmodule module = NULL;
	CUresult res = cuModuleLoadData(&module, image);

	p->object = module;
	return res;
}

static CUresult take_module(uint64_t bytes, struct matrix_piece *p)
{
	(void)bytes;
	return load(module_image, p);
}

static CUresult touch_room(CUmodule module)
{
	CUdeviceptr room;
	size_t bytes;
	CUresult res = cuModuleGetGlobal_v2(&room, &bytes, module, "room");

	return res == CUDA_SUCCESS ? cuMemsetD8_v2(room, 1, bytes) : res;
}

static CUresult take_managed_module(uint64_t bytes, struct matrix_piece *p)
{
	CUresult res = load(managed_image, p);

	(void)bytes;
	return res == CUDA_SUCCESS ? touch_room(p->object) : res;
}

static CUresult give_module(struct matrix_piece *p)
{
	return cuModuleUnload(p->object);
}

/* A library's module is loaded by the first question for it. */
static CUresult load_library(const char *image, struct matrix_piece *p, CUmodule *out_module)
{
	CUlibrary library = NULL;
	CUresult res = cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0);

	if (res != CUDA_SUCCESS)
		return res;
	res = cuLibraryGetModule(out_module, library);
	if (res != CUDA_SUCCESS)
		cuLibraryUnload(library);
	p->object = library;
	return res;
}

static CUresult take_library(uint64_t bytes, struct matrix_piece *p)
{
	CUmodule module;

	(void)bytes;
	return load_library(module_image, p, &module);
}

static CUresult take_managed_library(uint64_t bytes, struct matrix_piece *p)
{
	CUmodule module;
	CUresult res = load_library(managed_image, p, &module);

	(void)bytes;
	return res == CUDA_SUCCESS ? touch_room(module) : res;
}

static CUresult give_library(struct matrix_piece *p)
{
	return cuLibraryUnload(p->object);
}

/* A kernel that may allocate from the heap, and does not: none has so many blocks. */
static const char heap_image[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
				 ".extern .func (.param .b64 got) malloc (.param .b64 bytes);\n"
				 ".visible .entry empty()\n{\n"
				 "\t.reg .b64 %a<3>;\n\t.reg .b32 %t<2>;\n\t.reg .pred %p<2>;\n"
				 "\tmov.u32 %t1, %nctaid.x;\n\tsetp.lt.u32 %p1, %t1, 4000000000;\n"
				 "\t@%p1 bra end;\n\tmov.u64 %a1, 64;\n"
				 "\t{\n\t.param .b64 q;\n\tst.param.b64 [q], %a1;\n"
				 "\t.param .b64 r;\n\tcall.uni (r), malloc, (q);\n"
				 "\tld.param.b64 %a2, [r];\n\t}\n\tst.global.u64 [%a2], %a1;\n"
				 "end:\n\tret;\n}\n";
#define HEAP_BYTES (256 * MIB)

static CUcontext heap_context;
static CUfunction heap_function;
static int is_heap_there;

/* The heap stays until its context ends. */
static CUresult make_heap_context(void)
{
	heap_function = NULL;
	is_heap_there = 0;
	return cuCtxCreate_v2(&heap_context, 0, 0);
}

/*
 * A large heap, whose memory the card gives with the first launch of a kernel that may use it: that
 * comes when everything else is full.
 */
static CUresult take_heap(uint64_t bytes, struct matrix_piece *p)
{
	CUmodule module;
	CUresult res = CUDA_SUCCESS;

	if (!heap_function)
		res = cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, HEAP_BYTES);
	if (res == CUDA_SUCCESS && !heap_function)
		res = cuModuleLoadData(&module, heap_image);
	if (res == CUDA_SUCCESS && !heap_function)
		res = cuModuleGetFunction(&heap_function, module, "empty");
	if (res == CUDA_SUCCESS)
		res = cuMemAlloc_v2(&p->address, bytes);
	if (res == CUDA_SUCCESS || !heap_function || is_heap_there)
		return res;
	is_heap_there = 1;
	if (cuLaunchKernel(heap_function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) != CUDA_SUCCESS ||
	    cuCtxSynchronize() != CUDA_SUCCESS)
		return CUDA_ERROR_LAUNCH_FAILED;
	return res;
}

static CUresult end_heap(void)
{
	CUresult res = cuCtxDestroy_v2(heap_context);

	return res == CUDA_SUCCESS ? make_heap_context() : res;
}

/*
 * A kernel whose threads keep so many bytes each: what is stored is loaded again at another
 * place, so that nothing of it can be left out.
 */
static const char local_format[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
				   ".visible .entry empty()\n{\n"
				   "\t.local .align 8 .b8 depot[%u];\n"
				   "\t.reg .b64 %%a<4>;\n\t.reg .b32 %%t<4>;\n"
				   "\t.reg .pred %%p<2>;\n"
				   "\tmov.u32 %%t1, %%clock;\n\tand.b32 %%t2, %%t1, 1020;\n"
				   "\tcvt.u64.u32 %%a1, %%t2;\n\tmov.u64 %%a2, depot;\n"
				   "\tadd.u64 %%a3, %%a2, %%a1;\n"
				   "\tst.local.u32 [%%a3], %%t1;\n"
				   "\tld.local.u32 %%t3, [%%a2+4];\n"
				   "\tsetp.eq.u32 %%p1, %%t3, 305419896;\n"
				   "\t@%%p1 trap;\n\tret;\n}\n";
static unsigned local_bytes = 1024;

/* Threads that need more than those of the piece before: `bytes` in all that can be resident. */
static CUresult take_local(uint64_t bytes, struct matrix_piece *p)
{
	unsigned more;
	CUmodule module;
	CUfunction func;
	int threads, sms;
	char image[2048];
	CUresult res = cuDeviceGetAttribute(&threads,
					    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 0);

	if (res == CUDA_SUCCESS)
		res = cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0);
	if (res != CUDA_SUCCESS)
		return res;
	more = (unsigned)(bytes / ((uint64_t)threads * (uint64_t)sms) + 15) / 16 * 16;
	snprintf(image, sizeof(image), local_format, local_bytes + more);
	res = cuModuleLoadData(&module, image);
	if (res != CUDA_SUCCESS)
		return res;
	res = cuModuleGetFunction(&func, module, "empty");
	if (res == CUDA_SUCCESS)
		res = cuLaunchKernel(func, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	if (res == CUDA_SUCCESS)
		res = cuCtxSynchronize();
	if (res != CUDA_SUCCESS) {
		cuModuleUnload(module);
		return res;
	}
	local_bytes += more;
	p->object = module;
	return CUDA_SUCCESS;
}

/* The area stays until the stack's limit is set. */
static CUresult shrink_local(void)
{
	return cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024);
}

static const struct matrix_way ways[] = {
	{ "alloc", NULL, take_linear, give_linear, NULL },
	{ "pitch", NULL, take_pitch, give_linear, NULL },
	{ "managed", NULL, take_managed, give_linear, NULL },
	{ "managed-host", NULL, take_managed_host, give_linear, NULL },
	{ "async", use_default_pool, take_async, give_async, trim_pool },
	{ "async-ptsz", use_default_pool, take_async_ptsz, give_async_ptsz, trim_pool },
	{ "pool-default", use_default_pool, take_from_pool, give_async, trim_pool },
	{ "pool-own", make_pool, take_from_pool, give_async, trim_pool },
	{ "pool-own-ptsz", make_pool, take_from_pool_ptsz, give_async_ptsz, trim_pool },
	{ "pool-keeping", make_keeping_pool, take_from_pool, give_async, trim_pool },
	{ "pool-managed", make_managed_pool, take_from_pool, give_async, trim_pool },
	{ "create", NULL, take_handle, give_handle, NULL },
	{ "array-1d", NULL, take_array_1d, give_array, NULL },
	{ "array-2d", NULL, take_array_2d, give_array, NULL },
	{ "array-3d", NULL, take_array_3d, give_array, NULL },
	{ "array-layered", NULL, take_array_layered, give_array, NULL },
	{ "mipmap", NULL, take_mipmap, give_mipmap, NULL },
	{ "graph", NULL, take_graph, give_graph, trim_graphs },
	{ "context", NULL, take_context, give_context, NULL },
	{ "context-v4", NULL, take_context_v4, give_context, NULL },
	{ "green", NULL, take_green, give_green, NULL },
	{ "module", NULL, take_module, give_module, NULL },
	{ "module-managed", NULL, take_managed_module, give_module, NULL },
	{ "library-managed", NULL, take_managed_library, give_library, NULL },
	{ "library", NULL, take_library, give_library, NULL },
	{ "heap", make_heap_context, take_heap, give_linear, end_heap },
	{ "local", NULL, take_local, give_module, shrink_local },
};

const struct matrix_way *matrix_way_find(const char *name)
{
	static const struct matrix_way *const others[] = {
		&matrix_share_ipc,    &matrix_share_handle, &matrix_share_external,
		&matrix_share_pool,   &matrix_share_given,  &matrix_lent_descriptor,
		&matrix_lent_dma_buf, &matrix_lent_import,  &matrix_lent_graph,
		&matrix_sparse,
	};

	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++)
		if (!strcmp(ways[i].name, name))
			return &ways[i];
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (!strcmp(others[i]->name, name))
			return others[i];
	return NULL;
}
