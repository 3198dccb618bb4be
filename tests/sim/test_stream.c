/* Streams: asynchronous, in order, the legacy stream as a barrier, per-thread streams, callbacks. */
#include "check.h"

static CUfunction spin, fill;

/* Fills one word. */
static void fill_word(CUstream stream, CUdeviceptr address, unsigned value)
{
	uint64_t words = 1;
	void *params[] = { &address, &value, &words };

	OK(check_launch(fill, stream, params));
}

static void arguments(void)
{
	CUstream stream, wild = (CUstream)&stream;
	unsigned flags;
	int priority, least, greatest;
	unsigned long long id_a, id_b;
	CUcontext ctx;

	EXPECT(cuStreamCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuStreamCreate(&stream, 2), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuStreamQuery(wild), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuStreamSynchronize(wild), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuStreamDestroy_v2(wild), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuStreamDestroy_v2(NULL), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuStreamDestroy_v2(CU_STREAM_LEGACY), CUDA_ERROR_INVALID_HANDLE);
	OK(cuCtxGetStreamPriorityRange(&least, &greatest));
	TRUE(least == 0 && greatest < 0);
	OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -99));
	OK(cuStreamGetPriority(stream, &priority));
	TRUE(priority == greatest);
	OK(cuStreamGetFlags(stream, &flags));
	TRUE(flags == CU_STREAM_NON_BLOCKING);
	OK(cuStreamGetId(stream, &id_a));
	OK(cuStreamGetId(NULL, &id_b));
	TRUE(id_a != id_b);
	OK(cuStreamGetCtx(stream, &ctx));
	OK(cuStreamQuery(stream));
	OK(cuStreamDestroy_v2(stream));
	EXPECT(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
	EXPECT(cuStreamDestroy_v2(stream), CUDA_ERROR_INVALID_HANDLE);
}

static void is_asynchronous(void)
{
	CUstream stream;

	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	check_spin(spin, stream, 30);
	EXPECT(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	OK(cuStreamSynchronize(stream));
	OK(cuStreamQuery(stream));
	OK(cuStreamDestroy_v2(stream));
}

/* A destroyed stream still does its work. */
static void destroy_with_work(void)
{
	CUdeviceptr word;
	unsigned value = 0;
	CUstream stream;

	OK(cuMemAlloc_v2(&word, 4));
	OK(cuStreamCreate(&stream, 0));
	check_spin(spin, stream, 10);
	fill_word(stream, word, 7);
	OK(cuStreamDestroy_v2(stream));
	OK(cuMemcpyDtoH_v2(&value, word, 4));
	TRUE(value == 7);
	OK(cuMemFree_v2(word));
}

/* Work submitted to the legacy stream runs between earlier and later work of blocking streams. */
static void legacy_barrier(void)
{
	CUstream blocking, other, free_stream;
	CUdeviceptr word;
	unsigned value = 0;

	OK(cuMemAlloc_v2(&word, 4));
	OK(cuStreamCreate(&blocking, 0));
	OK(cuStreamCreate(&other, 0));
	OK(cuStreamCreate(&free_stream, CU_STREAM_NON_BLOCKING));
	check_spin(spin, blocking, 30);
	fill_word(blocking, word, 1);
	fill_word(NULL, word, 2);
	fill_word(other, word, 3);
	EXPECT(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	EXPECT(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
	OK(cuStreamSynchronize(free_stream));
	EXPECT(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
	OK(cuStreamSynchronize(other));
	OK(cuMemcpyDtoH_v2(&value, word, 4));
	TRUE(value == 3);
	OK(cuStreamQuery(blocking));
	OK(cuStreamDestroy_v2(free_stream));
	OK(cuStreamDestroy_v2(other));
	OK(cuStreamDestroy_v2(blocking));
	OK(cuMemFree_v2(word));
}

/* A non-blocking stream runs while the legacy stream is held. */
static void non_blocking(void)
{
	CUstream stream;
	int flag = 0;

	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuLaunchHostFunc(NULL, check_hold, &flag));
	check_spin(spin, stream, 1);
	OK(cuStreamSynchronize(stream));
	EXPECT(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	check_let_go(&flag);
	OK(cuStreamSynchronize(NULL));
	OK(cuStreamDestroy_v2(stream));
}

struct other_thread {
	CUcontext ctx;
	unsigned long long id;
};

static void *own_id(void *arg)
{
	struct other_thread *t = arg;

	OK(cuCtxSetCurrent(t->ctx));
	OK(cuStreamGetId(CU_STREAM_PER_THREAD, &t->id));
	check_spin(spin, CU_STREAM_PER_THREAD, 1);
	return NULL;
}

/* CU_STREAM_PER_THREAD, and 0 in the _ptsz forms, mean the calling thread's own stream. */
static void per_thread(CUcontext ctx)
{
	unsigned long long legacy, own, own_0, id;
	struct other_thread t = { ctx, 0 };
	pthread_t thread;

	OK(cuStreamGetId(NULL, &legacy));
	OK(cuStreamGetId(CU_STREAM_LEGACY, &id));
	TRUE(id == legacy);
	OK(cuStreamGetId(CU_STREAM_PER_THREAD, &own));
	OK(cuStreamGetId_ptsz(NULL, &own_0));
	OK(cuStreamGetId_ptsz(CU_STREAM_LEGACY, &id));
	TRUE(own == own_0 && own != legacy && id == legacy);
	pthread_create(&thread, NULL, own_id, &t);
	pthread_join(thread, NULL);
	TRUE(t.id != own && t.id != legacy);
	OK(cuCtxSynchronize());
}

static void note(void *arg)
{
	int *order = arg;

	order[0]++;
}

static void callback(CUstream stream, CUresult status, void *arg)
{
	(void)stream;
	TRUE(status == CUDA_SUCCESS);
	note(arg);
}

/* A call from a host function would wait for itself. */
static void call_from_stream(void *arg)
{
	*(CUresult *)arg = cuCtxSynchronize();
}

static void host_functions(void)
{
	CUresult inner = CUDA_SUCCESS;
	int count = 0;

	OK(cuLaunchHostFunc(NULL, call_from_stream, &inner));
	OK(cuStreamSynchronize(NULL));
	TRUE(inner == CUDA_ERROR_NOT_PERMITTED);

	OK(cuLaunchHostFunc(NULL, note, &count));
	OK(cuStreamAddCallback(NULL, callback, &count, 0));
	OK(cuStreamSynchronize(NULL));
	TRUE(count == 2);
	EXPECT(cuLaunchHostFunc(NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuStreamAddCallback(NULL, callback, NULL, 1), CUDA_ERROR_INVALID_VALUE);
}

struct filler {
	CUcontext ctx;
	CUstream stream;
	int launched, wanted;
};

static void *launch_many(void *arg)
{
	struct filler *f = arg;

	OK(cuCtxSetCurrent(f->ctx));
	for (int i = 0; i < f->wanted; i++) {
		check_spin(spin, f->stream, 0);
		__atomic_fetch_add(&f->launched, 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

static int launched(struct filler *f)
{
	return __atomic_load_n(&f->launched, __ATOMIC_ACQUIRE);
}

/* A launch into a full queue, of 1024 with what runs, waits until there is room. */
static void full_queue(CUcontext ctx)
{
	struct filler f = { .ctx = ctx, .wanted = 3000 };
	pthread_t thread;
	int flag = 0;

	OK(cuStreamCreate(&f.stream, CU_STREAM_NON_BLOCKING));
	OK(cuLaunchHostFunc(f.stream, check_hold, &flag));
	pthread_create(&thread, NULL, launch_many, &f);
	while (launched(&f) < 1023)
		usleep(1000);
	usleep(20000);
	TRUE(launched(&f) == 1023);
	EXPECT(cuStreamQuery(f.stream), CUDA_ERROR_NOT_READY);
	check_let_go(&flag);
	pthread_join(thread, NULL);
	OK(cuStreamSynchronize(f.stream));
	OK(cuStreamDestroy_v2(f.stream));
}

static void attributes(void)
{
	CUstreamAttrValue value = { .syncPolicy = CU_SYNC_POLICY_YIELD }, got = { .pad = "" };
	CUstream a, b;

	OK(cuStreamCreate(&a, 0));
	OK(cuStreamCreateWithPriority(&b, 0, -2));
	OK(cuStreamSetAttribute(a, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
	OK(cuStreamCopyAttributes(b, a));
	OK(cuStreamGetAttribute(b, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &got));
	TRUE(got.syncPolicy == CU_SYNC_POLICY_YIELD);
	OK(cuStreamGetAttribute(b, CU_STREAM_ATTRIBUTE_PRIORITY, &got));
	TRUE(got.priority == -2);
	EXPECT(cuStreamGetAttribute(b, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &got),
	       CUDA_ERROR_INVALID_VALUE);
	OK(cuStreamDestroy_v2(b));
	OK(cuStreamDestroy_v2(a));
}

/* Streams wait for values in memory and write them. */
static void memory_operations(void)
{
	CUstreamBatchMemOpParams ops[2] = { { 0 } };
	CUstream writer, waiter;
	CUdeviceptr word;
	uint64_t *pinned;

	OK(cuMemAlloc_v2(&word, 8));
	OK(cuMemsetD8_v2(word, 0, 8));
	OK(cuMemHostAlloc((void **)&pinned, 8, 0));
	*pinned = 0;
	OK(cuCtxSynchronize());
	OK(cuStreamCreate(&writer, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&waiter, CU_STREAM_NON_BLOCKING));
	OK(cuStreamWaitValue32_v2(waiter, word, 5, CU_STREAM_WAIT_VALUE_GEQ));
	OK(cuStreamWriteValue64_v2(waiter, (CUdeviceptr)pinned, 9, 0));
	EXPECT(cuStreamQuery(waiter), CUDA_ERROR_NOT_READY);
	OK(cuStreamWriteValue32_v2(writer, word, 4, 0));
	OK(cuStreamSynchronize(writer));
	EXPECT(cuStreamQuery(waiter), CUDA_ERROR_NOT_READY);
	ops[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	ops[0].writeValue.address = word;
	ops[0].writeValue.value = 6;
	ops[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
	ops[1].waitValue.address = (CUdeviceptr)pinned;
	ops[1].waitValue.value64 = 9;
	ops[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
	OK(cuStreamBatchMemOp_v2(writer, 2, ops, 0));
	OK(cuStreamSynchronize(writer));
	OK(cuStreamSynchronize(waiter));
	TRUE(*pinned == 9);
	EXPECT(cuStreamWaitValue32_v2(waiter, word + 1, 0, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuStreamWriteValue32_v2(waiter, 0x1000, 0, 0), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuStreamWaitValue32_v2(waiter, word, 0, CU_STREAM_WAIT_VALUE_FLUSH),
	       CUDA_ERROR_NOT_SUPPORTED);
	EXPECT(cuStreamBatchMemOp_v2(writer, 0, ops, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuStreamDestroy_v2(waiter));
	OK(cuStreamDestroy_v2(writer));
	OK(cuMemFreeHost(pinned));
	OK(cuMemFree_v2(word));
}

/* Many threads, each with a stream of its own and the shared legacy one. */
static void *crowd(void *ctx)
{
	CUdeviceptr word;
	CUstream stream;
	unsigned value;

	OK(cuCtxSetCurrent(ctx));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc_v2(&word, 4));
	for (unsigned i = 0; i < 50; i++) {
		fill_word(stream, word, i);
		if (i % 10 == 0)
			check_spin(spin, NULL, 0);
		OK(cuMemcpyDtoHAsync_v2(&value, word, 4, stream));
		OK(cuStreamSynchronize(stream));
		TRUE(value == i);
	}
	OK(cuStreamDestroy_v2(stream));
	OK(cuMemFree_v2(word));
	return NULL;
}

static void threads(CUcontext ctx)
{
	pthread_t thread[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, crowd, ctx);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
}

int main(void)
{
	CUcontext ctx = check_start("count=1,mem=1g");

	spin = check_kernel("spin");
	fill = check_kernel("fill");
	arguments();
	is_asynchronous();
	destroy_with_work();
	legacy_barrier();
	non_blocking();
	per_thread(ctx);
	host_functions();
	full_queue(ctx);
	attributes();
	memory_operations();
	threads(ctx);
	OK(cuDevicePrimaryCtxRelease_v2(0));
	return check_end();
}
