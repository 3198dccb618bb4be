/*
 * Stream-ordered memory and pools under a limit. Which case does what is said at it.
 */
#include <pthread.h>

#include "client.h"
#include "client_held.h"

#define CONTEXT_BYTES (64 * MIB)
#define GROWTH_BYTES (32 * MIB) /* of a pool */

static CUmemoryPool new_pool(int dev, uint64_t threshold_bytes)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = dev } };
	cuuint64_t threshold = threshold_bytes;
	CUmemoryPool pool;

	OK(cuMemPoolCreate(&pool, &props));
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
	return pool;
}

static uint64_t figure(CUmemoryPool pool, CUmemPool_attribute what)
{
	cuuint64_t bytes;

	OK(cuMemPoolGetAttribute(pool, what, &bytes));
	return bytes;
}

static CUmemoryPool current_pool(int dev)
{
	CUmemoryPool pool;

	OK(cuDeviceGetMemPool(&pool, dev));
	return pool;
}

/* A look as a program has it: it shows what a synchronisation gave back. */
static uint64_t free_bytes(void)
{
	size_t left, total;

	OK(cuMemGetInfo_v2(&left, &total));
	return left;
}

/* A pool is charged by what it holds; what comes from its room costs nothing more. */
static void grow(int argc, char **argv)
{
	CUdeviceptr p, q, r;

	(void)argc;
	(void)argv;
	client_start();
	OK(cuMemAllocAsync(&p, 1000, NULL));
	CHARGED_IS(0, CONTEXT_BYTES + GROWTH_BYTES);
	OK(cuMemAllocAsync(&q, 20 * MIB, NULL));
	CHARGED_IS(0, CONTEXT_BYTES + GROWTH_BYTES);
	OK(cuMemAllocAsync_ptsz(&r, 33 * MIB, NULL));
	CHARGED_IS(0, CONTEXT_BYTES + 3 * GROWTH_BYTES);
	client_pause("held");
	OK(cuMemFreeAsync_ptsz(r, NULL));
	OK(cuMemFreeAsync(q, NULL));
	OK(cuMemFreeAsync(p, NULL));
	OK(cuCtxSynchronize());
	SAME(free_bytes(), client_limit(0) - CONTEXT_BYTES);
	CHARGED_IS(0, CONTEXT_BYTES);
	client_pause("empty");
}

/*
 * A managed pool that is destroyed with memory in it counts until that is freed, by either call,
 * and its stream has come to that.
 */
static void destroy_managed(int argc, char **argv)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_MANAGED,
				 .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUmemoryPool pool, other;
	CUdeviceptr p, q, r;

	(void)argc;
	(void)argv;
	client_start();
	OK(cuMemPoolCreate(&pool, &props));
	OK(cuMemAllocFromPoolAsync(&p, 32 * MIB, pool, NULL));
	OK(cuMemAllocFromPoolAsync(&q, 64 * MIB, pool, NULL));
	CHARGED_IS(0, CONTEXT_BYTES + 96 * MIB);
	OK(cuMemPoolDestroy(pool));
	OK(cuMemPoolCreate(&other, &props));
	OK(cuMemAllocFromPoolAsync(&r, 32 * MIB, other, NULL));
	CHARGED_IS(0, CONTEXT_BYTES + 128 * MIB);
	OK(cuMemFreeAsync(p, NULL));
	CHARGED_IS(0, CONTEXT_BYTES + 128 * MIB);
	OK(cuCtxSynchronize());
	OK(cuMemFree_v2(q));
	CHARGED_IS(0, CONTEXT_BYTES + 32 * MIB);
	IS(cuMemFree_v2(q), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFreeAsync(r, NULL));
	OK(cuCtxSynchronize());
	OK(cuMemPoolDestroy(other));
	CHARGED_IS(0, CONTEXT_BYTES);
}

/* Under the threshold a pool keeps what it has; that counts, and goes by a trim. */
static void threshold(int argc, char **argv)
{
	CUmemoryPool pool;
	CUdeviceptr p, q;

	(void)argc;
	(void)argv;
	client_start();
	pool = new_pool(0, 64 * MIB);
	OK(cuMemAllocFromPoolAsync(&p, 96 * MIB, pool, NULL));
	OK(cuMemAllocFromPoolAsync(&q, 32 * MIB, pool, NULL));
	CHARGED_IS(0, CONTEXT_BYTES + 128 * MIB);
	OK(cuMemFreeAsync(p, NULL));
	OK(cuMemFreeAsync(q, NULL));
	OK(cuCtxSynchronize());
	free_bytes();
	CHARGED_IS(0, CONTEXT_BYTES + figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
	CHECK(client_charged(0) > CONTEXT_BYTES);
	/* Others get what it does not use: asked for before anything is refused. */
	OK(cuMemAlloc_v2(&p, client_limit(0) - CONTEXT_BYTES));
	CHARGED_IS(0, client_limit(0));
	OK(cuMemFree_v2(p));
	OK(cuMemAllocFromPoolAsync(&p, 1, pool, NULL));
	OK(cuMemFreeAsync(p, NULL));
	OK(cuCtxSynchronize());
	CHARGED_IS(0, CONTEXT_BYTES + GROWTH_BYTES);
	OK(cuMemPoolTrimTo(pool, GROWTH_BYTES));
	CHARGED_IS(0, CONTEXT_BYTES + GROWTH_BYTES);
	OK(cuMemPoolTrimTo(pool, 0));
	CHARGED_IS(0, CONTEXT_BYTES);
	OK(cuMemPoolDestroy(pool));
	CHARGED_IS(0, CONTEXT_BYTES);
}

/* A pool that is destroyed with memory in it counts until that is freed. */
static void destroy(int argc, char **argv)
{
	CUmemoryPool pool;
	CUdeviceptr p, q;

	(void)argc;
	(void)argv;
	client_start();
	pool = new_pool(0, UINT64_MAX);
	OK(cuMemAllocFromPoolAsync(&p, 32 * MIB, pool, NULL));
	OK(cuMemAllocFromPoolAsync(&q, 64 * MIB, pool, NULL));
	OK(cuMemFreeAsync(p, NULL));
	OK(cuCtxSynchronize());
	CHARGED_IS(0, CONTEXT_BYTES + 96 * MIB);
	OK(cuMemPoolDestroy(pool));
	client_pause("destroyed");
	CHECK(client_charged(0) >= CONTEXT_BYTES + 64 * MIB);
	OK(cuMemFreeAsync(q, NULL));
	OK(cuCtxSynchronize());
	/* No call says that it went: the view finds it. */
	SAME(free_bytes(), client_limit(0) - CONTEXT_BYTES);
	OK(cuMemAlloc_v2(&p, client_limit(0) - CONTEXT_BYTES));
	OK(cuMemFree_v2(p));
	CHARGED_IS(0, CONTEXT_BYTES);
	/* One that kept what it does not use goes with it. */
	pool = new_pool(0, UINT64_MAX);
	OK(cuMemAllocFromPoolAsync(&p, 40 * MIB, pool, NULL));
	OK(cuMemFreeAsync(p, NULL));
	OK(cuCtxSynchronize());
	CHARGED_IS(0, CONTEXT_BYTES + 64 * MIB);
	OK(cuMemPoolDestroy(pool));
	CHARGED_IS(0, CONTEXT_BYTES);
}

/* frees: cuMemFree takes what a pool gave; cuMemFreeAsync of what is no pool's changes nothing. */
static void frees(int argc, char **argv)
{
	CUdeviceptr p, q;
	CUresult res;

	(void)argc;
	(void)argv;
	client_start();
	OK(cuMemAllocAsync(&p, 10 * MIB, NULL));
	OK(cuMemFree_v2(p));
	IS(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	OK(cuCtxSynchronize());
	free_bytes();
	CHARGED_IS(0, CONTEXT_BYTES);
	OK(cuMemAlloc_v2(&q, 10 * MIB));
	res = cuMemFreeAsync(q, NULL);
	CHARGED_IS(0, CONTEXT_BYTES + (res == CUDA_SUCCESS ? 0 : 10 * MIB));
	if (res != CUDA_SUCCESS)
		OK(cuMemFree_v2(q));
	CHARGED_IS(0, CONTEXT_BYTES);
}

/* other-device: memory of another device's stream, whichever device is current. Field fault 9. */
static void other_device(int argc, char **argv)
{
	CUcontext ctx[2];
	CUstream stream[2];
	CUdeviceptr p;

	(void)argc;
	(void)argv;
	OK(cuInit(0));
	for (int d = 0; d < 2; d++) {
		OK(cuDevicePrimaryCtxRetain(&ctx[d], d));
		OK(cuCtxSetCurrent(ctx[d]));
		OK(cuStreamCreate(&stream[d], CU_STREAM_NON_BLOCKING));
	}
	for (int i = 0; i < 50; i++) {
		int on = i % 2;

		OK(cuCtxSetCurrent(ctx[!on]));
		OK(cuMemAllocAsync(&p, 8 * MIB, stream[on]));
		SAME(client_charged(on), CONTEXT_BYTES + GROWTH_BYTES);
		SAME(client_charged(!on), CONTEXT_BYTES);
		OK(cuMemFreeAsync(p, stream[on]));
		OK(cuStreamSynchronize(stream[on]));
		OK(cuCtxSetCurrent(ctx[on]));
		free_bytes();
		CHARGED_IS(0, CONTEXT_BYTES);
		CHARGED_IS(1, CONTEXT_BYTES);
	}
	/* A pool of one device, used from the other's stream. */
	OK(cuCtxSetCurrent(ctx[0]));
	OK(cuMemAllocFromPoolAsync(&p, 8 * MIB, current_pool(1), stream[0]));
	CHARGED_IS(0, CONTEXT_BYTES);
	CHARGED_IS(1, CONTEXT_BYTES + GROWTH_BYTES);
	OK(cuMemFreeAsync(p, stream[0]));
	OK(cuStreamSynchronize(stream[0]));
}

/*
 * loop: 1 to 256 MiB, with a trim now and then. Field fault 11: false refusals, or a charge but
 * once.
 */
static void loop(int argc, char **argv)
{
	CUmemoryPool pool;
	CUdeviceptr p;

	(void)argc;
	(void)argv;
	client_start();
	pool = current_pool(0);
	for (uint64_t i = 0; i < 1000; i++) {
		OK(cuMemAllocAsync(&p, (1 + i * 7919 % 256) * MIB, NULL));
		SAME(client_charged(0),
		     CONTEXT_BYTES + figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
		CHECK(client_charged(0) <= client_limit(0));
		OK(cuMemFreeAsync(p, NULL));
		if (i % 10 == 0)
			OK(cuCtxSynchronize());
		if (i % 7 == 0)
			OK(cuMemPoolTrimTo(pool, i % 2 ? 0 : 64 * MIB));
	}
	OK(cuCtxSynchronize());
	OK(cuMemPoolTrimTo(pool, 0));
	CHARGED_IS(0, CONTEXT_BYTES);
}

/*
 * capture [break]: allocations that are captured take nothing, whatever comes of it. Field fault 8.
 */
static void capture(int argc, char **argv)
{
	bool is_broken = argc > 0 && !strcmp(argv[0], "break");
	CUstream stream;
	CUgraph graph = NULL;
	CUdeviceptr p, q;
	CUresult res;

	client_start();
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	res = cuMemAllocAsync(&p, 500 * MIB, stream);
	if (res == CUDA_ERROR_NOT_SUPPORTED) {
		puts("not-supported 1");
		return;
	}
	OK(res);
	CHARGED_IS(0, CONTEXT_BYTES);
	OK(cuMemAllocAsync(&q, 100 * MIB, stream));
	OK(cuMemFreeAsync(q, stream));
	if (is_broken)
		CHECK(cuStreamSynchronize(stream) != CUDA_SUCCESS);
	else
		OK(cuMemFreeAsync(p, stream));
	res = cuStreamEndCapture(stream, &graph);
	CHECK((res == CUDA_SUCCESS) == !is_broken);
	CHARGED_IS(0, CONTEXT_BYTES);
	if (res == CUDA_SUCCESS)
		OK(cuGraphDestroy(graph));
	CHARGED_IS(0, CONTEXT_BYTES);
	OK(cuMemAllocAsync(&p, MIB, stream));
	CHARGED_IS(0, CONTEXT_BYTES + GROWTH_BYTES);
	OK(cuMemFreeAsync(p, stream));
	OK(cuStreamSynchronize(stream));
}

/* odd: nonsense; the answers are the driver's, and nothing stays charged. */
static void odd(int argc, char **argv)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 99 } };
	CUmemPoolProps host = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location = { .type = CU_MEM_LOCATION_TYPE_HOST, .id = 0 } };
	CUmemoryPool pool = NULL, none = (CUmemoryPool)(uintptr_t)0x1234;
	CUdeviceptr p = 0;

	(void)argc;
	(void)argv;
	printf("early %d %d\n", cuMemAllocAsync(&p, 4096, NULL), cuMemPoolCreate(&pool, &props));
	client_start();
	printf("alloc %d %d %d %d\n", cuMemAllocAsync(NULL, 4096, NULL),
	       cuMemAllocAsync(&p, 0, NULL), cuMemAllocAsync(&p, SIZE_MAX, NULL),
	       cuMemAllocAsync_ptsz(&p, SIZE_MAX / 2, NULL));
	printf("pool %d %d %d\n", cuMemAllocFromPoolAsync(&p, 4096, none, NULL),
	       cuMemAllocFromPoolAsync(NULL, 4096, current_pool(0), NULL),
	       cuMemAllocFromPoolAsync(&p, 0, current_pool(0), NULL));
	printf("create %d %d %d\n", cuMemPoolCreate(NULL, &props), cuMemPoolCreate(&pool, NULL),
	       cuMemPoolCreate(&pool, &props));
	printf("host %d\n", cuMemPoolCreate(&pool, &host));
	printf("trim %d %d\n", cuMemPoolTrimTo(NULL, 0), cuMemPoolTrimTo(none, 0));
	printf("destroy %d %d %d\n", cuMemPoolDestroy(NULL), cuMemPoolDestroy(none),
	       cuMemPoolDestroy(current_pool(0)));
	printf("free %d %d %d\n", cuMemFreeAsync(0, NULL), cuMemFreeAsync(0xdead000, NULL),
	       cuMemFreeAsync_ptsz(UINT64_MAX, NULL));
	OK(cuCtxSetCurrent(NULL));
	printf("no context %d %d\n", cuMemAllocAsync(&p, 4096, NULL), cuMemFreeAsync(p, NULL));
	if (getenv("RATION_MEM"))
		CHARGED_IS(0, CONTEXT_BYTES);
}

static void wait_for_word(void *arg)
{
	while (!__atomic_load_n((int *)arg, __ATOMIC_ACQUIRE))
		usleep(1000);
}

/*
 * pending: the pool's room is in pieces, and what is undone stays until its stream comes to it. One
 * request finds that out, within the step that is left; no other makes the pool grow meanwhile.
 */
static void pending(int argc, char **argv)
{
	enum { STREAMS = 6, PIECES = 256 };
	CUdeviceptr pieces[PIECES], p;
	CUstream streams[STREAMS];
	CUmemoryPool pool;
	int count = 0, word = 0;

	(void)argc;
	(void)argv;
	client_start();
	pool = new_pool(0, UINT64_MAX);
	while (count < PIECES &&
	       cuMemAllocFromPoolAsync(&pieces[count], 2 * MIB, pool, NULL) == CUDA_SUCCESS)
		count++;
	CHARGED_IS(0, client_limit(0) - GROWTH_BYTES);
	for (int i = 0; i < count; i += 2)
		OK(cuMemFreeAsync(pieces[i], NULL));
	OK(cuCtxSynchronize());
	for (int i = 0; i < STREAMS; i++) {
		OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
		OK(cuLaunchHostFunc(streams[i], wait_for_word, &word));
		IS(cuMemAllocFromPoolAsync(&p, 8 * MIB, pool, streams[i]),
		   CUDA_ERROR_OUT_OF_MEMORY);
		CHECK(client_charged(0) <= client_limit(0));
	}
	__atomic_store_n(&word, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < STREAMS; i++)
		OK(cuStreamSynchronize(streams[i]));
	for (int i = 1; i < count; i += 2)
		OK(cuMemFreeAsync(pieces[i], NULL));
	OK(cuCtxSynchronize());
	OK(cuMemPoolTrimTo(pool, 0));
	CHARGED_IS(0, CONTEXT_BYTES);
}

static void sleep_some(void *arg)
{
	(void)arg;
	usleep(300000);
}

/*
 * destroy-pending: a destroyed pool holds what streams have not come to. That counts until then,
 * and nothing of it later.
 */
static void destroy_pending(int argc, char **argv)
{
	CUstream stream;
	CUmemoryPool pool;
	CUdeviceptr p;
	uint64_t begun;
	int word = 0;

	(void)argc;
	(void)argv;
	client_start();
	begun = free_bytes();
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < 3; i++) {
		pool = new_pool(0, UINT64_MAX);
		OK(cuMemAllocFromPoolAsync(&p, 160 * MIB, pool, stream));
		OK(cuLaunchHostFunc(stream, sleep_some, NULL));
		OK(cuMemFreeAsync(p, stream));
		OK(cuMemPoolDestroy(pool));
		OK(cuStreamSynchronize(stream));
		SAME(free_bytes(), begun);
	}
	pool = new_pool(0, UINT64_MAX);
	OK(cuMemAllocFromPoolAsync(&p, 160 * MIB, pool, stream));
	OK(cuLaunchHostFunc(stream, wait_for_word, &word));
	OK(cuMemFreeAsync(p, stream));
	OK(cuMemPoolDestroy(pool));
	IS(cuMemAlloc_v2(&p, 160 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	__atomic_store_n(&word, 1, __ATOMIC_RELEASE);
	OK(cuStreamSynchronize(stream));
}

/* destroy-managed-pending: so does a managed one, freed before or after it was destroyed. */
static void destroy_managed_pending(int argc, char **argv)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_MANAGED,
				 .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
	CUstream stream, other;
	CUmemoryPool pool;
	CUdeviceptr p, q;
	uint64_t begun;
	CUcontext ctx;

	(void)argc;
	(void)argv;
	client_start();
	begun = free_bytes();
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < 3; i++) {
		int word = 0;

		OK(cuMemPoolCreate(&pool, &props));
		OK(cuMemAllocFromPoolAsync(&p, 64 * MIB, pool, stream));
		OK(cuMemAllocFromPoolAsync(&q, 64 * MIB, pool, stream));
		OK(cuStreamSynchronize(stream));
		OK(cuLaunchHostFunc(stream, wait_for_word, &word));
		if (i < 2)
			OK(cuMemFreeAsync(p, stream));
		if (i < 1)
			OK(cuMemFreeAsync(q, other));
		OK(cuMemPoolDestroy(pool));
		if (i == 1)
			OK(cuMemFreeAsync(q, other));
		if (i == 2) {
			OK(cuMemFreeAsync(q, other));
			OK(cuMemFreeAsync(p, stream));
		}
		OK(cuStreamSynchronize(other));
		CHECK(free_bytes() <= begun - 64 * MIB);
		IS(cuMemAlloc_v2(&p, begun - 62 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
		__atomic_store_n(&word, 1, __ATOMIC_RELEASE);
		OK(cuStreamSynchronize(stream));
		SAME(free_bytes(), begun);
	}
	/* A context that ends takes its streams along. */
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemPoolCreate(&pool, &props));
	OK(cuMemAllocFromPoolAsync(&p, 64 * MIB, pool, stream));
	OK(cuLaunchHostFunc(stream, sleep_some, NULL));
	OK(cuMemFreeAsync(p, stream));
	OK(cuMemPoolDestroy(pool));
	OK(cuCtxDestroy_v2(ctx));
	SAME(free_bytes(), begun);
}

static _Atomic bool is_over;

static void *make_and_destroy(void *ctx)
{
	enum { POOLS = 6 };
	CUmemoryPool pools[POOLS];
	CUdeviceptr pieces[POOLS];
	CUstream stream;

	OK(cuCtxSetCurrent(ctx));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	while (!is_over) {
		int count = 0;

		for (int i = 0; i < POOLS; i++) {
			pools[count] = new_pool(0, 0);
			if (cuMemAllocFromPoolAsync(&pieces[count], 30 * MIB, pools[count],
						    stream) == CUDA_SUCCESS)
				count++;
			else
				OK(cuMemPoolDestroy(pools[count]));
		}
		while (count-- > 0) {
			OK(cuMemFreeAsync(pieces[count], stream));
			OK(cuMemPoolDestroy(pools[count]));
		}
	}
	OK(cuStreamSynchronize(stream));
	return NULL;
}

/* destroy-crowd SECONDS: threads make pools and destroy them with frees on their way. */
static void destroy_crowd(int argc, char **argv)
{
	enum { THREADS = 3 };
	pthread_t threads[THREADS];
	CUcontext ctx = client_start();

	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, make_and_destroy, ctx) == 0);
	usleep((useconds_t)(1e6 * (argc > 0 ? atof(argv[0]) : 1)));
	is_over = true;
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	OK(cuCtxSynchronize());
	SAME(free_bytes(), client_limit(0) - CONTEXT_BYTES);
	CHARGED_IS(0, CONTEXT_BYTES);
}

/*
 * reuse: what was freed in a stream is given out again in that stream at once, though the tenant
 * has no room for the pool to grow, and the stream is far behind.
 */
static void reuse(int argc, char **argv)
{
	const uint64_t bytes = strtoull(getenv("RATION_MEM"), NULL, 10) - CONTEXT_BYTES - 96 * MIB;
	CUstream stream, other;
	CUmemoryPool pool;
	CUdeviceptr p, q;
	int word = 0;

	(void)argc;
	(void)argv;
	client_start();
	pool = new_pool(0, UINT64_MAX);
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	OK(cuMemAllocFromPoolAsync(&p, bytes, pool, stream));
	OK(cuLaunchHostFunc(stream, wait_for_word, &word));
	for (int i = 0; i < 100; i++) {
		OK(cuMemFreeAsync(p, stream));
		OK(cuMemAllocFromPoolAsync(&p, bytes - (uint64_t)i * 4096, pool, stream));
		CHARGED_IS(0, client_limit(0) - 96 * MIB);
	}
	/* Not what the hole does not hold any more, nor what another stream has freed. */
	OK(cuMemFreeAsync(p, stream));
	OK(cuMemAllocFromPoolAsync(&p, 40 * MIB, pool, stream));
	OK(cuMemAllocFromPoolAsync(&q, 64 * MIB, pool, other));
	CHECK(client_charged(0) <= client_limit(0));
	OK(cuMemFreeAsync(q, other));
	__atomic_store_n(&word, 1, __ATOMIC_RELEASE);
	/* In another stream it is waited for, and found. */
	OK(cuMemFreeAsync(p, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuMemAllocFromPoolAsync(&p, bytes, pool, other));
	OK(cuMemFreeAsync(p, other));
	OK(cuStreamSynchronize(other));
	OK(cuMemPoolDestroy(pool));
	CHARGED_IS(0, CONTEXT_BYTES);
}

/* late: what a stream has not come to is waited for before anything is refused. */
static void late(int argc, char **argv)
{
	const uint64_t bytes = strtoull(getenv("RATION_MEM"), NULL, 10) - CONTEXT_BYTES - 96 * MIB;
	CUstream stream;
	CUdeviceptr p;

	(void)argc;
	(void)argv;
	client_start();
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemAllocAsync(&p, bytes, stream));
	for (int i = 0; i < 3; i++) {
		OK(cuLaunchHostFunc(stream, sleep_some, NULL));
		OK(cuMemFreeAsync(p, stream));
		OK(cuMemAllocAsync(&p, bytes, stream));
		CHECK(client_charged(0) <= client_limit(0));
	}
	OK(cuMemFreeAsync(p, stream));
	OK(cuStreamSynchronize(stream));
}

enum { THREADS = 4, KEPT = 8, ROUNDS = 400 };

static struct {
	CUcontext ctx;
	CUmemoryPool pool;
	unsigned long long got, refused;
	pthread_mutex_t mutex;
} crowd = { .mutex = PTHREAD_MUTEX_INITIALIZER };

/* Takes and gives back at random, in a stream of its own. */
static void *churn(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg, got = 0, refused = 0;
	CUdeviceptr kept[KEPT] = { 0 };
	CUstream stream;

	OK(cuCtxSetCurrent(crowd.ctx));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < ROUNDS; i++) {
		CUdeviceptr *p = &kept[rand_r(&seed) % KEPT];
		uint64_t bytes = 1 + (uint64_t)rand_r(&seed) % (40 * MIB);
		CUresult res;

		if (*p) {
			OK(cuMemFreeAsync(*p, stream));
			*p = 0;
			continue;
		}
		res = rand_r(&seed) % 2 ? cuMemAllocAsync(p, bytes, stream) :
					  cuMemAllocFromPoolAsync(p, bytes, crowd.pool, stream);
		if (res == CUDA_SUCCESS) {
			got++;
			continue;
		}
		IS(res, CUDA_ERROR_OUT_OF_MEMORY);
		/* What was given back is not there. */
		SAME(*p, 0);
		refused++;
		OK(cuStreamSynchronize(stream));
	}
	for (int i = 0; i < KEPT; i++)
		if (kept[i])
			OK(cuMemFreeAsync(kept[i], stream));
	OK(cuStreamSynchronize(stream));
	pthread_mutex_lock(&crowd.mutex);
	crowd.got += got;
	crowd.refused += refused;
	pthread_mutex_unlock(&crowd.mutex);
	return NULL;
}

/* threads: several of them under a limit that they cannot all fit. */
static void threads(int argc, char **argv)
{
	pthread_t thread[THREADS];

	(void)argc;
	(void)argv;
	crowd.ctx = client_start();
	crowd.pool = new_pool(0, UINT64_MAX);
	client_pause("begin");
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&thread[i], NULL, churn, (void *)(i + 1)) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	client_say("got", crowd.got);
	client_say("refused", crowd.refused);
	free_bytes();
	client_pause("ended");
	OK(cuCtxSynchronize());
	OK(cuMemPoolTrimTo(crowd.pool, 0));
	OK(cuMemPoolTrimTo(current_pool(0), 0));
	CHARGED_IS(0, CONTEXT_BYTES);
	client_pause("empty");
}

/*
 * fragments: a pool whose room lies in pieces has no room for a larger request. What it then grew
 * by goes back at once, and what fits is found all the same, though the pool might have grown for
 * it.
 */
static void fragments(int argc, char **argv)
{
	enum { PIECES = 512 };
	CUdeviceptr piece[PIECES], large;
	CUmemoryPool pool;
	int n = 0;

	(void)argc;
	(void)argv;
	client_start();
	pool = new_pool(0, UINT64_MAX);
	while (n < PIECES &&
	       cuMemAllocFromPoolAsync(&piece[n], 2 * MIB, pool, NULL) == CUDA_SUCCESS)
		n++;
	CHARGED_IS(0, client_limit(0) - GROWTH_BYTES);
	for (int i = 0; i < n; i += 2)
		OK(cuMemFreeAsync(piece[i], NULL));
	OK(cuCtxSynchronize());
	for (int i = 0; i < 3; i++)
		IS(cuMemAllocFromPoolAsync(&large, 8 * MIB, pool, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	/* What the stream has not come to in time is given back by a later request. */
	for (int i = 0; i < 1000 && client_charged(0) != client_limit(0) - GROWTH_BYTES; i++)
		IS(cuMemAllocFromPoolAsync(&large, 8 * MIB, pool, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	CHARGED_IS(0, client_limit(0) - GROWTH_BYTES);
	client_pause("refused");
	for (int i = 0; i < n; i += 2)
		OK(cuMemAllocFromPoolAsync(&piece[i], 2 * MIB, pool, NULL));
	IS(cuMemAllocFromPoolAsync(&large, 2 * MIB, pool, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	for (int i = 0; i < n; i += 2)
		OK(cuMemFreeAsync(piece[i], NULL));
	OK(cuMemAllocFromPoolAsync(&large, 2 * MIB, pool, NULL));
	OK(cuMemFreeAsync(large, NULL));
	for (int i = 1; i < n; i += 2)
		OK(cuMemFreeAsync(piece[i], NULL));
	OK(cuCtxSynchronize());
	OK(cuMemAllocFromPoolAsync(&large, 8 * MIB, pool, NULL));
	OK(cuMemFreeAsync(large, NULL));
	OK(cuCtxSynchronize());
	OK(cuMemPoolTrimTo(pool, 0));
	CHARGED_IS(0, CONTEXT_BYTES);
}

/* faults: calls that the driver refuses are left out; at the end all was given back. */
static void faults(int argc, char **argv)
{
	CUmemoryPool pool = NULL;
	CUdeviceptr p[8] = { 0 };
	int n = 0;

	(void)argc;
	(void)argv;
	client_start();
	for (int i = 0; i < 4 && !pool; i++) {
		CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
					 .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
						       .id = 0 } };

		if (cuMemPoolCreate(&pool, &props) != CUDA_SUCCESS)
			pool = NULL;
	}
	for (int i = 0; i < 4; i++) {
		n += cuMemAllocAsync(&p[n], 20 * MIB, NULL) == CUDA_SUCCESS;
		n += cuMemAllocFromPoolAsync(&p[n], 20 * MIB, pool, NULL) == CUDA_SUCCESS;
		if (i == 1)
			cuMemPoolTrimTo(pool, 0);
	}
	CHECK(n >= 5);
	client_pause("look");
	while (n--)
		for (int i = 0; i < 4 && cuMemFreeAsync(p[n], NULL) != CUDA_SUCCESS; i++)
			;
	OK(cuCtxSynchronize());
	for (int i = 0; i < 4 && cuMemPoolDestroy(pool) != CUDA_SUCCESS; i++)
		;
	for (int i = 0; i < 3; i++)
		free_bytes();
	CHARGED_IS(0, CONTEXT_BYTES);
}

static void *allocate_in_context(void *arg)
{
	CUdeviceptr addr;

	OK(cuCtxSetCurrent(arg));
	OK(cuMemAllocAsync(&addr, 2 * GROWTH_BYTES, NULL));
	return NULL;
}

/* The current pool is changed by another thread while an allocation is on its way to the driver. */
static void swapped(int argc, char **argv)
{
	struct client_held held = client_held_find();
	CUmemoryPool pool;
	CUcontext ctx;

	(void)argc;
	(void)argv;
	ctx = client_start();
	pool = new_pool(0, UINT64_MAX);
	alarm(60);
	client_held_start(&held, allocate_in_context, ctx);
	OK(cuDeviceSetMemPool(0, pool));
	client_held_end(&held);
	SAME(figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 2 * GROWTH_BYTES);
	SAME(client_charged(0), CONTEXT_BYTES + 2 * GROWTH_BYTES);
}

int main(int argc, char **argv)
{
	static const struct client_case cases[] = {
		{ "grow", grow },
		{ "threshold", threshold },
		{ "destroy", destroy },
		{ "destroy-managed", destroy_managed },
		{ "frees", frees },
		{ "other-device", other_device },
		{ "loop", loop },
		{ "capture", capture },
		{ "odd", odd },
		{ "threads", threads },
		{ "pending", pending },
		{ "destroy-pending", destroy_pending },
		{ "destroy-crowd", destroy_crowd },
		{ "destroy-managed-pending", destroy_managed_pending },
		{ "reuse", reuse },
		{ "late", late },
		{ "fragments", fragments },
		{ "faults", faults },
		{ "swapped", swapped },
		{ 0 },
	};

	return client_main(argc, argv, cases);
}
