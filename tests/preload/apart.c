/*
 * Two devices of one process that do not reach each other's memory: everything that the driver does
 * with its own memory on the one while the other is current, by the name of the case. Every byte is
 * looked at. Each case says "ready" and goes on, again and again, until it is told to end, so that
 * memory may be moved meanwhile.
 */
#include <poll.h>

#include "client.h"

#include "../../examples/kernels.h"

#define BYTES (2 * MIB)
enum { WORDS = BYTES / 4 };

static CUcontext ctxs[2];
static CUdeviceptr mem[2][2]; /* two of each device */
static CUstream streams[2];   /* of each, which wait for no other */
static CUfunction fill_words[2], spin_for[2];
static uint32_t *host, *pinned;
static uint32_t last; /* no pattern comes twice */

static void on(int dev)
{
	OK(cuCtxSetCurrent(ctxs[dev]));
}

static uint32_t word_of(uint32_t seed, size_t at)
{
	return seed + (uint32_t)at * 2654435761u;
}

static void write_host(uint32_t *to, uint32_t seed)
{
	for (size_t i = 0; i < WORDS; i++)
		to[i] = word_of(seed, i);
}

static void same_host(const uint32_t *is, uint32_t seed)
{
	for (size_t i = 0; i < WORDS; i++)
		SAME(is[i], word_of(seed, i));
}

/* By the device's own context, when all is done there. */
static uint32_t put(int dev, CUdeviceptr addr)
{
	static uint32_t buffer[WORDS];
	CUcontext before;

	OK(cuCtxGetCurrent(&before));
	write_host(buffer, ++last);
	on(dev);
	OK(cuMemcpyHtoD_v2(addr, buffer, BYTES));
	OK(cuCtxSynchronize());
	OK(cuCtxSetCurrent(before));
	return last;
}

static void has(int dev, CUdeviceptr addr, uint32_t seed)
{
	static uint32_t buffer[WORDS];
	CUcontext before;

	OK(cuCtxGetCurrent(&before));
	on(dev);
	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoH_v2(buffer, addr, BYTES));
	same_host(buffer, seed);
	OK(cuCtxSetCurrent(before));
}

static void has_words(int dev, CUdeviceptr addr, uint32_t value, size_t words)
{
	static uint32_t buffer[WORDS];
	CUcontext before;

	OK(cuCtxGetCurrent(&before));
	on(dev);
	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoH_v2(buffer, addr, words * 4));
	for (size_t i = 0; i < words; i++)
		SAME(buffer[i], value);
	OK(cuCtxSetCurrent(before));
}

static void fill_later(int dev, CUdeviceptr addr, uint32_t value, CUstream stream)
{
	uint64_t words = WORDS, ns = 3000000;
	void *fill[] = { &addr, &value, &words }, *spin[] = { &ns };

	on(dev);
	OK(cuLaunchKernel(spin_for[dev], 1, 1, 1, 1, 1, 1, 0, stream, spin, NULL));
	OK(cuLaunchKernel(fill_words[dev], 8, 1, 1, 64, 1, 1, 0, stream, fill, NULL));
}

static CUDA_MEMCPY2D flat_of(CUdeviceptr to, CUdeviceptr from, CUmemorytype type)
{
	return (CUDA_MEMCPY2D){ .srcMemoryType = type,
				.srcDevice = from,
				.srcPitch = 4096,
				.dstMemoryType = type,
				.dstDevice = to,
				.dstPitch = 4096,
				.WidthInBytes = 4096,
				.Height = BYTES / 4096 };
}

/* In the stream of device s, with c current: after what was there, before what comes. */
static void stream_case_of(int c, int s, int to, int form)
{
	CUdeviceptr from = mem[s][0], into = mem[to][1];
	CUDA_MEMCPY2D flat = flat_of(into, from, CU_MEMORYTYPE_DEVICE);
	uint32_t value = ++last;

	fill_later(s, from, value, streams[s]);
	on(c);
	if (form == 0)
		OK(cuMemcpyDtoDAsync_v2(into, from, BYTES, streams[s]));
	else if (form == 1)
		OK(cuMemcpyAsync(into, from, BYTES, streams[s]));
	else if (form == 2)
		OK(cuMemcpy2DAsync_v2(&flat, streams[s]));
	else
		OK(cuMemcpyDtoHAsync_v2(pinned, from, BYTES, streams[s]));
	fill_later(s, from, ++last, streams[s]);
	OK(cuStreamSynchronize(streams[s]));
	if (form < 3) {
		has_words(to, into, value, WORDS);
		return;
	}
	for (size_t i = 0; i < WORDS; i++)
		SAME(pinned[i], value);
	/* And back: read when the stream comes to it. */
	on(c);
	write_host(pinned, ++last);
	OK(cuMemcpyHtoDAsync_v2(from, pinned, BYTES, streams[s]));
	OK(cuMemcpyAsync(into, from, BYTES, streams[s]));
	OK(cuStreamSynchronize(streams[s]));
	has(s, from, last);
	has(to, into, last);
}

/* The same in the default stream. */
static void default_case_of(int c)
{
	uint32_t value = ++last;

	fill_later(c, mem[c][0], value, NULL);
	OK(cuMemcpyDtoD_v2(mem[!c][1], mem[c][0], BYTES));
	fill_later(c, mem[c][0], ++last, NULL);
	OK(cuCtxSynchronize());
	has_words(!c, mem[!c][1], value, WORDS);
	fill_later(c, mem[c][0], ++last, NULL);
	OK(cuMemcpyDtoD_v2(mem[!c][1], mem[c][0], BYTES));
	OK(cuMemcpyDtoH_v2(host, mem[!c][1], BYTES));
	for (size_t i = 0; i < WORDS; i++)
		SAME(host[i], last);
}

static void stream_case(void)
{
	default_case_of(0);
	default_case_of(1);
	for (int n = 0; n < 32; n++)
		stream_case_of(n & 1, n >> 1 & 1, n >> 2 & 1, n >> 3);
}

/* Between the host and memory of device d, with c current. */
static void host_case_of(int c, int d, uint32_t *at)
{
	CUdeviceptr addr = mem[d][0];
	CUdeviceptr any = (CUdeviceptr)(uintptr_t)at;

	on(c);
	write_host(at, ++last);
	OK(cuMemcpyHtoD_v2(addr, at, BYTES));
	OK(cuCtxSynchronize());
	has(d, addr, last);
	memset(at, 0, BYTES);
	OK(cuMemcpyDtoH_v2(at, addr, BYTES));
	same_host(at, last);
	write_host(at, ++last);
	OK(cuMemcpy(addr, any, BYTES));
	OK(cuCtxSynchronize());
	memset(at, 0, BYTES);
	OK(cuMemcpy_ptds(any, addr, BYTES));
	same_host(at, last);
	write_host(at, ++last);
	OK(cuMemcpyHtoD_v2_ptds(addr, at, BYTES));
	OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	memset(at, 0, BYTES);
	OK(cuMemcpyDtoH_v2_ptds(at, addr, BYTES));
	same_host(at, last);
	write_host(at, ++last);
	OK(cuMemcpyHtoDAsync_v2_ptsz(addr, at, BYTES, NULL));
	OK(cuMemcpyAsync_ptsz(mem[d][1], addr, BYTES, NULL));
	OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	memset(at, 0, BYTES);
	OK(cuMemcpyDtoHAsync_v2(at, mem[d][1], BYTES, NULL));
	OK(cuCtxSynchronize());
	same_host(at, last);
	/* A few bytes in the midst, and what is not there. */
	at[0] = 77;
	OK(cuMemcpyHtoD_v2(addr + 12, at, 4));
	OK(cuMemcpyDtoH_v2(&at[1], addr + 12, 4));
	SAME(at[1], 77);
	OK(cuMemcpyDtoH_v2(&at[1], addr + 16, 4));
	SAME(at[1], word_of(last, 4));
	OK(cuMemcpyHtoD_v2(addr, at, 0));
	IS(cuMemcpyHtoD_v2(addr, at, 64 * MIB), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemcpyDtoH_v2(at, addr, 64 * MIB), CUDA_ERROR_INVALID_VALUE);
}

static void host_case(void)
{
	for (int n = 0; n < 4; n++) {
		host_case_of(n & 1, n >> 1, host);
		host_case_of(n & 1, n >> 1, pinned);
	}
}

/* With its own device current, a pool's memory and an object of the other device. */
static void pool_case(void)
{
	for (int c = 0; c < 2; c++) {
		CUdeviceptr piece, far = mem[!c][0];
		CUDA_MEMCPY2D flat;
		uint32_t seed;

		on(c);
		OK(cuMemAllocAsync(&piece, BYTES, streams[c]));
		OK(cuStreamSynchronize(streams[c]));
		flat = flat_of(piece, far, CU_MEMORYTYPE_UNIFIED);
		seed = put(!c, far);
		OK(cuMemcpyDtoDAsync_v2(piece, far, BYTES, streams[c]));
		OK(cuStreamSynchronize(streams[c]));
		has(c, piece, seed);
		seed = put(c, piece);
		OK(cuMemcpyDtoD_v2(far, piece, BYTES));
		OK(cuCtxSynchronize());
		has(!c, far, seed);
		seed = put(c, piece);
		OK(cuMemcpy(far, piece, BYTES));
		OK(cuCtxSynchronize());
		has(!c, far, seed);
		seed = put(!c, far);
		OK(cuMemcpy2D_v2(&flat));
		OK(cuCtxSynchronize());
		has(c, piece, seed);
		OK(cuMemFreeAsync(piece, streams[c]));
		OK(cuStreamSynchronize(streams[c]));
	}
}

static CUDA_MEMCPY3D_BATCH_OP deep_of(CUdeviceptr to, CUdeviceptr from)
{
	return (CUDA_MEMCPY3D_BATCH_OP){
		.src = { .type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr = { .ptr = from } },
		.dst = { .type = CU_MEMCPY_OPERAND_TYPE_POINTER,
			 .op.ptr = { .ptr = to, .rowLength = 4096, .layerHeight = BYTES / 8192 } },
		.extent = { 4096, BYTES / 8192, 2 },
		.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
	};
}

/* One of each kind in one batch, in the stream of s with c current. */
static void batch_case_of(int c, int s)
{
	CUdeviceptr any = (CUdeviceptr)(uintptr_t)host;
	CUdeviceptr to[] = { mem[0][1], mem[1][1], any },
		    from[] = { mem[1][0], mem[0][0], mem[0][0] };
	CUdeviceptr back[] = { mem[1][1] }, it[] = { any };
	size_t bytes[] = { BYTES, BYTES, BYTES }, firsts[] = { 0, 1 }, failed = 9;
	CUmemcpyAttributes attrs[] = { { .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM },
				       { .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY } };
	CUmemcpyAttributes now = { .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL };
	uint32_t seeds[] = { put(0, mem[0][0]), put(1, mem[1][0]) };
	CUDA_MEMCPY3D_BATCH_OP deep[] = { deep_of(mem[0][1], mem[1][0]),
					  deep_of(mem[1][1], mem[0][0]) };

	on(c);
	OK(cuMemcpyBatchAsync_v2(to, from, bytes, 3, attrs, firsts, 2, streams[s]));
	OK(cuStreamSynchronize(streams[s]));
	has(0, to[0], seeds[1]);
	has(1, to[1], seeds[0]);
	same_host(host, seeds[0]);
	write_host(host, ++last);
	OK(cuMemcpyBatchAsync(back, it, bytes, 1, &now, firsts, 1, &failed, streams[s]));
	memset(host, 0, BYTES);
	OK(cuStreamSynchronize(streams[s]));
	has(1, mem[1][1], last);
	bytes[1] = 64 * MIB;
	IS(cuMemcpyBatchAsync(to, from, bytes, 3, attrs, firsts, 2, &failed, streams[s]),
	   CUDA_ERROR_INVALID_VALUE);
	SAME(failed, 1);
	IS(cuMemcpyBatchAsync(to, from, bytes, 1, attrs, firsts, 1, &failed, NULL),
	   CUDA_ERROR_INVALID_VALUE);
	OK(cuStreamSynchronize(streams[s]));
	seeds[0] = put(0, mem[0][0]);
	seeds[1] = put(1, mem[1][0]);
	OK(cuMemcpy3DBatchAsync_v2(2, deep, 0, streams[s]));
	OK(cuStreamSynchronize(streams[s]));
	has(0, mem[0][1], seeds[1]);
	has(1, mem[1][1], seeds[0]);
	seeds[0] = put(0, mem[0][0]);
	OK(cuMemcpyWithAttributesAsync(mem[1][1], mem[0][0], BYTES, &now, streams[s]));
	has(1, mem[1][1], seeds[0]);
	seeds[0] = put(0, mem[0][0]);
	OK(cuMemcpy3DWithAttributesAsync(&deep[1], 0, streams[s]));
	OK(cuStreamSynchronize(streams[s]));
	has(1, mem[1][1], seeds[0]);
}

static void batch_case(void)
{
	for (int n = 0; n < 4; n++)
		batch_case_of(n & 1, n >> 1);
}

static CUDA_MEMCPY3D box_of(CUdeviceptr to, CUdeviceptr from)
{
	return (CUDA_MEMCPY3D){ .srcMemoryType = CU_MEMORYTYPE_DEVICE,
				.srcDevice = from,
				.srcPitch = BYTES,
				.srcHeight = 1,
				.dstMemoryType = CU_MEMORYTYPE_DEVICE,
				.dstDevice = to,
				.dstPitch = BYTES,
				.dstHeight = 1,
				.WidthInBytes = BYTES,
				.Height = 1,
				.Depth = 1 };
}

enum { REPLAYS = 3 };
static CUgraphExec captured[2], made[2], made_of_any[2];
static uint32_t fills[2];

/* The first copies between them, and a fill of the other's, in a capture with device c current. */
static void capture(int c)
{
	CUdeviceptr far = mem[!c][1];
	CUgraph graph;

	on(c);
	fills[c] = ++last;
	OK(cuStreamBeginCapture_v2(streams[c], CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cuMemcpyDtoDAsync_v2(far, mem[c][0], BYTES, streams[c]));
	OK(cuMemcpyDtoHAsync_v2(pinned, far, BYTES, streams[c]));
	OK(cuMemsetD32Async(far, fills[c], 1024, streams[c]));
	OK(cuMemcpyDtoDAsync_v2(mem[c][1], far, BYTES, streams[c]));
	OK(cuStreamEndCapture(streams[c], &graph));
	OK(cuGraphInstantiateWithFlags(&captured[c], graph, 0));
	OK(cuGraphDestroy(graph));
}

/* The same by nodes. */
static void make(int c)
{
	CUdeviceptr far = mem[!c][1];
	CUDA_MEMCPY3D there = box_of(far, mem[c][0]), back = box_of(mem[c][1], far);
	CUDA_MEMCPY3D out = box_of(0, far);
	CUDA_MEMSET_NODE_PARAMS fill = {
		.dst = far, .value = fills[c], .elementSize = 4, .width = 1024, .height = 1
	};
	CUgraphNode nodes[4];
	CUgraph graph;

	on(c);
	out.dstMemoryType = CU_MEMORYTYPE_HOST;
	out.dstHost = pinned;
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemcpyNode(&nodes[0], graph, NULL, 0, &there, ctxs[c]));
	OK(cuGraphAddMemcpyNode(&nodes[1], graph, &nodes[0], 1, &out, ctxs[c]));
	OK(cuGraphAddMemsetNode(&nodes[2], graph, &nodes[1], 1, &fill, ctxs[c]));
	OK(cuGraphAddMemcpyNode(&nodes[3], graph, &nodes[2], 1, &back, ctxs[c]));
	OK(cuGraphInstantiateWithFlags(&made[c], graph, 0));
	OK(cuGraphDestroy(graph));
}

static CUgraphNodeParams copy_params(int c, CUDA_MEMCPY3D copy)
{
	CUgraphNodeParams params = { .type = CU_GRAPH_NODE_TYPE_MEMCPY };

	params.memcpy.copyCtx = ctxs[c];
	params.memcpy.copyParams = copy;
	return params;
}

/* The same by nodes of any kind. */
static void make_of_any(int c)
{
	CUdeviceptr far = mem[!c][1];
	CUgraphNodeParams there = copy_params(c, box_of(far, mem[c][0]));
	CUgraphNodeParams out = copy_params(c, box_of(0, far));
	CUgraphNodeParams fill = { .type = CU_GRAPH_NODE_TYPE_MEMSET };
	CUgraphNodeParams back = copy_params(c, box_of(mem[c][1], far));
	CUgraphNode nodes[4];
	CUgraph graph;

	on(c);
	out.memcpy.copyParams.dstMemoryType = CU_MEMORYTYPE_HOST;
	out.memcpy.copyParams.dstHost = pinned;
	fill.memset = (CUDA_MEMSET_NODE_PARAMS_v2){ .dst = far,
						    .value = fills[c],
						    .elementSize = 4,
						    .width = 1024,
						    .height = 1,
						    .ctx = ctxs[c] };
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddNode(&nodes[0], graph, NULL, 0, &there));
	OK(cuGraphAddNode_v2(&nodes[1], graph, &nodes[0], NULL, 1, &out));
	OK(cuGraphAddNode(&nodes[2], graph, &nodes[1], 1, &fill));
	OK(cuGraphAddNode(&nodes[3], graph, &nodes[2], 1, &back));
	OK(cuGraphInstantiateWithFlags(&made_of_any[c], graph, 0));
	OK(cuGraphDestroy(graph));
}

static void replay(int c, CUgraphExec exec)
{
	static uint32_t buffer[WORDS];
	uint32_t seed = put(c, mem[c][0]);

	on(c);
	memset(pinned, 0, BYTES);
	OK(cuGraphLaunch(exec, streams[c]));
	OK(cuStreamSynchronize(streams[c]));
	same_host(pinned, seed);
	OK(cuMemcpyDtoH_v2(buffer, mem[c][1], BYTES));
	for (size_t i = 0; i < WORDS; i++)
		SAME(buffer[i], i < 1024 ? fills[c] : word_of(seed, i));
}

static void graph_case(void)
{
	for (int c = 0; c < 2; c++) {
		if (!captured[c]) {
			capture(c);
			make(c);
			make_of_any(c);
		}
		for (int i = 0; i < REPLAYS; i++) {
			replay(c, captured[c]);
			replay(c, made[c]);
			replay(c, made_of_any[c]);
		}
	}
}

/* Of memory of the other device, in the stream of s, with c current. */
static void fill_case_of(int c, int s, int d)
{
	CUdeviceptr addr = mem[d][0], copy = mem[s][1];
	uint32_t value = ++last;

	/* Behind what is in the stream, and before what comes. */
	fill_later(s, copy, value, streams[s]);
	on(c);
	OK(cuMemcpyAsync(addr, copy, BYTES, streams[s]));
	OK(cuMemsetD32Async(addr, ++last, 1024, streams[s]));
	OK(cuMemcpyAsync(copy, addr, BYTES, streams[s]));
	OK(cuStreamSynchronize(streams[s]));
	has_words(d, addr, last, 1024);
	has_words(s, copy, last, 1024);
	has_words(d, addr + 4096, value, WORDS - 1024);
	OK(cuMemsetD32_v2(addr, ++last, WORDS));
	OK(cuCtxSynchronize());
	has_words(d, addr, last, WORDS);
	OK(cuMemsetD32_v2_ptds(addr, ++last, WORDS));
	OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	has_words(d, addr, last, WORDS);
	OK(cuMemsetD16Async(addr, 0x1234, WORDS * 2, streams[s]));
	OK(cuStreamSynchronize(streams[s]));
	has_words(d, addr, 0x12341234, WORDS);
	OK(cuMemsetD8_v2(addr, 0x5a, BYTES));
	OK(cuMemsetD2D8_v2(addr, 4096, 0x77, 4096, 16));
	OK(cuCtxSynchronize());
	has_words(d, addr, 0x77777777, 16384);
	has_words(d, addr + 65536, 0x5a5a5a5a, WORDS - 16384);
	OK(cuMemsetD2D32Async(addr, 4096, 0x99, 1024, 3, streams[s]));
	OK(cuStreamSynchronize(streams[s]));
	has_words(d, addr, 0x99, 3072);
	IS(cuMemsetD8_v2(addr, 1, 64 * MIB), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemsetD32_v2(addr + 1, 1, 4), CUDA_ERROR_INVALID_VALUE);
}

static void fill_case(void)
{
	for (int n = 0; n < 8; n++)
		fill_case_of(n & 1, n >> 1 & 1, n >> 2);
}

/* Between an array of the current device and an object of the other. */
static void array_case(void)
{
	const CUDA_ARRAY_DESCRIPTOR desc = { .Width = 4096,
					     .Format = CU_AD_FORMAT_UNSIGNED_INT32,
					     .NumChannels = 1 };

	for (int c = 0; c < 2; c++) {
		CUdeviceptr far = mem[!c][0], also = mem[!c][1];
		CUarray array;
		uint32_t seed = put(!c, far);

		put(!c, also);
		on(c);
		OK(cuArrayCreate_v2(&array, &desc));
		OK(cuMemcpyDtoA_v2(array, 64, far + 64, 8192));
		OK(cuMemcpyAtoD_v2(also, array, 64, 8192));
		OK(cuCtxSynchronize());
		OK(cuMemcpyDtoH_v2(host, also, 8192));
		for (size_t i = 0; i < 2048; i++)
			SAME(host[i], word_of(seed, i + 16));
		OK(cuArrayDestroy(array));
	}
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "streams", stream_case }, { "host", host_case },   { "pool", pool_case },
	{ "batch", batch_case },    { "graph", graph_case }, { "fill", fill_case },
	{ "array", array_case },
};

static void start(void)
{
	OK(cuInit(0));
	for (int d = 0; d < 2; d++) {
		CUmodule module;

		OK(cuDevicePrimaryCtxRetain(&ctxs[d], d));
		on(d);
		OK(cuModuleLoadData(&module, kernels_ptx));
		OK(cuModuleGetFunction(&fill_words[d], module, "fill"));
		OK(cuModuleGetFunction(&spin_for[d], module, "spin"));
		OK(cuStreamCreate(&streams[d], CU_STREAM_NON_BLOCKING));
		for (int i = 0; i < 2; i++)
			OK(cuMemAlloc_v2(&mem[d][i], BYTES));
	}
	OK(cuMemAllocHost_v2((void **)&pinned, BYTES));
	host = malloc(BYTES);
	CHECK(host);
}

static bool is_told(void)
{
	struct pollfd in = { .fd = 0, .events = POLLIN };

	return poll(&in, 1, 0) != 0;
}

int main(int argc, char **argv)
{
	CHECK(argc > 1);
	start();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(argv[1], cases[i].name) != 0)
			continue;
		cases[i].run();
		puts("ready");
		fflush(stdout);
		while (!is_told())
			cases[i].run();
		puts("end");
		return 0;
	}
	CHECK(!"a case of this name");
}
