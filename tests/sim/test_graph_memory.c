/* Memory that graphs allocate: when it is taken, who may free it, what the device's store keeps. */
#include "check.h"

static uint64_t figure(CUgraphMem_attribute attribute)
{
	cuuint64_t value = 77;

	OK(cuDeviceGetGraphMemAttribute(0, attribute, &value));
	return value;
}

static uint64_t used(void)
{
	return figure(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT);
}

static uint64_t reserved(void)
{
	return figure(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);
}

static CUDA_MEM_ALLOC_NODE_PARAMS params_of(size_t bytes)
{
	return (CUDA_MEM_ALLOC_NODE_PARAMS){
		.poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			       .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } },
		.bytesize = bytes
	};
}

static CUgraph new_graph(void)
{
	CUgraph graph = NULL;

	OK(cuGraphCreate(&graph, 0));
	return graph;
}

static CUgraphNode add_alloc(CUgraph graph, size_t bytes, CUdeviceptr *out_address)
{
	CUDA_MEM_ALLOC_NODE_PARAMS p = params_of(bytes);
	CUgraphNode node = NULL;

	OK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &p));
	*out_address = p.dptr;
	return node;
}

static CUgraphNode add_set(CUgraph graph, CUgraphNode after, CUdeviceptr address, unsigned value)
{
	CUDA_MEMSET_NODE_PARAMS p = {
		.dst = address, .value = value, .elementSize = 4, .width = 16, .height = 1
	};
	CUgraphNode node = NULL;
	CUcontext ctx;

	OK(cuCtxGetCurrent(&ctx));
	OK(cuGraphAddMemsetNode(&node, graph, &after, 1, &p, ctx));
	return node;
}

static CUgraphNode add_read(CUgraph graph, CUgraphNode after, CUdeviceptr address, unsigned *out)
{
	CUDA_MEMCPY3D copy = { .srcMemoryType = CU_MEMORYTYPE_DEVICE,
			       .srcDevice = address,
			       .dstMemoryType = CU_MEMORYTYPE_HOST,
			       .dstHost = out,
			       .WidthInBytes = 4,
			       .Height = 1,
			       .Depth = 1 };
	CUgraphNode node = NULL;
	CUcontext ctx;

	OK(cuCtxGetCurrent(&ctx));
	OK(cuGraphAddMemcpyNode(&node, graph, &after, 1, &copy, ctx));
	return node;
}

static void add_free(CUgraph graph, CUgraphNode after, CUdeviceptr address)
{
	CUgraphNode node = NULL;

	OK(cuGraphAddMemFreeNode(&node, graph, &after, after ? 1 : 0, address));
}

static CUgraphExec instantiate(CUgraph graph, unsigned flags)
{
	CUgraphExec exec = NULL;

	OK(cuGraphInstantiateWithFlags(&exec, graph, flags));
	return exec;
}

static void launch(CUgraphExec exec)
{
	OK(cuGraphLaunch(exec, NULL));
	OK(cuStreamSynchronize(NULL));
}

static void arguments(void)
{
	CUDA_MEM_ALLOC_NODE_PARAMS p = params_of(MIB), got;
	CUmemAccessDesc access = { { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 5 },
				   CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUgraph graph = new_graph(), other = new_graph();
	CUgraphNode node, free_node;
	CUgraphNodeType type;
	CUdeviceptr address = 0;
	cuuint64_t one = 1;

	EXPECT(cuGraphAddMemAllocNode(&node, graph, NULL, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuGraphAddMemAllocNode(NULL, graph, NULL, 0, &p), CUDA_ERROR_INVALID_VALUE);
	p.bytesize = 0;
	EXPECT(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &p), CUDA_ERROR_INVALID_VALUE);
	p.bytesize = (size_t)1 << 63;
	EXPECT(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &p), CUDA_ERROR_OUT_OF_MEMORY);
	p = params_of(MIB);
	p.poolProps.location.id = 7;
	EXPECT(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &p), CUDA_ERROR_INVALID_DEVICE);
	p = params_of(MIB);
	p.accessDescs = &access;
	p.accessDescCount = 1;
	EXPECT(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &p), CUDA_ERROR_INVALID_VALUE);
	access.location.id = 0;
	OK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &p));
	OK(cuGraphMemAllocNodeGetParams(node, &got));
	TRUE(got.dptr == p.dptr && got.bytesize == MIB && got.accessDescCount == 1 &&
	     got.accessDescs != &access && got.accessDescs[0].location.id == 0);
	OK(cuGraphNodeGetType(node, &type));
	TRUE(type == CU_GRAPH_NODE_TYPE_MEM_ALLOC);
	EXPECT(cuGraphMemFreeNodeGetParams(node, &address), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuGraphAddMemFreeNode(&free_node, graph, NULL, 0, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuGraphAddMemFreeNode(&free_node, graph, NULL, 0, p.dptr + 512),
	       CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphAddMemFreeNode(&free_node, graph, &node, 1, p.dptr));
	EXPECT(cuGraphAddMemFreeNode(&free_node, graph, &node, 1, p.dptr),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuGraphAddMemFreeNode(&free_node, other, NULL, 0, p.dptr), CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphNodeGetType(free_node, &type));
	TRUE(type == CU_GRAPH_NODE_TYPE_MEM_FREE);
	OK(cuGraphMemFreeNodeGetParams(free_node, &address));
	TRUE(address == p.dptr);
	EXPECT(cuGraphClone(&other, graph), CUDA_ERROR_NOT_SUPPORTED);
	EXPECT(cuMemFree_v2(p.dptr), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemFreeAsync(p.dptr, NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuDeviceGetGraphMemAttribute(9, 0, &one), CUDA_ERROR_INVALID_DEVICE);
	EXPECT(cuDeviceGetGraphMemAttribute(0, 4, &one), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &one),
	       CUDA_ERROR_INVALID_VALUE);
	one = 0;
	EXPECT(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &one),
	       CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuDeviceGraphMemTrim(9), CUDA_ERROR_INVALID_DEVICE);
	OK(cuGraphDestroy(graph));
	OK(cuGraphDestroy(other));
	TRUE(reserved() == 0 && figure(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) == 0);
}

/* Memory is taken at the first launch, kept between launches, and given back by a trim alone. */
static void life(void)
{
	uint64_t start = check_free_bytes();
	CUgraph graph = new_graph();
	CUgraphExec exec, second;
	cuuint64_t none = 0;
	CUdeviceptr a, b;
	unsigned got = 0;
	CUgraphNode node;

	node = add_alloc(graph, 10 * MIB, &a);
	node = add_set(graph, node, a, 1234);
	node = add_read(graph, node, a, &got);
	add_free(graph, node, a);
	add_alloc(graph, 3 * MIB, &b);
	add_free(graph, NULL, b);
	exec = instantiate(graph, 0);
	EXPECT(cuGraphInstantiateWithFlags(&second, graph, 0), CUDA_ERROR_NOT_SUPPORTED);
	TRUE(check_free_bytes() == start && reserved() == 0);
	launch(exec);
	TRUE(got == 1234);
	TRUE(check_free_bytes() == start - 32 * MIB);
	TRUE(reserved() == 32 * MIB && used() == 32 * MIB);
	got = 0;
	launch(exec);
	TRUE(got == 1234 && reserved() == 32 * MIB);
	OK(cuDeviceGraphMemTrim(0));
	TRUE(check_free_bytes() == start && reserved() == 0 && used() == 0);
	TRUE(figure(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) == 32 * MIB);
	TRUE(figure(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) == 32 * MIB);
	OK(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &none));
	TRUE(figure(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) == 0);
	launch(exec);
	TRUE(got == 1234 && reserved() == 32 * MIB);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	TRUE(used() == 32 * MIB && reserved() == 32 * MIB);
	TRUE(check_free_bytes() == start - 32 * MIB);
	OK(cuDeviceGraphMemTrim(0));
	TRUE(check_free_bytes() == start);
}

/* The store serves the next graph before the device does. */
static void reuse(void)
{
	uint64_t start = check_free_bytes();
	CUgraph graph = new_graph();
	CUgraphExec exec;
	CUdeviceptr a;

	add_alloc(graph, 20 * MIB, &a);
	add_free(graph, NULL, a);
	exec = instantiate(graph, 0);
	OK(cuGraphUpload(exec, NULL));
	TRUE(check_free_bytes() == start - 32 * MIB);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	graph = new_graph();
	add_alloc(graph, 16 * MIB, &a);
	add_free(graph, NULL, a);
	exec = instantiate(graph, 0);
	launch(exec);
	TRUE(used() == 32 * MIB && reserved() == 32 * MIB);
	TRUE(check_free_bytes() == start - 32 * MIB);
	OK(cuDeviceGraphMemTrim(0));
	TRUE(check_free_bytes() == start);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

static void launch_new(size_t bytes, bool is_freed)
{
	CUgraph graph = new_graph();
	CUdeviceptr a;

	add_alloc(graph, bytes, &a);
	if (is_freed)
		add_free(graph, NULL, a);
	launch(instantiate(graph, 0));
}

/* As the card does it (docs/real-gpu.md): each graph that keeps memory has units of its own. */
static void units(void)
{
	launch_new(2 * MIB, true);
	TRUE(reserved() == 32 * MIB && used() == 32 * MIB);
	launch_new(13 * MIB, true);
	TRUE(reserved() == 32 * MIB);
	launch_new(40 * MIB, true);
	TRUE(reserved() == 64 * MIB);
	OK(cuDeviceGraphMemTrim(0));
	TRUE(reserved() == 0);
	for (uint64_t i = 1; i <= 3; i++) {
		launch_new(2 * MIB, false);
		TRUE(reserved() == i * 32 * MIB && used() == i * 32 * MIB);
	}
	OK(cuDeviceGraphMemTrim(0));
	launch_new(70 * MIB, false);
	TRUE(reserved() == 192 * MIB);
	launch_new(60 * MIB, true);
	launch_new(40 * MIB, true);
	TRUE(reserved() == 256 * MIB);
}

/* What a graph leaves lives on, until it is freed from outside or by the next launch. */
static void unfreed(void)
{
	uint64_t start = check_free_bytes();
	CUgraph graph = new_graph(), freeing = new_graph();
	CUgraphExec exec, free_exec;
	CUgraphNode node;
	unsigned got = 0;
	CUdeviceptr a, base;
	size_t bytes;

	node = add_alloc(graph, 4 * MIB, &a);
	add_set(graph, node, a, 5);
	exec = instantiate(graph, 0);
	launch(exec);
	OK(cuMemcpyDtoH_v2(&got, a, 4));
	TRUE(got == 5);
	OK(cuMemGetAddressRange_v2(&base, &bytes, a + 100));
	TRUE(base == a && bytes == 4 * MIB);
	EXPECT(cuGraphLaunch(exec, NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemFree_v2(a + 512), CUDA_ERROR_INVALID_VALUE);
	OK(cuDeviceGraphMemTrim(0));
	TRUE(check_free_bytes() == start - 32 * MIB);
	OK(cuMemFreeAsync(a, NULL));
	EXPECT(cuMemFreeAsync(a, NULL), CUDA_ERROR_INVALID_VALUE);
	launch(exec);
	OK(cuMemFree_v2(a));
	EXPECT(cuMemFree_v2(a), CUDA_ERROR_INVALID_VALUE);
	add_free(freeing, NULL, a);
	free_exec = instantiate(freeing, 0);
	EXPECT(cuGraphLaunch(free_exec, NULL), CUDA_ERROR_INVALID_VALUE);
	launch(exec);
	launch(free_exec);
	EXPECT(cuMemFree_v2(a), CUDA_ERROR_INVALID_VALUE);
	launch(exec);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuMemcpyDtoH_v2(&got, a, 4));
	TRUE(got == 5);
	OK(cuMemFree_v2(a));
	OK(cuGraphExecDestroy(free_exec));
	OK(cuGraphDestroy(freeing));
	OK(cuDeviceGraphMemTrim(0));
	TRUE(check_free_bytes() == start);
}

static void auto_free(void)
{
	uint64_t start = check_free_bytes();
	CUgraph graph = new_graph();
	CUgraphExec exec;
	CUgraphNode node;
	CUdeviceptr a;

	node = add_alloc(graph, 4 * MIB, &a);
	add_set(graph, node, a, 6);
	exec = instantiate(graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
	for (int i = 0; i < 5; i++)
		launch(exec);
	TRUE(reserved() == 32 * MIB);
	OK(cuMemFree_v2(a));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuDeviceGraphMemTrim(0));
	TRUE(check_free_bytes() == start);
}

/* Stream-ordered calls of a capture become nodes. */
static void capture(void)
{
	uint64_t start = check_free_bytes();
	CUmemoryPool pool = NULL;
	CUdeviceptr a = 0, b = 0, outside;
	CUgraphExec exec;
	unsigned got = 0;
	CUstream stream;
	CUgraph graph;
	size_t count = 0;

	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemAllocAsync(&outside, 100, stream));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	EXPECT(cuMemFreeAsync(outside, stream), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemAllocAsync(&a, 6 * MIB, stream));
	OK(cuMemsetD32Async(a, 9, 4, stream));
	OK(cuMemcpyDtoHAsync_v2(&got, a, 4, stream));
	OK(cuMemFreeAsync(a, stream));
	EXPECT(cuMemFreeAsync(a, stream), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemAllocFromPoolAsync(&b, MIB, pool, stream));
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphGetNodes(graph, NULL, &count));
	TRUE(count == 5);
	OK(cuMemFreeAsync(outside, stream));
	OK(cuStreamSynchronize(stream));
	exec = instantiate(graph, 0);
	TRUE(check_free_bytes() == start);
	OK(cuGraphLaunch(exec, stream));
	OK(cuMemsetD32Async(b, 3, 4, stream));
	OK(cuMemFreeAsync(b, stream));
	OK(cuStreamSynchronize(stream));
	TRUE(got == 9);
	TRUE(reserved() == 32 * MIB && check_free_bytes() == start - 32 * MIB);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuStreamDestroy_v2(stream));
	OK(cuDeviceGraphMemTrim(0));
	TRUE(check_free_bytes() == start);
}

/* The generic form, and an update, which such graphs do not know. */
static void generic(void)
{
	CUgraphNodeParams p = { .type = CU_GRAPH_NODE_TYPE_MEM_ALLOC };
	CUgraphExecUpdateResultInfo info;
	CUgraph graph = new_graph();
	CUgraphNode node, last;
	CUgraphExec exec;
	CUdeviceptr a;

	EXPECT(cuGraphAddNode(&node, graph, NULL, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	p.alloc.poolProps = params_of(0).poolProps;
	p.alloc.bytesize = MIB;
	OK(cuGraphAddNode(&node, graph, NULL, 0, &p));
	a = p.alloc.dptr;
	TRUE(a != 0);
	p = (CUgraphNodeParams){ .type = CU_GRAPH_NODE_TYPE_MEM_FREE, .free = { a } };
	OK(cuGraphAddNode_v2(&last, graph, &node, NULL, 1, &p));
	exec = instantiate(graph, 0);
	launch(exec);
	EXPECT(cuGraphExecUpdate_v2(exec, graph, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	TRUE(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED);
	OK(cuGraphExecDestroy(exec));
	exec = instantiate(graph, 0);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuDeviceGraphMemTrim(0));
}

static void no_room(void)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS with = { .flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD };
	uint64_t start = check_free_bytes();
	CUgraph graph = new_graph();
	CUgraphExec exec;
	CUdeviceptr a, all;

	add_alloc(graph, 64 * MIB, &a);
	add_free(graph, NULL, a);
	OK(cuMemAlloc_v2(&all, start - 62 * MIB));
	EXPECT(cuGraphInstantiateWithParams(&exec, graph, &with), CUDA_ERROR_OUT_OF_MEMORY);
	exec = instantiate(graph, 0);
	EXPECT(cuGraphUpload(exec, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT(cuGraphLaunch(exec, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	TRUE(check_free_bytes() == 62 * MIB && reserved() == 0);
	OK(cuMemFree_v2(all));
	launch(exec);
	TRUE(check_free_bytes() == start - 64 * MIB);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphInstantiateWithParams(&exec, graph, &with));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuDeviceGraphMemTrim(0));
	TRUE(check_free_bytes() == start);
}

/* A trim leaves what a graph under way needs. */
static void trim_while_running(void)
{
	uint64_t start = check_free_bytes();
	CUgraph graph = new_graph();
	unsigned got = 0;
	CUgraphExec exec;
	CUgraphNode node;
	CUstream stream;
	CUdeviceptr a;
	int flag = 0;

	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	node = add_alloc(graph, 2 * MIB, &a);
	node = add_read(graph, add_set(graph, node, a, 8), a, &got);
	add_free(graph, node, a);
	exec = instantiate(graph, 0);
	OK(cuLaunchHostFunc(stream, check_hold, &flag));
	OK(cuGraphLaunch(exec, stream));
	OK(cuGraphLaunch(exec, stream));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuDeviceGraphMemTrim(0));
	TRUE(check_free_bytes() == start - 32 * MIB);
	check_let_go(&flag);
	OK(cuStreamSynchronize(stream));
	TRUE(got == 8);
	OK(cuDeviceGraphMemTrim(0));
	TRUE(check_free_bytes() == start);
	OK(cuStreamDestroy_v2(stream));
}

/* A graph whose last bytes it sets and reads, destroyed while it runs. */
static void run_large(CUstream stream, uint64_t bytes, unsigned value, unsigned *out_got)
{
	CUgraph graph = new_graph();
	CUgraphExec exec;
	CUgraphNode node;
	CUdeviceptr a;

	node = add_alloc(graph, bytes, &a);
	node = add_set(graph, node, a + bytes - 64, value);
	node = add_read(graph, node, a + bytes - 64, out_got);
	add_free(graph, node, a);
	exec = instantiate(graph, 0);
	OK(cuGraphLaunch(exec, stream));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

/* In one stream a larger graph takes what it lacks beyond the one before (docs/real-gpu.md). */
static void grows_in_one_stream(void)
{
	unsigned got[3] = { 0 };
	CUstream stream;
	int flag = 0;

	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuLaunchHostFunc(stream, check_hold, &flag));
	run_large(stream, 32 * MIB, 5, &got[0]);
	TRUE(reserved() == 32 * MIB);
	run_large(stream, 128 * MIB, 6, &got[1]);
	TRUE(reserved() == 128 * MIB);
	run_large(stream, 64 * MIB, 7, &got[2]);
	TRUE(reserved() == 128 * MIB);
	check_let_go(&flag);
	OK(cuStreamSynchronize(stream));
	TRUE(got[0] == 5 && got[1] == 6 && got[2] == 7);
	OK(cuDeviceGraphMemTrim(0));
	TRUE(reserved() == 0);
	OK(cuStreamDestroy_v2(stream));
}

/* With the last context of the device its store goes, and what graphs left. */
static void reset(void)
{
	CUgraph graph = new_graph();
	CUgraphExec exec;
	CUdeviceptr a;
	CUcontext ctx;

	add_alloc(graph, 2 * MIB, &a);
	exec = instantiate(graph, 0);
	launch(exec);
	TRUE(reserved() > 0);
	OK(cuDevicePrimaryCtxReset_v2(0));
	TRUE(reserved() == 0 && used() == 0);
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	TRUE(check_free_bytes() == (1024 - 64) * MIB);
	EXPECT(cuMemFree_v2(a), CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

/* Touching it before the graph ran, or after the graph freed it, is touching nothing. */
static int wild(void *is_late)
{
	CUgraph graph;
	CUgraphExec exec;
	CUgraphNode node;
	CUdeviceptr a;

	check_start("count=1,mem=1g,context=64m");
	graph = new_graph();
	node = add_alloc(graph, 2 * MIB, &a);
	add_free(graph, node, a);
	exec = instantiate(graph, 0);
	OK(cuGraphUpload(exec, NULL));
	if (is_late)
		launch(exec);
	OK(cuMemsetD32Async(a, 1, 4, NULL));
	EXPECT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	return check_end();
}

int main(void)
{
	int yes = 1;

	TRUE(check_child(wild, NULL));
	TRUE(check_child(wild, &yes));
	check_start("count=1,mem=1g,context=64m");
	arguments();
	life();
	reuse();
	unfreed();
	auto_free();
	capture();
	generic();
	no_room();
	trim_while_running();
	grows_in_one_stream();
	units();
	reset();
	return check_end();
}
