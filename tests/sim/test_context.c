/* Contexts: what they cost, each thread's stack of them, primary ones, what ends with them, fork. */
#include "check.h"

enum { CONTEXT_MIB = 64 };

static void stack(void)
{
	CUcontext a = NULL, b = NULL, now, popped;
	unsigned long long id_a = 0, id_b = 0;
	unsigned version;
	CUdevice dev;

	OK(cuCtxGetCurrent(&now));
	TRUE(now == NULL);
	EXPECT(cuCtxGetCurrent(NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuCtxGetDevice(&dev), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT(cuCtxPopCurrent_v2(&popped), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT(cuCtxCreate_v2(NULL, 0, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuCtxCreate_v2(&a, 0x3, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuCtxCreate_v2(&a, 0x8000, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuCtxCreate_v2(&a, 0, 9), CUDA_ERROR_INVALID_DEVICE);
	OK(cuCtxCreate_v2(&a, CU_CTX_SCHED_YIELD, 0));
	OK(cuCtxCreate_v4(&b, NULL, 0, 1));
	OK(cuCtxGetCurrent(&now));
	TRUE(now == b);
	OK(cuCtxGetDevice(&dev));
	TRUE(dev == 1);
	OK(cuCtxGetDevice_v2(&dev, a));
	TRUE(dev == 0);
	OK(cuCtxGetId(a, &id_a));
	OK(cuCtxGetId(NULL, &id_b));
	TRUE(id_a && id_b && id_a != id_b);
	OK(cuCtxGetApiVersion(a, &version));
	OK(cuCtxPopCurrent_v2(&popped));
	TRUE(popped == b);
	OK(cuCtxPushCurrent_v2(a));
	OK(cuCtxSetCurrent(b));
	OK(cuCtxPopCurrent_v2(NULL));
	OK(cuCtxGetCurrent(&now));
	TRUE(now == a);
	EXPECT(cuCtxPushCurrent_v2((CUcontext)&a), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT(cuCtxSetCurrent((CUcontext)&a), CUDA_ERROR_INVALID_CONTEXT);
	EXPECT(cuCtxDestroy_v2(NULL), CUDA_ERROR_INVALID_CONTEXT);
	OK(cuCtxDestroy_v2(b));
	EXPECT(cuCtxDestroy_v2(b), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	EXPECT(cuCtxSetCurrent(b), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	OK(cuCtxDestroy_v2(a));
	OK(cuCtxGetCurrent(&now));
	TRUE(now == NULL);
}

static void *use_destroyed(void *arg)
{
	CUcontext ctx = arg;
	CUdeviceptr address;

	EXPECT(cuMemAlloc_v2(&address, 1), CUDA_ERROR_INVALID_CONTEXT);
	OK(cuCtxPushCurrent_v2(ctx));
	OK(cuMemAlloc_v2(&address, 1));
	OK(cuCtxDestroy_v2(ctx));
	OK(cuCtxSetCurrent(NULL));
	return NULL;
}

/* The oldest way to share a context: whoever is last ends it. */
static void attached(void)
{
	CUcontext ctx, same;

	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuCtxAttach(&same, 0));
	TRUE(same == ctx);
	EXPECT(cuCtxAttach(&same, 1), CUDA_ERROR_INVALID_VALUE);
	OK(cuCtxDetach(ctx));
	OK(cuCtxSynchronize());
	OK(cuCtxDetach(ctx));
	EXPECT(cuCtxDetach(ctx), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	EXPECT(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
}

/* Another thread destroys what is current here. */
static void destroyed_elsewhere(void)
{
	CUdeviceptr address;
	CUcontext ctx;
	pthread_t thread;

	OK(cuCtxCreate_v2(&ctx, 0, 0));
	pthread_create(&thread, NULL, use_destroyed, ctx);
	pthread_join(thread, NULL);
	EXPECT(cuMemAlloc_v2(&address, 1), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	EXPECT(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	OK(cuCtxPopCurrent_v2(NULL));
}

static void primary(void)
{
	CUcontext a = NULL, b = NULL;
	CUdeviceptr address;
	unsigned flags;
	int active;

	EXPECT(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
	OK(cuDevicePrimaryCtxSetFlags_v2(0, CU_CTX_SCHED_SPIN));
	EXPECT(cuDevicePrimaryCtxSetFlags_v2(0, 0x8000), CUDA_ERROR_INVALID_VALUE);
	OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
	TRUE(flags == CU_CTX_SCHED_SPIN && !active);
	OK(cuDevicePrimaryCtxRetain(&a, 0));
	OK(cuDevicePrimaryCtxRetain(&b, 0));
	TRUE(a == b);
	EXPECT(cuDevicePrimaryCtxRetain(NULL, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuDevicePrimaryCtxRetain(&b, 7), CUDA_ERROR_INVALID_DEVICE);
	OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
	TRUE(active);
	EXPECT(cuCtxDestroy_v2(a), CUDA_ERROR_INVALID_CONTEXT);
	OK(cuCtxSetCurrent(a));
	OK(cuCtxGetFlags(&flags));
	TRUE(flags == CU_CTX_SCHED_SPIN);
	OK(cuMemAlloc_v2(&address, 1));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	OK(cuMemFree_v2(address));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	EXPECT(cuMemAlloc_v2(&address, 1), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	OK(cuDevicePrimaryCtxRetain(&b, 0));
	OK(cuMemAlloc_v2(&address, 1));
	OK(cuDevicePrimaryCtxReset_v2(0));
	EXPECT(cuMemFree_v2(address), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
	TRUE(!active);
	EXPECT(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
	OK(cuCtxSetCurrent(NULL));
}

/* A context takes memory of the device, and what was allocated in it goes with it. */
static void cost(void)
{
	CUcontext outer, inner;
	CUdeviceptr address;
	uint64_t before;
	size_t value;

	OK(cuCtxCreate_v2(&outer, 0, 0));
	before = check_free_bytes();
	TRUE(before == 1024 * MIB - CONTEXT_MIB * MIB);
	OK(cuCtxCreate_v2(&inner, 0, 0));
	TRUE(check_free_bytes() == before - CONTEXT_MIB * MIB);
	OK(cuMemAlloc_v2(&address, 100 * MIB));
	TRUE(check_free_bytes() == before - (CONTEXT_MIB + 100) * MIB);
	OK(cuCtxDestroy_v2(inner));
	TRUE(check_free_bytes() == before);
	EXPECT(cuCtxGetLimit(&value, CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH),
	       CUDA_ERROR_UNSUPPORTED_LIMIT);
	EXPECT(cuCtxGetLimit(&value, (CUlimit)99), CUDA_ERROR_INVALID_VALUE);
	OK(cuCtxDestroy_v2(outer));
}

/* Stacks above what a context begins with take device memory at once. */
static void limits(void)
{
	const uint64_t stacks = (16384 - 1024) * 2048ull * 2;
	CUcontext ctx;
	uint64_t start;
	size_t value = 0;

	OK(cuCtxCreate_v2(&ctx, 0, 0));
	start = check_free_bytes();
	OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 16380));
	OK(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
	TRUE(value == 16384);
	TRUE(check_free_bytes() == start - stacks);
	OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
	TRUE(check_free_bytes() == start);
	EXPECT(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1 << 20), CUDA_ERROR_INVALID_VALUE);
	OK(cuCtxDestroy_v2(ctx));
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	TRUE(check_free_bytes() == start);
	OK(cuCtxDestroy_v2(ctx));
}

static void *retain_and_reset(void *arg)
{
	CUcontext ctx;

	(void)arg;
	for (int i = 0; i < 100; i++) {
		OK(cuDevicePrimaryCtxRetain(&ctx, 1));
		OK(cuDevicePrimaryCtxReset_v2(1));
	}
	return NULL;
}

/* Threads that end and begin the same context do not meet in the middle. */
static void reset_race(void)
{
	pthread_t thread[3];
	CUcontext ctx;

	for (int i = 0; i < 3; i++)
		pthread_create(&thread[i], NULL, retain_and_reset, NULL);
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	OK(cuCtxCreate_v2(&ctx, 0, 1));
	TRUE(check_free_bytes() == (1024 - CONTEXT_MIB) * MIB);
	OK(cuCtxDestroy_v2(ctx));
}

static void no_room(void)
{
	CUcontext ctx[32];
	int made = 0;

	while (made < 32 && cuCtxCreate_v2(&ctx[made], 0, 0) == CUDA_SUCCESS)
		made++;
	TRUE(made == 1024 / CONTEXT_MIB);
	EXPECT(cuCtxCreate_v2(&ctx[made], 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
	while (made--)
		OK(cuCtxDestroy_v2(ctx[made]));
}

/* A child of an initialised process has no driver, whatever it calls. */
static int forked(void *arg)
{
	CUcontext ctx;
	CUdeviceptr address;
	int count;

	(void)arg;
	EXPECT(cuInit(0), CUDA_ERROR_NOT_INITIALIZED);
	EXPECT(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
	EXPECT(cuCtxGetCurrent(&ctx), CUDA_ERROR_NOT_INITIALIZED);
	EXPECT(cuMemAlloc_v2(&address, 1), CUDA_ERROR_NOT_INITIALIZED);
	EXPECT(cuStreamSynchronize(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_INITIALIZED);
	EXPECT(cuMulticastAddDevice(0, 0), CUDA_ERROR_NOT_INITIALIZED);
	return 0;
}

static int stop_alloc;

static void *alloc_in_loop(void *ctx)
{
	CUdeviceptr address;

	OK(cuCtxSetCurrent(ctx));
	while (!__atomic_load_n(&stop_alloc, __ATOMIC_ACQUIRE)) {
		OK(cuMemAlloc_v2(&address, 4096));
		OK(cuMemFree_v2(address));
	}
	return NULL;
}

/* Forks while another thread holds the driver's lock half of the time. */
static void fork_in_use(void)
{
	pthread_t thread;
	CUcontext ctx;

	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	pthread_create(&thread, NULL, alloc_in_loop, ctx);
	for (int i = 0; i < 20; i++)
		TRUE(check_child(forked, NULL));
	check_let_go(&stop_alloc);
	pthread_join(thread, NULL);
	OK(cuCtxDestroy_v2(ctx));
}

/* Before the parent has begun, a child may. */
static int own_driver(void *arg)
{
	int count = 0;

	(void)arg;
	OK(cuInit(0));
	OK(cuDeviceGetCount(&count));
	return count == 2 ? 0 : 1;
}

static int64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static int one_context(void *arg)
{
	CUcontext ctx;

	(void)arg;
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	return 0;
}

/* Contexts take their time one after another, in whichever processes: a bound that no load breaks. */
static int slow_starts(void *arg)
{
	int64_t begin_ns = monotonic_ns();
	pid_t other;

	(void)arg;
	check_machine("count=1,mem=1g,context=64m,start=30");
	other = fork();
	one_context(NULL);
	if (other == 0)
		_exit(check_failures ? 1 : 0);
	waitpid(other, NULL, 0);
	TRUE(monotonic_ns() - begin_ns >= 60 * 1000000);
	return check_end();
}

int main(void)
{
	TRUE(check_child(slow_starts, NULL));
	check_machine("count=2,mem=1g,context=64m,sms=2");
	TRUE(check_child(own_driver, NULL));
	OK(cuInit(0));
	stack();
	attached();
	destroyed_elsewhere();
	primary();
	cost();
	limits();
	no_room();
	reset_race();
	fork_in_use();
	return check_end();
}
