/*
 * What an oversubscribed tenant uses comes to the card, and what all is used in turn stays where it
 * is. PIECES of 16 MiB, of which 4 have room on the card.
 */
#include "client.h"
#include "spill_graph.h"

#include <pthread.h>

#define ENTRY(name, params) ".visible .entry " name "(" params ")\n{\n\tret;\n}\n"
#define MODULE                                                                 \
	".version 6.0\n.target sm_50\n.address_size 64\n" ENTRY(               \
		"copy", ".param .u64 to, .param .u64 from, .param .u64 bytes") \
		ENTRY("spin", ".param .u64 ns")

enum { PIECES = 8, NEAR = 4 };
#define PIECE_BYTES (16 * MIB)

static CUdeviceptr pieces[PIECES];
static CUfunction copy, spin;
static CUstream batches; /* uses are copies of a batch in this one */
static bool by_graph;    /* uses are launches of a graph */

static uint64_t moved_mib(void)
{
	return __atomic_load_n(&client_own()->residency[0].moved_bytes, __ATOMIC_RELAXED) / MIB;
}

static void begin(void)
{
	CUmodule module;

	client_start();
	OK(cuModuleLoadData(&module, MODULE));
	OK(cuModuleGetFunction(&copy, module, "copy"));
	OK(cuModuleGetFunction(&spin, module, "spin"));
	for (unsigned i = 0; i < PIECES; i++) {
		OK(cuMemAlloc_v2(&pieces[i], PIECE_BYTES));
		OK(cuMemsetD32_v2(pieces[i], i + 1, PIECE_BYTES / 4));
	}
	SAME(moved_mib(), 0);
	SAME(client_own()->residency[0].card_bytes[0], NEAR * PIECE_BYTES);
	SAME(client_own()->residency[0].host_bytes, (PIECES - NEAR) * PIECE_BYTES);
}

/* One copy of a batch, whose stream is `batches`. */
static void use_by_batch(CUdeviceptr addr, CUdeviceptr to, size_t bytes)
{
	CUmemcpyAttributes attributes = { .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM };
	size_t first = 0, failed = 7;

	OK(cuMemcpyBatchAsync(&to, &addr, &bytes, 1, &attributes, &first, 1, &failed, batches));
	/* What leaves a piece is no copy. */
	to = addr + PIECE_BYTES - 512;
	IS(cuMemcpyBatchAsync(&to, &addr, &bytes, 1, &attributes, &first, 1, &failed, batches),
	   CUDA_ERROR_INVALID_VALUE);
	SAME(failed, 0);
}

/* A kernel that reads and writes a few bytes of it, or a copy. */
static void use(CUdeviceptr addr)
{
	uint64_t bytes = 1024;
	CUdeviceptr to = addr + 8192;
	void *params[] = { &to, &addr, &bytes };

	if (by_graph) {
		spill_graph_launch();
		return;
	}
	if (batches) {
		use_by_batch(addr, to, bytes);
		return;
	}
	OK(cuLaunchKernel(copy, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
}

static void end(void)
{
	client_say("moved", moved_mib());
	for (unsigned i = 0; i < PIECES; i++) {
		static unsigned words[PIECE_BYTES / 4];

		OK(cuMemcpyDtoH_v2(words, pieces[i], PIECE_BYTES));
		for (uint64_t w = 0; w < PIECE_BYTES / 4; w++)
			CHECK(words[w] == i + 1);
		OK(cuMemFree_v2(pieces[i]));
	}
}

/*
 * hot WAY [ROUNDS]: the last one, which lies in host memory, is used all the time; by a batch or a
 * graph. So often at most until it has come.
 */
static void hot(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 3000;

	begin();
	if (argc > 0 && strcmp(argv[0], "batch") == 0)
		OK(cuStreamCreate(&batches, CU_STREAM_DEFAULT));
	else if (argc > 0)
		by_graph = spill_graph_make(argv[0], copy, pieces[PIECES - 1]);
	for (int i = 0; i < rounds && moved_mib() < 32; i++) {
		for (int k = 0; k < 50; k++)
			use(pieces[PIECES - 1]);
		OK(cuCtxSynchronize());
		usleep(5000);
	}
	/* And nothing more. */
	for (int i = 0; i < 200; i++) {
		use(pieces[PIECES - 1]);
		usleep(5000);
	}
	end();
}

/*
 * deep: all that lie in host memory are used, and half a second of work is always queued behind
 * that, so that the device is never without.
 */
static void deep(int argc, char **argv)
{
	enum { DEPTH = 10, STEPS = 600, USES = 10 };
	static uint64_t step_ns = 50000000;
	void *params[] = { &step_ns };
	CUevent ends[DEPTH];

	(void)argc;
	(void)argv;
	begin();
	for (int i = 0; i < DEPTH; i++)
		OK(cuEventCreate(&ends[i], CU_EVENT_DISABLE_TIMING));
	for (int i = 0; i < STEPS && moved_mib() < 128; i++) {
		if (i >= DEPTH)
			OK(cuEventSynchronize(ends[i % DEPTH]));
		OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
		for (int k = 0; k < USES; k++)
			for (int far = NEAR; far < PIECES; far++)
				use(pieces[far]);
		OK(cuEventRecord(ends[i % DEPTH], NULL));
	}
	OK(cuCtxSynchronize());
	end();
}

/* scan: all are used in turn. */
static void scan(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	begin();
	for (int i = 0; i < 600; i++) {
		for (int k = 0; k < PIECES; k++)
			use(pieces[k]);
		OK(cuCtxSynchronize());
		usleep(5000);
	}
	end();
}

/* fill: more than card and host memory may have together is out of memory. */
static void fill(int argc, char **argv)
{
	CUdeviceptr p;
	size_t free_bytes, total_bytes;

	(void)argc;
	(void)argv;
	begin();
	OK(cuMemGetInfo_v2(&free_bytes, &total_bytes));
	client_say("free", free_bytes / MIB);
	for (uint64_t i = 0; i < free_bytes / (2 * MIB); i++)
		OK(cuMemAlloc_v2(&p, 2 * MIB));
	IS(cuMemAlloc_v2(&p, 2 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	IS(cuMemAlloc_v2(&p, 1), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemGetInfo_v2(&free_bytes, &total_bytes));
	SAME(free_bytes, 0);
	end();
}

/* busy: took much in small pieces, and goes on taking and giving back one of them. */
static void busy(int argc, char **argv)
{
	CUdeviceptr small[40];

	(void)argc;
	(void)argv;
	client_start();
	for (int i = 0; i < 40; i++)
		OK(cuMemAlloc_v2(&small[i], MIB));
	for (int i = 0; i < 40; i++)
		OK(cuMemFree_v2(small[i]));
	printf("busy\n");
	fflush(stdout);
	for (int i = 0; i < 20000; i++) {
		OK(cuMemAlloc_v2(&small[0], MIB));
		OK(cuMemFree_v2(small[0]));
		usleep(1000);
	}
}

/* rest: all but two blocks of what two contexts leave is to be had, again and again. */
static void rest(int argc, char **argv)
{
	CUdeviceptr p;

	(void)argc;
	(void)argv;
	client_start();
	for (int i = 0; i < 5; i++) {
		OK(cuMemAlloc_v2(&p, client_limit(0) - 2 * 64 * MIB - 4 * MIB));
		OK(cuMemFree_v2(p));
	}
}

/* keep: what it had in host memory it gave back, and that is at hand yet. */
static void keep(int argc, char **argv)
{
	const struct ration_residency *own;

	(void)argc;
	(void)argv;
	begin();
	for (unsigned i = 0; i < PIECES; i++)
		OK(cuMemFree_v2(pieces[i]));
	own = &client_own()->residency[0];
	while (__atomic_load_n(&own->kept_bytes, __ATOMIC_RELAXED) < (PIECES - NEAR) * PIECE_BYTES)
		usleep(1000);
	SAME(__atomic_load_n(&own->host_bytes, __ATOMIC_RELAXED), (PIECES - NEAR) * PIECE_BYTES);
	printf("kept\n");
	fflush(stdout);
	getchar();
	client_say("host", own->host_bytes);
}

/* all: what is said to be free is to be had. */
static void all(int argc, char **argv)
{
	size_t free_bytes, total_bytes;
	CUdeviceptr p;

	(void)argc;
	(void)argv;
	client_start();
	OK(cuMemGetInfo_v2(&free_bytes, &total_bytes));
	client_say("free", free_bytes / MIB);
	for (uint64_t i = 0; i < free_bytes / PIECE_BYTES; i++)
		OK(cuMemAlloc_v2(&p, PIECE_BYTES));
	IS(cuMemAlloc_v2(&p, PIECE_BYTES), CUDA_ERROR_OUT_OF_MEMORY);
}

/* most: takes what there is, and waits. */
static void most(int argc, char **argv)
{
	CUdeviceptr p;

	(void)argc;
	(void)argv;
	client_start();
	while (cuMemAlloc_v2(&p, 2 * MIB) == CUDA_SUCCESS)
		;
	client_pause("full");
}

/* after: what another took is to be had when that is dead. */
static void after(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	client_start();
	client_pause("ready");
	begin();
	end();
}

static void *reach(void *arg)
{
	CUdeviceptr *piece = arg;
	int fd = -1;

	/* Whatever it answers, the memory has to be on the card and stay there. */
	cuMemGetHandleForAddressRange(&fd, *piece, PIECE_BYTES, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
				      0);
	if (fd >= 0)
		close(fd);
	return NULL;
}

/* reached: threads ask at once for what others can reach, of pieces that lie in host memory. */
static void reached(int argc, char **argv)
{
	pthread_t ids[NEAR];

	(void)argc;
	(void)argv;
	begin();
	for (int i = 0; i < NEAR; i++)
		pthread_create(&ids[i], NULL, reach, &pieces[PIECES - 1 - i]);
	for (int i = 0; i < NEAR; i++)
		pthread_join(ids[i], NULL);
	SAME(client_own()->residency[0].card_bytes[0], NEAR * PIECE_BYTES);
	end();
}

/* near: as many pieces as are to be had, where they lie. */
static void near(int argc, char **argv)
{
	CUdeviceptr p;
	CUresult res;

	(void)argc;
	(void)argv;
	client_start();
	while ((res = cuMemAlloc_v2(&p, PIECE_BYTES)) == CUDA_SUCCESS)
		OK(cuMemsetD32_v2(p, 1, PIECE_BYTES / 4));
	IS(res, CUDA_ERROR_OUT_OF_MEMORY);
	client_say("card", client_own()->residency[0].card_bytes[0] / MIB);
	client_say("host", client_own()->residency[0].host_bytes / MIB);
}

/* A stream-ordered piece, in the forms of both default streams in turn. */
static CUresult take_ordered(int n, CUdeviceptr *out, CUmemGenericAllocationHandle *out_handle)
{
	(void)out_handle;
	return n % 2 ? cuMemAllocAsync_ptsz(out, PIECE_BYTES, NULL) :
		       cuMemAllocAsync(out, PIECE_BYTES, NULL);
}

static CUresult give_ordered(int n, CUdeviceptr addr, CUmemGenericAllocationHandle handle)
{
	(void)handle;
	return n % 2 ? cuMemFreeAsync(addr, NULL) : cuMemFreeAsync_ptsz(addr, NULL);
}

static CUresult take_handle(int n, CUdeviceptr *out, CUmemGenericAllocationHandle *out_handle)
{
	const CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					   .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };

	(void)n;
	(void)out;
	return cuMemCreate(out_handle, PIECE_BYTES, &prop, 0);
}

static CUresult give_handle(int n, CUdeviceptr addr, CUmemGenericAllocationHandle handle)
{
	(void)n;
	(void)addr;
	return cuMemRelease(handle);
}

/*
 * fixed ordered|handle: memory that does not lie in host memory. It is refused when the card has no
 * more, and so says what is free; each piece is freed by the call for its kind, again and again;
 * what gave way is whole. Field faults 147 and 152.
 */
static void fixed(int argc, char **argv)
{
	enum { MOST = 64, ROUNDS = 20 };
	bool is_ordered = argc > 0 && !strcmp(argv[0], "ordered");
	CUmemGenericAllocationHandle handles[MOST] = { 0 };
	CUdeviceptr addrs[MOST] = { 0 };
	size_t free_bytes, total_bytes;
	uint64_t before;

	begin();
	before = client_charged(0);
	for (int round = 0; round < ROUNDS; round++) {
		CUresult res;
		int n = 0;

		while ((res = (is_ordered ? take_ordered : take_handle)(n, &addrs[n],
									&handles[n])) ==
		       CUDA_SUCCESS)
			CHECK(++n < MOST);
		IS(res, CUDA_ERROR_OUT_OF_MEMORY);
		CHECK(n > 0);
		OK(cuMemGetInfo_v2(&free_bytes, &total_bytes));
		CHECK(free_bytes < 2 * PIECE_BYTES);
		while (n--)
			OK((is_ordered ? give_ordered : give_handle)(n, addrs[n], handles[n]));
		OK(cuCtxSynchronize());
	}
	OK(cuMemGetInfo_v2(&free_bytes, &total_bytes));
	CHARGED_IS(0, before);
	end();
}

/* holder: no more than its limit, and what is in it stays, whatever others do. */
static void holder(int argc, char **argv)
{
	uint64_t charged;

	(void)argc;
	(void)argv;
	client_start();
	for (unsigned i = 0; i < PIECES; i++) {
		OK(cuMemAlloc_v2(&pieces[i], PIECE_BYTES));
		OK(cuMemsetD32_v2(pieces[i], i + 1, PIECE_BYTES / 4));
	}
	OK(cuCtxSynchronize());
	charged = client_charged(0);
	client_pause("holding");
	SAME(client_charged(0), charged);
	end();
	client_pause("whole");
}

int main(int argc, char **argv)
{
	static const struct client_case cases[] = {
		{ "fixed", fixed },     { "holder", holder }, { "hot", hot },
		{ "scan", scan },       { "fill", fill },     { "busy", busy },
		{ "rest", rest },       { "keep", keep },     { "all", all },
		{ "most", most },       { "after", after },   { "near", near },
		{ "reached", reached }, { "deep", deep },     { 0 },
	};

	return client_main(argc, argv, cases);
}
