/*
 * Memory by handle that is mapped in sparse arrays: it is charged while it is, whatever is
 * released. Which case does what is said at it.
 */
#include "client.h"

#include <pthread.h>
#include <sys/wait.h>

/* An array of 64 tiles in a row, of which a piece of memory fills 16. */
enum { TILE = 128, TILES = 64, PIECE_TILES = 16, HANDLE = 2 << 20 };

#define CONTEXT_BYTES (64 * MIB)

static void charged_is(uint64_t handles)
{
	size_t left, total;

	OK(cuMemGetInfo_v2(&left, &total));
	SAME(client_charged(0), CONTEXT_BYTES + handles * HANDLE);
	SAME(left, client_limit(0) - client_charged(0));
}

static CUmemGenericAllocationHandle create(void)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
		.allocFlags = { .usage = CU_MEM_CREATE_USAGE_TILE_POOL },
	};
	CUmemGenericAllocationHandle handle;

	OK(cuMemCreate(&handle, HANDLE, &prop, 0));
	return handle;
}

static CUDA_ARRAY3D_DESCRIPTOR description(void)
{
	return (CUDA_ARRAY3D_DESCRIPTOR){ .Width = TILE * TILES,
					  .Height = TILE,
					  .Format = CU_AD_FORMAT_UNSIGNED_INT32,
					  .NumChannels = 1,
					  .Flags = CUDA_ARRAY3D_SPARSE };
}

static CUarray make_array(void)
{
	CUDA_ARRAY3D_DESCRIPTOR d = description();
	CUarray array;

	OK(cuArray3DCreate_v2(&array, &d));
	return array;
}

/* Of so many tiles from the first on; to unmap without a handle. */
static CUarrayMapInfo step(CUarray array, unsigned first, unsigned count,
			   CUmemGenericAllocationHandle handle)
{
	return (CUarrayMapInfo){
		.resourceType = CU_RESOURCE_TYPE_ARRAY,
		.resource.array = array,
		.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL,
		.subresource.sparseLevel = { .offsetX = first * TILE,
					     .extentWidth = count * TILE,
					     .extentHeight = TILE,
					     .extentDepth = 1 },
		.memOperationType = handle ? CU_MEM_OPERATION_TYPE_MAP :
					     CU_MEM_OPERATION_TYPE_UNMAP,
		.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC,
		.memHandle.memHandle = handle,
		.deviceBitMask = 1,
	};
}

static void map(CUarray array, unsigned piece, CUmemGenericAllocationHandle handle, CUstream stream)
{
	CUarrayMapInfo s = step(array, piece * PIECE_TILES, PIECE_TILES, handle);

	OK(cuMemMapArrayAsync(&s, 1, stream));
}

static void unmap(CUarray array, unsigned piece, CUstream stream)
{
	map(array, piece, 0, stream);
}

/* Memory that nothing but the array holds. */
static void map_new(CUarray array, unsigned piece, CUstream stream)
{
	CUmemGenericAllocationHandle handle = create();

	map(array, piece, handle, stream);
	OK(cuMemRelease(handle));
}

static void finish(void)
{
	OK(cuCtxSynchronize());
}

static void wait_for_word(void *word)
{
	while (!__atomic_load_n((int *)word, __ATOMIC_ACQUIRE))
		usleep(1000);
}

static void let_go(int *word)
{
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
}

static CUstream make_stream(void)
{
	CUstream stream;

	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

/* held: the mapping holds what was released, by either form of the call. */
static void held(int argc, char **argv)
{
	CUmemGenericAllocationHandle handle;
	CUarrayMapInfo s;
	CUarray array;

	(void)argc;
	(void)argv;
	client_start();
	array = make_array();
	charged_is(0);
	map_new(array, 0, NULL);
	finish();
	charged_is(1);
	client_pause("held");
	unmap(array, 0, NULL);
	finish();
	charged_is(0);
	handle = create();
	s = step(array, 0, 1, handle);
	OK(cuMemMapArrayAsync_ptsz(&s, 1, NULL));
	OK(cuMemRelease(handle));
	finish();
	charged_is(1);
	s = step(array, 0, 1, 0);
	OK(cuMemMapArrayAsync_ptsz(&s, 1, NULL));
	finish();
	charged_is(0);
	handle = create();
	map(array, 1, handle, NULL);
	unmap(array, 1, NULL);
	finish();
	charged_is(1);
	OK(cuMemRelease(handle));
	charged_is(0);
	OK(cuArrayDestroy(array));
	client_pause("end");
}

/* ends: with its array, its mipmap, its context. */
static void ends(int argc, char **argv)
{
	CUDA_ARRAY3D_DESCRIPTOR d = description();
	CUmemGenericAllocationHandle handle;
	CUmipmappedArray mipmap;
	CUarrayMapInfo s;
	CUcontext ctx;
	CUarray array;

	(void)argc;
	(void)argv;
	client_start();
	array = make_array();
	map_new(array, 0, NULL);
	map_new(array, 1, NULL);
	finish();
	charged_is(2);
	OK(cuArrayDestroy(array));
	charged_is(0);
	OK(cuMipmappedArrayCreate(&mipmap, &d, 1));
	handle = create();
	s = step(NULL, 0, PIECE_TILES, handle);
	s.resourceType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
	s.resource.mipmap = mipmap;
	OK(cuMemMapArrayAsync(&s, 1, NULL));
	OK(cuMemRelease(handle));
	finish();
	charged_is(1);
	OK(cuMipmappedArrayDestroy(mipmap));
	charged_is(0);
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	array = make_array();
	map_new(array, 0, NULL);
	map_new(array, 1, NULL);
	finish();
	unmap(array, 1, NULL);
	OK(cuCtxDestroy_v2(ctx));
	charged_is(0);
	client_pause("end");
}

/* ordered: it goes when its stream has come to that, and the worker sees it too. */
static void ordered(int argc, char **argv)
{
	CUstream stream;
	CUarray array;
	int word = 0;

	(void)argc;
	(void)argv;
	client_start();
	array = make_array();
	stream = make_stream();
	map_new(array, 0, stream);
	map_new(array, 1, stream);
	OK(cuStreamSynchronize(stream));
	OK(cuLaunchHostFunc(stream, wait_for_word, &word));
	unmap(array, 0, stream);
	map_new(array, 1, stream);
	charged_is(3);
	client_pause("waits");
	charged_is(3);
	let_go(&word);
	OK(cuStreamSynchronize(stream));
	client_pause("gone");
	charged_is(1);
	OK(cuArrayDestroy(array));
	charged_is(0);
}

/* streams: an unmapping that came before the mapping, in another stream, ends nothing. */
static void streams(int argc, char **argv)
{
	CUstream stream, other;
	CUarray array;
	int word = 0;

	(void)argc;
	(void)argv;
	client_start();
	array = make_array();
	stream = make_stream();
	other = make_stream();
	OK(cuLaunchHostFunc(stream, wait_for_word, &word));
	map_new(array, 0, stream);
	unmap(array, 0, other);
	OK(cuStreamSynchronize(other));
	charged_is(1);
	let_go(&word);
	OK(cuStreamSynchronize(stream));
	charged_is(1);
	unmap(array, 0, other);
	OK(cuStreamSynchronize(other));
	charged_is(0);
	map_new(array, 0, stream);
	OK(cuStreamSynchronize(stream));
	unmap(array, 0, other);
	OK(cuStreamSynchronize(other));
	charged_is(0);
	client_pause("end");
}

/* parts: of a mapping that goes in parts all stays until its whole region goes. */
static void parts(int argc, char **argv)
{
	CUarrayMapInfo s;
	CUarray array;

	(void)argc;
	(void)argv;
	client_start();
	array = make_array();
	map_new(array, 0, NULL);
	map_new(array, 1, NULL);
	finish();
	s = step(array, 0, 1, 0);
	OK(cuMemMapArrayAsync(&s, 1, NULL));
	finish();
	charged_is(2);
	s = step(array, 0, TILES, 0);
	OK(cuMemMapArrayAsync(&s, 1, NULL));
	finish();
	charged_is(0);
}

/* batch: all of a call or nothing. */
static void batch(int argc, char **argv)
{
	CUmemGenericAllocationHandle handle[2];
	CUarrayMapInfo steps[4];
	CUarray array;

	(void)argc;
	(void)argv;
	client_start();
	array = make_array();
	map_new(array, 2, NULL);
	finish();
	for (int i = 0; i < 2; i++)
		handle[i] = create();
	steps[0] = step(array, 0, PIECE_TILES, handle[0]);
	steps[1] = step(array, 2 * PIECE_TILES, PIECE_TILES, 0);
	steps[2] = step(array, PIECE_TILES, PIECE_TILES, handle[1]);
	steps[3] = step(array, 1, TILES, 0);
	IS(cuMemMapArrayAsync(steps, 4, NULL), CUDA_ERROR_INVALID_VALUE);
	finish();
	charged_is(3);
	OK(cuMemMapArrayAsync(steps, 3, NULL));
	finish();
	for (int i = 0; i < 2; i++)
		OK(cuMemRelease(handle[i]));
	charged_is(2);
	steps[0] = step(array, 0, TILES, 0);
	OK(cuMemMapArrayAsync(steps, 1, NULL));
	finish();
	charged_is(0);
	IS(cuMemMapArrayAsync(steps, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	IS(cuMemMapArrayAsync(NULL, 1, NULL), CUDA_ERROR_INVALID_VALUE);
}

/* faults: the driver refuses once; at the end nothing is charged. */
static void faults(int argc, char **argv)
{
	CUmemGenericAllocationHandle handle;
	CUarrayMapInfo s;
	CUarray array;

	(void)argc;
	(void)argv;
	client_start();
	array = make_array();
	handle = create();
	s = step(array, 0, PIECE_TILES, handle);
	while (cuMemMapArrayAsync(&s, 1, NULL) != CUDA_SUCCESS)
		;
	OK(cuMemRelease(handle));
	finish();
	charged_is(1);
	s = step(array, 0, PIECE_TILES, 0);
	while (cuMemMapArrayAsync(&s, 1, NULL) != CUDA_SUCCESS)
		;
	finish();
	charged_is(0);
	map_new(array, 0, NULL);
	finish();
	while (cuArrayDestroy(array) != CUDA_SUCCESS)
		charged_is(1);
	charged_is(0);
}

/* child: a fork child begins with nothing, and takes nothing off. */
static void child(int argc, char **argv)
{
	CUarray array;
	int status;
	pid_t pid;

	(void)argc;
	(void)argv;
	client_start();
	array = make_array();
	map_new(array, 0, NULL);
	unmap(array, 0, NULL);
	map_new(array, 0, NULL);
	finish();
	charged_is(1);
	pid = fork();
	if (pid == 0)
		_exit(cuArrayDestroy(array) == CUDA_SUCCESS);
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	charged_is(1);
	OK(cuArrayDestroy(array));
	charged_is(0);
}

enum { THREADS = 4, ROUNDS = 200 };

static CUcontext crowd;
static CUarray crowd_array;

static void *churn(void *arg)
{
	unsigned piece = (unsigned)(uintptr_t)arg;
	CUstream stream;

	OK(cuCtxSetCurrent(crowd));
	stream = make_stream();
	for (int i = 0; i < (CLIENT_SANITIZED ? ROUNDS / 10 : ROUNDS); i++) {
		map_new(crowd_array, piece, stream);
		if (i % 3)
			unmap(crowd_array, piece, stream);
	}
	unmap(crowd_array, piece, stream);
	OK(cuStreamSynchronize(stream));
	return NULL;
}

/* threads: each with a part and a stream of its own, which is never idle; at the end nothing is. */
static void threads(int argc, char **argv)
{
	pthread_t thread[THREADS];

	(void)argc;
	(void)argv;
	crowd = client_start();
	crowd_array = make_array();
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&thread[i], NULL, churn, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	charged_is(0);
}

/* full: what is mapped is all that there is; the limit refuses what is more. */
static void full(int argc, char **argv)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	CUmemGenericAllocationHandle handle;
	CUarray array;

	(void)argc;
	(void)argv;
	client_start();
	array = make_array();
	for (unsigned i = 0; i < TILES / PIECE_TILES; i++)
		map_new(array, i, NULL);
	finish();
	IS(cuMemCreate(&handle, HANDLE, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
	unmap(array, 0, NULL);
	finish();
	OK(cuMemCreate(&handle, HANDLE, &prop, 0));
}

int main(int argc, char **argv)
{
	static const struct client_case cases[] = {
		{ "held", held },
		{ "ends", ends },
		{ "ordered", ordered },
		{ "streams", streams },
		{ "parts", parts },
		{ "batch", batch },
		{ "faults", faults },
		{ "child", child },
		{ "threads", threads },
		{ "full", full },
		{ 0 },
	};

	return client_main(argc, argv, cases);
}
