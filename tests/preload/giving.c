/*
 * A card that is full of an oversubscribed tenant's objects gives way to what cannot move: argv[1]
 * says what is asked for. The objects keep their bytes.
 */
#include "client.h"
#include "kernels.h"

#include <pthread.h>

#define PIECE_BYTES (16 * MIB)
enum { PIECES_MOST = 256 };

static CUdeviceptr pieces[PIECES_MOST];
static unsigned count;

static const struct ration_residency *residency(void)
{
	return &client_own()->residency[0];
}

/* Of each MiB of a piece a page is written: what is not takes no time on the software GPU. */
enum { PAGE_WORDS = 1024 };

static void mark(CUdeviceptr piece, unsigned value)
{
	for (uint64_t at = 0; at < PIECE_BYTES; at += MIB)
		OK(cuMemsetD32_v2(piece + at, value, PAGE_WORDS));
}

static bool is_marked(CUdeviceptr piece, unsigned value)
{
	unsigned words[PAGE_WORDS];
	bool is_same = true;

	for (uint64_t at = 0; at < PIECE_BYTES; at += MIB) {
		OK(cuMemcpyDtoH_v2(words, piece + at, sizeof(words)));
		for (unsigned i = 0; i < PAGE_WORDS; i++)
			is_same &= words[i] == value;
	}
	return is_same;
}

/* Until one has no room on the card: that one lies in host memory. */
static void fill(void)
{
	client_start();
	while (__atomic_load_n(&residency()->host_bytes, __ATOMIC_RELAXED) == 0) {
		CHECK(count < PIECES_MOST);
		OK(cuMemAlloc_v2(&pieces[count], PIECE_BYTES));
		mark(pieces[count], count + 1);
		count++;
	}
	OK(cuCtxSynchronize());
	CHECK(residency()->card_bytes[0] == (count - 1) * PIECE_BYTES);
}

/* Some went for it, and no more than twice what was asked for. */
static void check(uint64_t bytes)
{
	uint64_t gone_bytes = (count - 1) * PIECE_BYTES - residency()->card_bytes[0];

	client_say("gone", gone_bytes / MIB);
	CHECK(gone_bytes > 0 && gone_bytes <= 2 * bytes + 4 * PIECE_BYTES);
	SAME(client_charged(0) / MIB >= (count * PIECE_BYTES) / MIB, 1);
	for (unsigned i = 0; i < count; i++)
		CHECK(is_marked(pieces[i], i + 1));
}

static const CUmemAllocationProp prop = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
};

static void handle(int argc, char **argv)
{
	CUmemGenericAllocationHandle h;
	size_t before, after, total;

	(void)argc;
	(void)argv;
	fill();
	OK(cuMemGetInfo_v2(&before, &total));
	OK(cuMemCreate(&h, 128 * MIB, &prop, 0));
	OK(cuMemGetInfo_v2(&after, &total));
	/* What an allocation can get became less by this one. */
	SAME(before - after, 128 * MIB);
	check(128 * MIB);
	OK(cuMemRelease(h));
}

/* Handed out by the host, so that a kernel ends when it is told. */
static uint64_t *meeting;

static void *ask(void *unused)
{
	CUmemGenericAllocationHandle h;
	CUresult res;

	(void)unused;
	/* Waits for what the kernel uses; what it gets then is its own affair. */
	res = cuMemCreate(&h, 128 * MIB, &prop, 0);
	CHECK(res == CUDA_ERROR_OUT_OF_MEMORY || res == CUDA_SUCCESS);
	return NULL;
}

/* The region goes while memory that is in use is to make room. */
static void lost(int argc, char **argv)
{
	CUmodule m;
	CUfunction meet;
	CUdeviceptr at;
	uint64_t goal = 1, *both[2];
	void *params[] = { &both[0], &both[1], &goal };
	pthread_t thread;

	(void)argc;
	(void)argv;
	fill();
	OK(cuMemAllocHost_v2((void **)&meeting, 16));
	both[0] = meeting;
	both[1] = meeting + 1;
	OK(cuModuleLoadData(&m, CLIENT_MODULE));
	OK(cuModuleGetFunction(&meet, m, "ncclMeet"));
	OK(cuLaunchKernel(meet, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	pthread_create(&thread, NULL, ask, NULL);
	/* By then it waits. */
	usleep(600000);
	puts("waiting");
	fflush(stdout);
	getchar();
	__atomic_store_n(&meeting[1], 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	OK(cuCtxSynchronize());
	CHECK(cuMemAlloc_v2(&at, PIECE_BYTES) != CUDA_SUCCESS);
	puts("end");
}

static void async(int argc, char **argv)
{
	CUdeviceptr p;

	(void)argc;
	(void)argv;
	fill();
	OK(cuMemAllocAsync(&p, 100 * MIB, NULL));
	check(128 * MIB);
	OK(cuMemFreeAsync(p, NULL));
}

static void array(int argc, char **argv)
{
	CUDA_ARRAY_DESCRIPTOR d = {
		.Width = 4096, .Height = 4096, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1
	};
	CUarray a;

	(void)argc;
	(void)argv;
	fill();
	OK(cuArrayCreate_v2(&a, &d));
	check(64 * MIB);
	OK(cuArrayDestroy(a));
}

static void mipmap(int argc, char **argv)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {
		.Width = 4096, .Height = 2048, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1
	};
	CUmipmappedArray m;

	(void)argc;
	(void)argv;
	fill();
	OK(cuMipmappedArrayCreate(&m, &d, 3));
	check(64 * MIB);
	OK(cuMipmappedArrayDestroy(m));
}

static void context(int argc, char **argv)
{
	CUcontext ctx, popped;

	(void)argc;
	(void)argv;
	fill();
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuCtxPopCurrent_v2(&popped));
	check(64 * MIB);
	OK(cuCtxDestroy_v2(ctx));
}

static void green(int argc, char **argv)
{
	CUgreenCtx greens[8];
	CUdevResourceDesc desc;
	CUdevResource resource;

	(void)argc;
	(void)argv;
	fill();
	OK(cuDeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM));
	OK(cuDevResourceGenerateDesc(&desc, &resource, 1));
	for (int i = 0; i < 8; i++)
		OK(cuGreenCtxCreate(&greens[i], desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	check(8 * 6 * MIB);
}

#define VARIABLE                                          \
	".version 6.0\n.target sm_50\n.address_size 64\n" \
	".visible .global .align 8 .b8 large[67108864];\n"

static void module(int argc, char **argv)
{
	CUmodule m;

	(void)argc;
	(void)argv;
	fill();
	OK(cuModuleLoadData(&m, VARIABLE));
	check(64 * MIB);
	OK(cuModuleUnload(m));
}

/* Kernels that need local memory: the first launch takes 224 MiB. */
#define LOCAL                                             \
	".version 6.0\n.target sm_50\n.address_size 64\n" \
	".visible .entry empty()\n{\n"                    \
	"\t.local .align 8 .b8 depot[8192];\n\tret;\n}\n"

static void local(int argc, char **argv)
{
	CUmodule m;
	CUfunction f;

	(void)argc;
	(void)argv;
	fill();
	OK(cuModuleLoadData(&m, LOCAL));
	OK(cuModuleGetFunction(&f, m, "empty"));
	OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	OK(cuCtxSynchronize());
	check(224 * MIB);
}

/*
 * launch: some launches of many, of a function that was launched before, find no room (the software
 * GPU was told so). They take place all the same, with the parameters that they had.
 */
static void launch(int argc, char **argv)
{
	enum { LAUNCHES = 200, WORDS = 1024 };
	static uint32_t words[WORDS];
	uint64_t count_words = WORDS;
	CUdeviceptr to;
	CUstream stream;
	CUfunction f;
	CUmodule m;

	(void)argc;
	(void)argv;
	fill();
	OK(cuModuleLoadData(&m, kernels_ptx));
	OK(cuModuleGetFunction(&f, m, "fill"));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc_v2(&to, sizeof(words)));
	for (uint32_t i = 1; i <= LAUNCHES; i++) {
		void *params[] = { &to, &i, &count_words };

		OK(cuLaunchKernel(f, 2, 1, 1, 32, 1, 1, 0, stream, params, NULL));
		OK(cuStreamSynchronize(stream));
		OK(cuMemcpyDtoH_v2(words, to, sizeof(words)));
		CHECK(words[0] == i && memcmp(words, words + 1, sizeof(words) - 4) == 0);
	}
	check(4 * 64 * MIB);
}

static void heap(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	fill();
	OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 64 * MIB));
	check(64 * MIB);
}

static void graph(int argc, char **argv)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = {
		.poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			       .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } },
		.bytesize = 64 * MIB,
	};
	CUgraphNode node, end;
	CUgraphExec exec;
	CUgraph g;

	(void)argc;
	(void)argv;
	fill();
	OK(cuGraphCreate(&g, 0));
	OK(cuGraphAddMemAllocNode(&node, g, NULL, 0, &params));
	OK(cuGraphAddMemFreeNode(&end, g, &node, 1, params.dptr));
	OK(cuGraphInstantiateWithFlags(&exec, g, 0));
	OK(cuGraphLaunch(exec, NULL));
	OK(cuCtxSynchronize());
	check(64 * MIB);
}

/* nothing: what could not be had if all went lets nothing go. */
static void nothing(int argc, char **argv)
{
	CUmemGenericAllocationHandle h;

	(void)argc;
	(void)argv;
	fill();
	IS(cuMemCreate(&h, 2048 * MIB, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
	SAME(residency()->moved_bytes, 0);
}

/* captured: nothing goes while a capture is under way. */
static void captured(int argc, char **argv)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUmemGenericAllocationHandle h;
	CUstream stream;
	CUgraph g;

	(void)argc;
	(void)argv;
	fill();
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	IS(cuMemCreate(&h, 64 * MIB, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
	SAME(residency()->moved_bytes, 0);
	OK(cuStreamEndCapture(stream, &g));
	OK(cuMemCreate(&h, 64 * MIB, &prop, 0));
	check(64 * MIB);
}

/* bounded: what host memory has no room for stays on the card. */
static void bounded(int argc, char **argv)
{
	CUmemGenericAllocationHandle h;

	(void)argc;
	(void)argv;
	fill();
	IS(cuMemCreate(&h, 256 * MIB, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemCreate(&h, 16 * MIB, &prop, 0));
	CHECK(residency()->host_bytes <= 64 * MIB);
}

/* Refused is what others did not give in half a second: on a busy machine they may need longer. */
#define while_refused(call)                                                   \
	do {                                                                  \
		CUresult refused_res = CUDA_ERROR_OUT_OF_MEMORY;              \
		for (int k = 0; k < 20 && refused_res != CUDA_SUCCESS; k++) { \
			refused_res = (call);                                 \
			if (refused_res != CUDA_ERROR_OUT_OF_MEMORY)          \
				OK(refused_res);                              \
		}                                                             \
		OK(refused_res);                                              \
	} while (0)

static void *take(void *arg)
{
	(void)arg;
	for (int i = 0; i < 20; i++) {
		CUmemGenericAllocationHandle h;

		while_refused(cuMemCreate(&h, 48 * MIB, &prop, 0));
		OK(cuMemRelease(h));
	}
	return NULL;
}

/* threads: several ask at once, and more than one after the other. */
static void threads(int argc, char **argv)
{
	pthread_t ids[4];

	(void)argc;
	(void)argv;
	fill();
	for (int i = 0; i < 4; i++)
		pthread_create(&ids[i], NULL, take, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(ids[i], NULL);
	check(4 * 48 * MIB);
}

static _Atomic bool is_over;

static void *take_on(void *arg)
{
	(void)arg;
	while (!is_over) {
		CUmemGenericAllocationHandle h;

		OK(cuMemCreate(&h, 48 * MIB, &prop, 0));
		OK(cuMemRelease(h));
	}
	return NULL;
}

/* steered: asks again and again while it is suspended and resumed. */
static void steered(int argc, char **argv)
{
	pthread_t id;

	(void)argc;
	(void)argv;
	fill();
	pthread_create(&id, NULL, take_on, NULL);
	client_pause("working");
	is_over = true;
	pthread_join(id, NULL);
	check(960 * MIB);
}

/* holder: fills the card and says so; its bytes are right when it is let go. */
static void holder(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	fill();
	client_pause("full");
	check(256 * MIB);
}

/* other: another process of the tenant has what is on the card. */
static void other(int argc, char **argv)
{
	CUmemGenericAllocationHandle h = 0;
	CUcontext ctx = NULL;

	(void)argc;
	(void)argv;
	OK(cuInit(0));
	while_refused(cuDevicePrimaryCtxRetain(&ctx, 0));
	client_start();
	while_refused(cuMemCreate(&h, 128 * MIB, &prop, 0));
	for (int d = 0; d < RATION_DEVICES; d++)
		SAME(client_own()->room_blocks[d], 0);
	client_pause("has");
	OK(cuMemRelease(h));
}

int main(int argc, char **argv)
{
	static const struct client_case cases[] = {
		{ "handle", handle },   { "lost", lost },
		{ "async", async },     { "array", array },
		{ "mipmap", mipmap },   { "context", context },
		{ "green", green },     { "module", module },
		{ "local", local },     { "launch", launch },
		{ "heap", heap },       { "graph", graph },
		{ "nothing", nothing }, { "captured", captured },
		{ "bounded", bounded }, { "threads", threads },
		{ "steered", steered }, { "holder", holder },
		{ "other", other },     { 0 },
	};

	return client_main(argc, argv, cases);
}
