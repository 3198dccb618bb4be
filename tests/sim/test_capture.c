/* Capture and graphs: what is recorded, what it forbids, what it replays. */
#include "check.h"

static CUfunction fill;
static CUcontext context;

static CUresult fill_word(CUstream stream, CUdeviceptr address, unsigned value)
{
	uint64_t words = 1;
	void *params[] = { &address, &value, &words };

	return check_launch(fill, stream, params);
}

static unsigned word_at(CUdeviceptr address)
{
	unsigned value = 0;

	OK(cuMemcpyDtoH_v2(&value, address, 4));
	return value;
}

static CUstream begin(CUstreamCaptureMode mode)
{
	CUstream stream;

	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture_v2(stream, mode));
	return stream;
}

static CUstreamCaptureStatus status_of(CUstream stream)
{
	CUstreamCaptureStatus status = (CUstreamCaptureStatus)99;

	OK(cuStreamIsCapturing(stream, &status));
	return status;
}

static void end_invalid(CUstream stream)
{
	CUgraph graph = (CUgraph)&graph;

	TRUE(status_of(stream) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	EXPECT(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	TRUE(graph == NULL);
	TRUE(status_of(stream) == CU_STREAM_CAPTURE_STATUS_NONE);
	OK(cuStreamDestroy_v2(stream));
}

static void end_valid(CUstream stream)
{
	CUgraph graph = NULL;

	TRUE(status_of(stream) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
	OK(cuStreamEndCapture(stream, &graph));
	TRUE(graph != NULL);
	OK(cuGraphDestroy(graph));
	OK(cuStreamDestroy_v2(stream));
}

static void arguments(void)
{
	CUstreamCaptureMode mode = (CUstreamCaptureMode)7;
	CUstream stream;
	CUgraph graph;

	OK(cuStreamCreate(&stream, 0));
	EXPECT(cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL),
	       CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	EXPECT(cuStreamBeginCapture_v2(stream, mode), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
	EXPECT(cuStreamEndCapture(stream, NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuStreamIsCapturing(stream, NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuThreadExchangeStreamCaptureMode(NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuThreadExchangeStreamCaptureMode(&mode), CUDA_ERROR_INVALID_VALUE);
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	EXPECT(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED),
	       CUDA_ERROR_ILLEGAL_STATE);
	end_valid(stream);
}

/* Captured work runs when the graph is launched, as often as that is done. */
static void replay(void)
{
	CUstream stream;
	CUdeviceptr a, b;
	CUgraph graph, into = NULL;
	CUgraphExec exec;
	CUgraphNode nodes[8];
	CUgraphNodeType type;
	CUstreamCaptureStatus status;
	cuuint64_t id = 0;
	size_t count = 8;

	OK(cuMemAlloc_v2(&a, 4));
	OK(cuMemAlloc_v2(&b, 4));
	OK(cuMemsetD32_v2(a, 0, 1));
	stream = begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
	OK(fill_word(stream, a, 5));
	OK(cuMemcpyDtoDAsync_v2(b, a, 4, stream));
	OK(cuMemsetD32Async(a, 6, 1, stream));
	OK(cuStreamGetCaptureInfo_v2(stream, &status, &id, &into, NULL, &count));
	TRUE(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && id && into && count == 1);
	OK(cuStreamEndCapture(stream, &graph));
	TRUE(graph == into);
	TRUE(word_at(a) == 0);
	OK(cuGraphGetNodes(graph, NULL, &count));
	TRUE(count == 3);
	OK(cuGraphGetNodes(graph, nodes, &count));
	OK(cuGraphNodeGetType(nodes[0], &type));
	TRUE(type == CU_GRAPH_NODE_TYPE_KERNEL);
	OK(cuGraphNodeGetType(nodes[1], &type));
	TRUE(type == CU_GRAPH_NODE_TYPE_MEMCPY);
	OK(cuGraphNodeGetType(nodes[2], &type));
	TRUE(type == CU_GRAPH_NODE_TYPE_MEMSET);
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphDestroy(graph));
	EXPECT(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphLaunch(exec, stream));
	OK(cuStreamSynchronize(stream));
	TRUE(word_at(a) == 6 && word_at(b) == 5);
	OK(cuMemsetD32_v2(b, 0, 1));
	OK(cuCtxSynchronize());
	OK(cuGraphUpload(exec, stream));
	OK(cuGraphLaunch(exec, stream));
	OK(cuGraphLaunch(exec, stream));
	OK(cuGraphExecDestroy(exec));
	EXPECT(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);
	OK(cuStreamSynchronize(stream));
	TRUE(word_at(b) == 5);
	OK(cuStreamDestroy_v2(stream));
	OK(cuMemFree_v2(a));
	OK(cuMemFree_v2(b));
}

static void *alloc_elsewhere(void *want)
{
	CUdeviceptr address;

	OK(cuCtxSetCurrent(context));
	EXPECT(cuMemAlloc_v2(&address, 1), *(CUresult *)want);
	if (*(CUresult *)want == CUDA_SUCCESS)
		OK(cuMemFree_v2(address));
	return NULL;
}

static void *alloc_relaxed(void *want)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	OK(cuThreadExchangeStreamCaptureMode(&mode));
	TRUE(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
	return alloc_elsewhere(want);
}

static void in_thread(void *(*body)(void *), CUresult want)
{
	pthread_t thread;

	pthread_create(&thread, NULL, body, &want);
	pthread_join(thread, NULL);
}

/* Calls that may be unsafe end a capture that forbids them. */
static void unsafe(void)
{
	CUdeviceptr address;
	CUevent event;
	CUstream stream;

	OK(cuEventCreate(&event, 0));
	OK(cuEventRecord(event, NULL));
	stream = begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
	in_thread(alloc_elsewhere, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	end_invalid(stream);
	stream = begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
	in_thread(alloc_relaxed, CUDA_SUCCESS);
	end_valid(stream);
	stream = begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	in_thread(alloc_elsewhere, CUDA_SUCCESS);
	EXPECT(cuMemAlloc_v2(&address, 1), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	end_invalid(stream);
	stream = begin(CU_STREAM_CAPTURE_MODE_RELAXED);
	in_thread(alloc_elsewhere, CUDA_SUCCESS);
	OK(cuMemAlloc_v2(&address, 1));
	OK(cuMemFree_v2(address));
	end_valid(stream);
	stream = begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
	EXPECT(cuEventQuery(event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	EXPECT(fill_word(stream, 0, 0), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	end_invalid(stream);
	OK(cuEventDestroy_v2(event));
}

/* What asks for the end of captured work cannot be answered in any mode. */
static void conflicts(void)
{
	CUstream stream = begin(CU_STREAM_CAPTURE_MODE_RELAXED);
	CUevent event;

	EXPECT(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	end_invalid(stream);
	stream = begin(CU_STREAM_CAPTURE_MODE_RELAXED);
	EXPECT(cuStreamQuery(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	end_invalid(stream);
	stream = begin(CU_STREAM_CAPTURE_MODE_RELAXED);
	EXPECT(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	end_invalid(stream);
	OK(cuEventCreate(&event, 0));
	stream = begin(CU_STREAM_CAPTURE_MODE_RELAXED);
	EXPECT(cuCtxRecordEvent(context, event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	end_invalid(stream);
	stream = begin(CU_STREAM_CAPTURE_MODE_RELAXED);
	OK(cuEventRecord(event, stream));
	EXPECT(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
	EXPECT(cuEventSynchronize(event), CUDA_ERROR_CAPTURED_EVENT);
	end_valid(stream);
	OK(cuEventDestroy_v2(event));
}

/* The legacy stream cannot be used while a blocking stream captures. */
static void legacy(void)
{
	CUstreamCaptureStatus status;
	CUstream stream;

	OK(cuStreamCreate(&stream, 0));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	EXPECT(cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	TRUE(status_of(stream) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
	EXPECT(check_launch(check_kernel("empty"), NULL, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	end_invalid(stream);
	stream = begin(CU_STREAM_CAPTURE_MODE_RELAXED);
	OK(check_launch(check_kernel("empty"), NULL, NULL));
	end_valid(stream);
}

/* Streams join by events, and must come back by them. */
static void joins(void)
{
	CUstream origin, other;
	CUevent fork, join, outside;
	CUgraph graph = NULL;
	CUdeviceptr a;

	OK(cuMemAlloc_v2(&a, 4));
	OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
	OK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
	OK(cuEventCreate(&outside, CU_EVENT_DISABLE_TIMING));
	OK(cuEventRecord(outside, NULL));
	OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	origin = begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
	OK(fill_word(origin, a, 1));
	OK(cuEventRecord(fork, origin));
	OK(cuStreamWaitEvent(other, fork, 0));
	TRUE(status_of(other) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
	OK(fill_word(other, a, 2));
	OK(cuEventRecord(join, other));
	OK(cuStreamWaitEvent(origin, join, 0));
	OK(cuStreamEndCapture(origin, &graph));
	TRUE(status_of(other) == CU_STREAM_CAPTURE_STATUS_NONE);
	OK(cuGraphDestroy(graph));
	OK(cuStreamBeginCapture_v2(origin, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cuEventRecord(fork, origin));
	OK(cuStreamWaitEvent(other, fork, 0));
	OK(fill_word(other, a, 2));
	EXPECT(cuStreamEndCapture(other, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
	end_invalid(origin);
	origin = begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
	OK(cuEventRecord(fork, origin));
	OK(cuStreamWaitEvent(other, fork, 0));
	OK(fill_word(other, a, 2));
	EXPECT(cuStreamEndCapture(origin, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
	TRUE(graph == NULL);
	OK(cuStreamBeginCapture_v2(origin, CU_STREAM_CAPTURE_MODE_GLOBAL));
	EXPECT(cuStreamWaitEvent(origin, outside, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
	end_invalid(origin);
	OK(cuStreamDestroy_v2(other));
	OK(cuEventDestroy_v2(outside));
	OK(cuEventDestroy_v2(join));
	OK(cuEventDestroy_v2(fork));
	OK(cuMemFree_v2(a));
}

static void *end_elsewhere(void *stream)
{
	CUgraph graph;

	EXPECT(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
	return NULL;
}

static void wrong_thread(void)
{
	CUstream stream = begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
	pthread_t thread;

	pthread_create(&thread, NULL, end_elsewhere, stream);
	pthread_join(thread, NULL);
	end_valid(stream);
}

static void count_call(void *arg)
{
	++*(int *)arg;
}

/* Graphs made node by node. */
static void by_hand(void)
{
	CUDA_MEMSET_NODE_PARAMS set = { .value = 8, .elementSize = 4, .width = 1, .height = 1 };
	CUDA_HOST_NODE_PARAMS host = { .fn = count_call };
	CUDA_KERNEL_NODE_PARAMS kernel = { .func = fill,
					   .gridDimX = 1,
					   .gridDimY = 1,
					   .gridDimZ = 1,
					   .blockDimX = 1,
					   .blockDimY = 1,
					   .blockDimZ = 1 };
	CUDA_MEMCPY3D copy = { .srcMemoryType = CU_MEMORYTYPE_DEVICE,
			       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			       .WidthInBytes = 4,
			       .Height = 1,
			       .Depth = 1 };
	uint64_t words = 1;
	unsigned value = 9;
	CUdeviceptr a, b;
	void *params[] = { &a, &value, &words };
	CUgraphNode first, second, third, last, empty;
	CUgraph graph, clone;
	CUgraphExec exec;
	int calls = 0;

	OK(cuMemAlloc_v2(&a, 4));
	OK(cuMemAlloc_v2(&b, 4));
	set.dst = a;
	host.userData = &calls;
	kernel.kernelParams = params;
	copy.srcDevice = a;
	copy.dstDevice = b;
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemsetNode(&first, graph, NULL, 0, &set, context));
	OK(cuGraphAddMemcpyNode(&second, graph, &first, 1, &copy, context));
	OK(cuGraphAddKernelNode_v2(&third, graph, &second, 1, &kernel));
	OK(cuGraphAddHostNode(&last, graph, &third, 1, &host));
	OK(cuGraphAddEmptyNode(&empty, graph, &last, 1));
	EXPECT(cuGraphAddEmptyNode(&empty, graph, (CUgraphNode *)&graph, 1),
	       CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphClone(&clone, graph));
	OK(cuGraphDestroy(graph));
	OK(cuGraphInstantiateWithFlags(&exec, clone, 0));
	EXPECT(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphLaunch(exec, NULL));
	OK(cuCtxSynchronize());
	TRUE(word_at(a) == 9 && word_at(b) == 8 && calls == 1);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(clone));
	OK(cuMemFree_v2(a));
	OK(cuMemFree_v2(b));
}

/* An executable graph takes another one's parameters, also when what is behind its memory changed. */
static void updates(void)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemAccessDesc access = { prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUDA_MEMSET_NODE_PARAMS set = { .value = 1, .elementSize = 4, .width = 1, .height = 1 };
	CUDA_KERNEL_NODE_PARAMS kernel = { .func = fill,
					   .gridDimX = 1,
					   .gridDimY = 1,
					   .gridDimZ = 1,
					   .blockDimX = 1,
					   .blockDimY = 1,
					   .blockDimZ = 1 };
	CUmemGenericAllocationHandle first, second;
	CUgraphExecUpdateResultInfo info;
	CUgraphNode set_node, kernel_node, other_node;
	CUgraph graph, other;
	CUgraphExec exec;
	uint64_t words = 1;
	unsigned value = 2;
	CUdeviceptr a;
	void *params[] = { &a, &value, &words };

	OK(cuMemAddressReserve(&a, 2 * MIB, 0, 0, 0));
	OK(cuMemCreate(&first, 2 * MIB, &prop, 0));
	OK(cuMemCreate(&second, 2 * MIB, &prop, 0));
	OK(cuMemMap(a, 2 * MIB, 0, first, 0));
	OK(cuMemSetAccess(a, 2 * MIB, &access, 1));
	set.dst = a;
	kernel.kernelParams = params;
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemsetNode(&set_node, graph, NULL, 0, &set, context));
	OK(cuGraphAddKernelNode_v2(&kernel_node, graph, &set_node, 1, &kernel));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	value = 3;
	OK(cuGraphExecKernelNodeSetParams_v2(exec, kernel_node, &kernel));
	EXPECT(cuGraphExecKernelNodeSetParams_v2(exec, set_node, &kernel),
	       CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphLaunch(exec, NULL));
	TRUE(word_at(a) == 3);
	set.dst = a + 4;
	OK(cuGraphExecMemsetNodeSetParams(exec, set_node, &set, context));
	OK(cuGraphExecUpdate_v2(exec, graph, &info));
	TRUE(info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
	OK(cuGraphLaunch(exec, NULL));
	TRUE(word_at(a) == 2);
	OK(cuGraphCreate(&other, 0));
	OK(cuGraphAddMemsetNode(&other_node, other, NULL, 0, &set, context));
	EXPECT(cuGraphExecUpdate_v2(exec, other, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	TRUE(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
	OK(cuMemUnmap(a, 2 * MIB));
	OK(cuMemMap(a, 2 * MIB, 0, second, 0));
	OK(cuMemSetAccess(a, 2 * MIB, &access, 1));
	OK(cuGraphLaunch(exec, NULL));
	TRUE(word_at(a) == 2);
	EXPECT(cuGraphExecMemsetNodeSetParams(exec, set_node, &set, context),
	       CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphExecUpdate_v2(exec, graph, &info));
	TRUE(info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
	OK(cuGraphLaunch(exec, NULL));
	TRUE(word_at(a) == 2);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(other));
	OK(cuGraphDestroy(graph));
	OK(cuMemUnmap(a, 2 * MIB));
	OK(cuMemRelease(second));
	OK(cuMemRelease(first));
	OK(cuMemAddressFree(a, 2 * MIB));
}

int main(void)
{
	context = check_start("count=1,mem=1g");
	fill = check_kernel("fill");
	arguments();
	replay();
	unsafe();
	conflicts();
	legacy();
	joins();
	wrong_thread();
	by_hand();
	updates();
	return check_end();
}
